// Command volumelock attaches volumes of CSI drivers that attach nothing themselves, each to one node at a time, until it is proved that the node does not use it any more.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/podgrace/podgrace/cmd/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command returns the exit code: 0, 1 where it failed, 2 where it was called wrongly.
func command(ctx context.Context, args []string, out, log io.Writer) int {
	options := defaultOptions()
	flags := pflag.NewFlagSet("volumelock", pflag.ContinueOnError)
	flags.SortFlags = false
	options.AddFlags(flags)
	tell := flags.Bool("version", false, "print the version and end")
	flags.Usage = func() {
		fmt.Fprintf(log, "volumelock attaches volumes of CSI drivers that attach nothing themselves, each to one node at a time, until it is proved that the node does not use it any more.\n\nUsage:\n  volumelock [flags]\n\nFlags:\n%s", flags.FlagUsages())
	}
	if err := flags.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return 0
	} else if err != nil {
		fmt.Fprintln(log, "volumelock:", err)
		return 2
	}
	if *tell {
		fmt.Fprintln(out, version.Of(version.VolumeLock))
		return 0
	}
	if err := errors.Join(options.Complete(), options.Validate(flags.Args())); err != nil {
		fmt.Fprintln(log, "volumelock:", err)
		return 2
	}
	if err := run(ctx, options, log); err != nil {
		options.log.Failed(log, "volumelock", err)
		return 1
	}
	return 0
}
