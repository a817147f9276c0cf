package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Command is a program to run, with more than the usual surroundings.
type Command struct {
	Dir string
	Env []string
}

// Run runs a program and returns its standard output; the error has the end of what it printed.
func (c Command) Run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = c.Dir, append(os.Environ(), c.Env...)
	var out, all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both{&out, &all}, &all
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, Tail(all.Bytes(), 30))
	}
	return strings.TrimSpace(out.String()), nil
}

// both writes to a and b: a alone is the output, b also has the complaints.
type both struct{ a, b *bytes.Buffer }

func (w *both) Write(p []byte) (int, error) {
	w.b.Write(p)
	return w.a.Write(p)
}

// Run is Command.Run without anything special.
func Run(ctx context.Context, name string, args ...string) (string, error) {
	return Command{}.Run(ctx, name, args...)
}

// GoBuild compiles the program in a folder of this repository, "cmd/webhook", for Linux, statically: it needs nothing of where it runs.
func GoBuild(ctx context.Context, out, folder string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	return GoBuildOf(ctx, root, out, folder)
}

// GoBuildOf is GoBuild for the repository as it was exported into a root.
func GoBuildOf(ctx context.Context, root, out, folder string) error {
	return compile(ctx, root, out, folder, "CGO_ENABLED=0", "build")
}

// GoBuildRace is GoBuild with the race detector, which takes a C compiler and is not static.
func GoBuildRace(ctx context.Context, out, folder string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	return compile(ctx, root, out, folder, "CGO_ENABLED=1", "build", "-race")
}

// GoTestBinary compiles the tests of a folder of this repository, as GoBuild compiles a program.
func GoTestBinary(ctx context.Context, out, folder string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	return compile(ctx, root, out, folder, "CGO_ENABLED=0", "test", "-c")
}

// compile works in the folder: so it is compiled by the go.mod that it belongs to, wherever we are. Paths and the commit are left out of what is
// compiled, so that another clone finds it in the cache.
func compile(ctx context.Context, root, out, folder, cgo string, command ...string) (err error) {
	if out, err = filepath.Abs(out); err != nil {
		return fmt.Errorf("compiling %s: %w", folder, err)
	}
	there := Command{Dir: filepath.Join(root, folder), Env: []string{cgo, "GOOS=linux"}}
	if _, err := there.Run(ctx, "go", append(command, "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, ".")...); err != nil {
		return fmt.Errorf("compiling %s: %w", folder, err)
	}
	return nil
}
