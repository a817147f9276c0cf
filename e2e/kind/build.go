package kind

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// targets of the Dockerfile, and what their images are called in the manifests.
var targets = []string{"webhook", "nodeenforcer", "podgrace"}

// Image is the name of a target's image with a tag.
func Image(target, tag string) string { return "podgrace/" + target + ":" + tag }

// goImage is a base image for the Dockerfile made of this machine's Go and the node image's Debian.
func goImage() string { return "localhost/podgrace/go:" + runtime.Version() }

// importGo makes goImage, if the daemon has none.
func (l *Lab) importGo(ctx context.Context) error {
	if l.Docker.hasImage(ctx, goImage()) {
		return nil
	}
	goroot, err := run(ctx, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	name := filepath.Base(goroot)
	return l.Docker.importArchive(ctx, goImage(), []string{"ENV PATH=/usr/local/go/bin:/usr/bin:/bin", "ENV GOTOOLCHAIN=local"},
		"--exclude="+name+"/test", "--transform=s,^"+name+"/,usr/local/go/,S",
		"--directory="+l.debian, ".", "--directory=/", "etc/ssl/certs/ca-certificates.crt", "--directory="+filepath.Dir(goroot), name)
}

// importArchive makes an image of what tar archives, with instructions of a Dockerfile.
func (d *Docker) importArchive(ctx context.Context, reference string, instructions []string, tarArgs ...string) error {
	script := `reference=$1 changes=$2; shift 2
tar --create --numeric-owner --file=- "$@" | eval docker import "$changes" - '"$reference"'`
	var changes strings.Builder
	for _, instruction := range instructions {
		fmt.Fprintf(&changes, " --change %q", instruction)
	}
	if _, err := (command{env: d.environment()}).run(ctx, "bash", append([]string{"-o", "pipefail", "-c", script, "import", reference, changes.String()}, tarArgs...)...); err != nil {
		return fmt.Errorf("making image %s: %w", reference, err)
	}
	return nil
}

// BuildPause makes the image that the examples' workloads run.
func (l *Lab) BuildPause(ctx context.Context) error {
	archive := filepath.Join(l.Dir, "pause.tar")
	if err := cluster.BuildImage(ctx, cluster.PauseImage, modulePath+"/e2e/cluster/pause", archive); err != nil {
		return err
	}
	_, err := l.Docker.Run(ctx, "load", "--input="+archive)
	return err
}

// Build builds the images from a folder with the sources, and gives them a tag.
func (l *Lab) Build(ctx context.Context, source, dockerfile, tag string) error {
	args := []string{"build", "--progress=plain", "--network=none", "--file=" + dockerfile, "--build-arg=VERSION=" + tag}
	if !registryReached() {
		if err := l.importGo(ctx); err != nil {
			return err
		}
		args = append(args, "--build-arg=GO_IMAGE="+goImage())
	}
	for _, target := range targets {
		if _, err := l.Docker.Run(ctx, append(args, "--target="+target, "--tag="+Image(target, tag), source)...); err != nil {
			return fmt.Errorf("building image %s: %w", target, err)
		}
	}
	return nil
}
