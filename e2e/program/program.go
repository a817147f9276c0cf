// Package program is what the commands of the laboratory begin with.
package program

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main reads a command's flags and runs it until it is done or is told to end. An error is printed after its name and ends the process with 1. The flags
// are a set of their own: libraries put theirs into flag.CommandLine.
func Main(name string, flags func(*flag.FlagSet), run func(context.Context) error) {
	f := flag.NewFlagSet(name, flag.ExitOnError)
	flags(f)
	_ = f.Parse(os.Args[1:]) // it exits where it fails
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := unexpected(f)
	if err == nil {
		err = run(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func unexpected(f *flag.FlagSet) error {
	if f.NArg() == 0 {
		return nil
	}
	return fmt.Errorf("unexpected argument %q", f.Arg(0))
}

// None are the flags of a command that has none.
func None(*flag.FlagSet) {}

// Positive says that a flag must be above 0; nil: it is.
func Positive[T ~int | ~int64](name string, value T) error {
	if value > 0 {
		return nil
	}
	return fmt.Errorf("-%s: %v is not above 0", name, value)
}
