package apiserver

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The grammar of an image reference (github.com/distribution/reference v0.6.0 regexp.go), which pkg/util/parsers
// ParseImageName goes by.
const (
	imageComponent = `[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*`
	imagePath      = imageComponent + `(?:/` + imageComponent + `)*`
	imageLabel     = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
	imageDomain    = `(?:` + imageLabel + `(?:\.` + imageLabel + `)*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?`
	imageTag       = `[\w][\w.-]{0,127}`
	imageDigest    = `[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*[:][[:xdigit:]]{32,}`
	// maxImagePath is RepositoryNameTotalLengthMax.
	maxImagePath = 255
)

var (
	imageReference  = regexp.MustCompile(`^((?:` + imageDomain + `/)?` + imagePath + `)(?::(` + imageTag + `))?(?:@(` + imageDigest + `))?$`)
	imageName       = regexp.MustCompile(`^(?:` + imageDomain + `/)?(` + imagePath + `)$`)
	imageIdentifier = regexp.MustCompile(`^[a-f0-9]{64}$`)
	// knownDigest: an unknown algorithm or a wrong length is an error.
	knownDigest = regexp.MustCompile(`^(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128})$`)
)

// pullPolicy is Always where the image's tag is latest or left out (SetDefaults_Container, 1.36.3). A reference that can't
// be read has no tag.
func pullPolicy(image string) corev1.PullPolicy {
	if tag(image) == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// tag is the tag of an image: latest where there is neither tag nor digest, and empty where there is a digest only or the
// reference can't be read.
func tag(image string) string {
	domain, rest := imageParts(image)
	repository, _, _ := strings.Cut(rest, ":")
	if imageIdentifier.MatchString(image) || strings.ToLower(repository) != repository {
		return ""
	}
	parts := imageReference.FindStringSubmatch(domain + "/" + rest)
	if parts == nil || parts[3] != "" && !knownDigest.MatchString(parts[3]) {
		return ""
	}
	if path := imageName.FindStringSubmatch(parts[1]); path != nil && len(path[1]) > maxImagePath {
		return ""
	}
	if parts[2] == "" && parts[3] == "" {
		return "latest"
	}
	return parts[2]
}

// imageParts completes a short name as splitDockerDomain does: a name without a host is one of docker.io.
func imageParts(image string) (domain, rest string) {
	const hub, official = "docker.io", "library/"
	first, after, slash := strings.Cut(image, "/")
	switch {
	case !slash:
		return hub, official + image
	case first == "index.docker.io":
		domain, rest = hub, after
	case first == "localhost" || strings.ContainsAny(first, ".:") || strings.ToLower(first) != first:
		domain, rest = first, after
	default:
		domain, rest = hub, image
	}
	if domain == hub && !strings.Contains(rest, "/") {
		rest = official + rest
	}
	return domain, rest
}
