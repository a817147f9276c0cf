package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Output runs the program at the path as a child, and returns what it prints and its exit code. stdin may be nil. Where it printed nothing because it failed is
// for the caller to say, who knows its exit codes; the error is that it could not be started, or that a signal ended it.
func (s Starter) Output(ctx context.Context, path string, stdin io.Reader, stderr io.Writer, args ...string) (out []byte, code int, err error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), commandVariable+"="+s.Command, versionVariable+"="+s.Version) // of two values os/exec takes the last
	cmd.Stdin, cmd.Stderr = stdin, stderr
	out, err = cmd.Output()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.Exited() {
		return out, ended.ExitCode(), nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("run %s: %w", filepath.Base(path), err)
	}
	return out, 0, nil
}
