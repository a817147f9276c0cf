package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// run does what a tier is there for, and counts it.
func (o options) run(ctx context.Context, t tier, out io.Writer) (*tally, error) {
	counted := newTally()
	var err error
	switch {
	case t.do != nil:
		err = t.do(ctx, out)
	case len(t.command) > 0:
		cmd := t.start(ctx, t.command...)
		cmd.Stdout, cmd.Stderr = out, out
		err = finish(ctx, cmd, counted, cmd.Start())
	default:
		return counted, o.test(ctx, t, counted, out)
	}
	if err == nil {
		counted.passed++
	}
	return counted, err
}

// test runs go test on a tier and counts its events.
func (o options) test(ctx context.Context, t tier, counted *tally, out io.Writer) error {
	if err := t.checkPackages(ctx); err != nil {
		return err
	}
	// A package that hangs is ended a little before its tier is: go test then says where each goroutine stands.
	args := append([]string{"go", "test", "-json", fmt.Sprintf("-timeout=%s", t.limit*9/10)}, t.args...)
	if o.race {
		args = append(args, "-race")
	}
	cmd := t.start(ctx, append(args, t.packages...)...)
	cmd.Stderr = out
	events, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("starting go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting go test: %w", err)
	}
	readErr := readEvents(events, func(e event) { fmt.Fprint(out, counted.add(e)) })
	if err := finish(ctx, cmd, counted, nil); err != nil {
		return err
	}
	return readErr
}

// finish waits for a command that was started, and counts what it cost.
func finish(ctx context.Context, cmd *exec.Cmd, counted *tally, err error) error {
	if err != nil {
		return fmt.Errorf("starting %s: %w", cmd.Args[0], err)
	}
	err = cmd.Wait()
	counted.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if ctx.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // those that did not end in time; most often there is no one
		if running := counted.running(); len(running) > 0 {
			return fmt.Errorf("%w, at %s", context.Cause(ctx), strings.Join(running, ", "))
		}
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args[:2], " "), err)
	}
	return nil
}

// checkPackages fails for a pattern without packages, about which go test only warns.
func (t tier) checkPackages(ctx context.Context) error {
	cmd := t.start(ctx, append([]string{"go", "list", "-e=false", "-f", "{{.Dir}}"}, t.packages...)...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if _, err := cmd.Output(); err != nil {
		return fmt.Errorf("go list %s: %w: %s", strings.Join(t.packages, " "), err, strings.TrimSpace(complaint.String()))
	}
	if text := complaint.String(); strings.Contains(text, "matched no packages") {
		return errors.New(strings.TrimSpace(text))
	}
	return nil
}

// start is a command in the tier's module.
func (t tier) start(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = filepath.Join(t.root, t.dir)
	asGroup(cmd)
	return cmd
}

// asGroup gives a command a process group of its own, and has the whole group asked to end, not forced, when the context
// ends: go test does not pass a signal on, and its tests would go on alone, with what they started.
func asGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	cmd.WaitDelay = 2 * time.Minute // the kind tier's tests take up to one to remove their cluster
}
