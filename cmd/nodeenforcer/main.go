// Command nodeenforcer enforces on a node what admission decided: cgroup values, and eviction under pressure.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/podgrace/podgrace/internal/program/logging"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// usageError is a command line that can't be carried out.
type usageError struct{ error }

// runError is why a daemon ended, which is told in the format of its log.
type runError struct {
	error
	log *logging.Options
}

// failed is the error of a daemon that has run.
func (o *options) failed(err error) error {
	if err == nil {
		return nil
	}
	return runError{err, &o.log}
}

// command returns the exit code: 0, 1 where it failed, 2 where it was called wrongly.
func command(ctx context.Context, args []string, out, log io.Writer) int {
	root := newRoot(out, log)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	told := logging.Default()
	if ran, ok := errors.AsType[runError](err); ok {
		told = *ran.log
	}
	told.Failed(log, "nodeenforcer", err)
	if _, ok := errors.AsType[usageError](err); ok {
		return 2
	}
	return 1
}
