package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
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
