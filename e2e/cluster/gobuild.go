package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// GoBuild compiles the program in a folder of this repository, "cmd/webhook", for Linux, statically: it needs nothing of where it runs.
func GoBuild(ctx context.Context, out, folder string) error {
	return compile(ctx, out, folder, "build")
}

// GoTestBinary compiles the tests of a folder of this repository, as GoBuild compiles a program.
func GoTestBinary(ctx context.Context, out, folder string) error {
	return compile(ctx, out, folder, "test", "-c")
}

// compile works in the folder: so it is compiled by the go.mod that it belongs to, wherever we are. Paths are left out of what is
// compiled, so that another clone finds it in the cache.
func compile(ctx context.Context, out, folder string, command ...string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return fmt.Errorf("compiling %s: %w", folder, err)
	}
	cmd := exec.CommandContext(ctx, "go", append(command, "-trimpath", "-ldflags=-s -w", "-o", out, ".")...)
	cmd.Dir = filepath.Join(root, folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling %s: %w: %s", folder, err, tail(text, 20))
	}
	return nil
}
