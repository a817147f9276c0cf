package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// repository is where releases are, and what the CLI's archives are downloaded from.
const repository = "https://github.com/podgrace/podgrace"

// release is one version of one commit.
type release struct {
	Version  string // a tag, as v1.2.3
	Commit   string
	Date     time.Time // of the commit, in UTC
	Registry string    // of the images, without a slash at its end
	// CommandLines and Nodes are the platforms that it is made for: all of them, but in a test. Nodes are among CommandLines.
	CommandLines, Nodes []platform
}

// tag is a semantic version with a v, and without build metadata, which tags of images can't have (semver.org 2.0.0).
var tag = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// chartVersion is the version without its v, as Helm's charts have it.
func (r release) chartVersion() string { return strings.TrimPrefix(r.Version, "v") }

// chartFile is the chart's archive, as Helm names it.
func (r release) chartFile() string { return "podgrace-" + r.chartVersion() + ".tgz" }

// preview reports whether the version is before one.
func (r release) preview() bool { return strings.Contains(r.Version, "-") }

// linkerFlags write the version, the commit and its date into a program.
func (r release) linkerFlags() string {
	const variables = "github.com/podgrace/podgrace/internal/program/version.linked"
	return fmt.Sprintf("-s -w -X %[1]s=%[2]s -X %[1]sCommit=%[3]s -X %[1]sDate=%[4]s", variables, r.Version, r.Commit, r.Date.Format(time.RFC3339))
}

// platform is an operating system and an architecture, as Go and OCI name them.
type platform struct{ OS, Arch string }

func (p platform) String() string { return p.OS + "/" + p.Arch }

// program is the file name of a program on the platform.
func (p platform) program(name string) string {
	if p.OS == "windows" {
		return name + ".exe"
	}
	return name
}

// The command line is for people's machines, the images for nodes.
var (
	commandLines = []platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}
	nodes        = []platform{{"linux", "amd64"}, {"linux", "arm64"}}
)

// archive is the file name of the command line's archive.
func (r release) archive(p platform) string {
	kind := ".tar.gz"
	if p.OS == "windows" {
		kind = ".zip"
	}
	return fmt.Sprintf("podgrace_%s_%s_%s%s", r.Version, p.OS, p.Arch, kind)
}

// materials is the file name of the SBOM of a program in an image. That of the command line's archives is the archive's with the same ending.
func (r release) materials(program string, p platform) string {
	return fmt.Sprintf("%s_%s_image_%s_%s.cdx.json", program, r.Version, p.OS, p.Arch)
}

// image is a container image. Programs are in /usr/local/bin, the first one is the entry point.
type image struct {
	Name     string
	Programs []string
	User     string
}

// images have no fencer-agents: it is a Debian with fence agents and not made of this repository alone (docs/releasing.md).
var images = []image{
	{"webhook", []string{"webhook"}, "65532:65532"},
	{"nodeenforcer", []string{"nodeenforcer"}, "0:0"},
	{"fencer", []string{"fencer"}, "65532:65532"},
	{"volumelock", []string{"volumelock"}, "65532:65532"},
	{"podgrace", []string{"podgrace"}, "65532:65532"},
	{"preview", []string{"podgrace", "podgrace-preview"}, "65532:65532"},
}

// modules are the folders of programs that are not in the product's own module.
var modules = map[string]string{"podgrace-preview": "preview"}

// made is an image that was made, with the digests of its index and of each platform's manifest.
type made struct {
	image
	Digest    string
	Platforms map[platform]string
}

// checksums are lines as sha256sum reads them, by name. Digests are hexadecimal.
func checksums(digests map[string]string) []byte {
	var lines []string
	for name, digest := range digests {
		lines = append(lines, strings.TrimPrefix(digest, "sha256:")+"  "+name+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a[64:], b[64:]) })
	return []byte(strings.Join(lines, ""))
}

// notes are the version's section of the changelog, without its heading.
func (r release) notes(changelog string) (string, bool) {
	_, section, found := strings.Cut("\n"+changelog, "\n## "+r.Version+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	return strings.TrimSpace(section) + "\n", found
}

// signing are the commands that sign what was pushed. Signatures are for digests: a tag may be moved. Cosign asks for a certificate of the workflow's own
// identity (keyless) and puts it into the log of sigstore.
func (r release) signing(images []made, chartDigest string) [][]string {
	var commands [][]string
	for _, i := range images {
		commands = append(commands, []string{"cosign", "sign", "--yes", r.reference(i.Name) + "@" + i.Digest})
		for _, p := range r.Nodes {
			for _, program := range i.Programs {
				commands = append(commands, []string{"cosign", "attest", "--yes", "--type=cyclonedx", "--predicate=" + r.materials(program, p), r.reference(i.Name) + "@" + i.Platforms[p]})
			}
		}
	}
	return append(commands,
		[]string{"cosign", "sign", "--yes", r.chartReference() + "@" + chartDigest},
		[]string{"cosign", "sign-blob", "--yes", "--bundle=" + signature, checksumsFile})
}

// The files that others are proven by.
const (
	checksumsFile = "checksums.txt"
	imagesFile    = "images.txt" // outside the release's page: for the attestation of the images, as checksums.txt is for that of the files
	signature     = checksumsFile + ".sigstore.json"
	notesFile     = "notes.md"
)

// reference is an image without tag or digest.
func (r release) reference(name string) string { return r.Registry + "/" + name }

// chartReference is the chart as Helm pulls it, without oci:// and its version.
func (r release) chartReference() string { return r.Registry + "/charts/podgrace" }

// page are the commands that make the release's page, with the files beside those that prove them. It is a draft, which only maintainers see: what else
// proves the files is not there yet. Where an earlier run has left a draft that one is used: GitHub would make a second one for the same tag.
func (r release) page(files []string, draft bool) [][]string {
	about := []string{"--draft", "--verify-tag", "--title=" + r.Version, "--notes-file=" + notesFile}
	if r.preview() {
		about = append(about, "--prerelease")
	}
	files = slices.Concat(files, []string{checksumsFile, signature})
	if draft {
		return [][]string{slices.Concat([]string{"gh", "release", "edit", r.Version}, about), slices.Concat([]string{"gh", "release", "upload", r.Version, "--clobber"}, files)}
	}
	return [][]string{slices.Concat([]string{"gh", "release", "create", r.Version}, about, files)}
}

// showing is the command that shows the page to everybody. It is the workflow's last step.
func (r release) showing() []string {
	return []string{"gh", "release", "edit", r.Version, "--draft=false", "--verify-tag"}
}
