package apiserver

import (
	_ "crypto/sha256" // without which a reference with a digest can't be read, as pkg/util/parsers has them
	_ "crypto/sha512"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
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
// reference can't be read (pkg/util/parsers ParseImageName, 1.36.3).
func tag(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return ""
	}
	if tagged, ok := reference.TagNameOnly(named).(reference.Tagged); ok {
		return tagged.Tag()
	}
	return ""
}
