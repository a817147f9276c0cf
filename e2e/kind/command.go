package kind

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// command is a program to run, with more than the usual surroundings.
type command struct {
	dir   string
	env   []string
	stdin *os.File
}

// run runs a program and returns its standard output; the error has the end of what it printed.
func (c command) run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	if c.stdin != nil {
		cmd.Stdin = c.stdin
	}
	var out, all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both{&out, &all}, &all
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, cluster.Tail(all.Bytes(), 30))
	}
	return strings.TrimSpace(out.String()), nil
}

// both writes to a and b: a alone is the output, b also has the complaints.
type both struct{ a, b *bytes.Buffer }

func (w *both) Write(p []byte) (int, error) {
	w.b.Write(p)
	return w.a.Write(p)
}

// run is command.run without anything special.
func run(ctx context.Context, name string, args ...string) (string, error) {
	return command{}.run(ctx, name, args...)
}
