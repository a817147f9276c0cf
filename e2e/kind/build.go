package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/suite"
)

// Targets are those of the Dockerfile, and what their images are called in the manifests.
var Targets = []string{"webhook", "nodeenforcer", "fencer", "volumelock", agentsTarget, "podgrace"}

// agentsTarget is built from packages of Debian.
const agentsTarget = "fencer-agents"

// Image is the name of a target's image with a tag.
func Image(target, tag string) string { return "podgrace/" + target + ":" + tag }

// ImportArchive makes an image of what tar archives, with instructions of a Dockerfile.
func (d *Docker) ImportArchive(ctx context.Context, reference string, instructions []string, tarArgs ...string) error {
	script := `reference=$1 changes=$2; shift 2
tar --create --numeric-owner --file=- "$@" | eval docker import "$changes" - '"$reference"'`
	var changes strings.Builder
	for _, instruction := range instructions {
		fmt.Fprintf(&changes, " --change %q", instruction)
	}
	if _, err := (cluster.Command{Env: d.Environment()}).Run(ctx, "bash", append([]string{"-o", "pipefail", "-c", script, "import", reference, changes.String()}, tarArgs...)...); err != nil {
		return fmt.Errorf("making image %s: %w", reference, err)
	}
	return nil
}

// BuildPause makes the image that the examples' workloads run.
func (l *Lab) BuildPause(ctx context.Context) error {
	return l.BuildProgram(ctx, cluster.PauseImage, "e2e/cluster/pause")
}

// BuildProgram makes an image of nothing but the program in a folder of this repository.
func (l *Lab) BuildProgram(ctx context.Context, reference, folder string) error {
	archive := filepath.Join(l.Dir, filepath.Base(folder)+".tar")
	if err := cluster.BuildImage(ctx, reference, folder, archive); err != nil {
		return err
	}
	_, err := l.Docker.Run(ctx, "load", "--input="+archive)
	return err
}

// Combinations reports whether every combination of installations is asked for, with images whose programs the Dockerfile compiles.
func Combinations() bool { return os.Getenv(suite.AllVariable) == "combinations" }

// compiledInDocker reports whether the Dockerfile compiles the programs. By default this machine does, which has compiled most of them already.
func compiledInDocker() bool { return Combinations() || registryReached() }

// programsImage has a version's programs, as this machine compiled them.
func programsImage(tag string) string { return "localhost/podgrace/programs:" + tag }

// Compile compiles the programs that targets need from the sources in a folder, as the Dockerfile does, into the folder out beside them. A build in Docker
// reaches no proxy and needs the modules' sources instead.
func Compile(ctx context.Context, source, dockerfile, tag string, targets []string) error {
	if compiledInDocker() {
		if _, err := (cluster.Command{Dir: source}).Run(ctx, "go", "mod", "vendor"); err != nil {
			return fmt.Errorf("adding modules to %s: %w", filepath.Base(source), err)
		}
		return nil
	}
	text, err := os.ReadFile(dockerfile)
	if err != nil {
		return fmt.Errorf("reading the Dockerfile: %w", err)
	}
	line, err := buildLine(string(text), targets)
	if err != nil {
		return err
	}
	out := source + "-programs/out"
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("making a folder for programs: %w", err)
	}
	script := cluster.Command{Dir: source, Env: []string{"CGO_ENABLED=0", "VERSION=" + tag, "OUT=" + out}}
	if _, err := script.Run(ctx, "bash", "-c", line); err != nil {
		return fmt.Errorf("compiling the %s version: %w", tag, err)
	}
	return nil
}

// buildLine returns the line with which a Dockerfile compiles the programs, with $OUT as their folder and without the programs that no target needs.
func buildLine(dockerfile string, targets []string) (string, error) {
	found := regexp.MustCompile(`(?m)^\s+(go build .*-o )/out/( .*)$`).FindStringSubmatch(dockerfile)
	if found == nil {
		return "", errors.New("no line of the Dockerfile compiles programs into /out/")
	}
	var words []string
	for word := range strings.FieldsSeq(found[2]) {
		program, isProgram := strings.CutPrefix(word, "./cmd/")
		if !isProgram || slices.ContainsFunc(targets, func(target string) bool { return target == program || target == agentsTarget && program == "fencer" }) {
			words = append(words, word)
		}
	}
	return found[1] + `"$OUT" ` + strings.Join(words, " "), nil
}

// Build builds the images of targets from a folder with the sources that Compile has seen, and gives them a tag.
func (l *Lab) Build(ctx context.Context, source, dockerfile, tag string, targets []string) error {
	args := []string{"build", "--progress=plain", "--network=none", "--file=" + dockerfile, "--build-arg=VERSION=" + tag}
	switch {
	case !compiledInDocker():
		if err := l.Docker.ImportArchive(ctx, programsImage(tag), nil, "--directory="+source+"-programs", "out", "--directory=/", "etc/ssl/certs/ca-certificates.crt"); err != nil {
			return err
		}
		// Nothing of the sources is copied.
		source = source + "-programs"
		args = append(args, "--build-arg=PROGRAMS="+programsImage(tag))
	case !registryReached():
		image, err := l.maker().Go(ctx)
		if err != nil {
			return err
		}
		args = append(args, "--build-arg=GO_IMAGE="+image)
	}
	if !registryReached() {
		// Packages can't be fetched in here: the target is built, without the agents.
		image, err := l.nodeImage(ctx)
		if err != nil {
			return err
		}
		args = append(args, "--build-arg=AGENTS="+image)
	}
	text, err := os.ReadFile(dockerfile)
	if err != nil {
		return fmt.Errorf("reading the Dockerfile: %w", err)
	}
	for _, target := range targets {
		if !strings.Contains(string(text), " AS "+target+"\n") {
			continue // an earlier version
		}
		args := append(slices.Clone(args), "--target="+target, "--tag="+Image(target, tag), source)
		if target == agentsTarget && registryReached() {
			args[slices.Index(args, "--network=none")] = "--network=default"
		}
		if _, err := l.Docker.Run(ctx, args...); err != nil {
			return fmt.Errorf("building image %s: %w", target, err)
		}
	}
	return nil
}
