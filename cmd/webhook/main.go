// Command webhook answers the API server's admission reviews of pods and workloads.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// command returns the exit code: 0, 1 where it failed, 2 where it was called wrongly.
func command(ctx context.Context, args []string) int {
	options := defaultOptions()
	flags := pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	flags.SortFlags = false
	options.AddFlags(flags)
	flags.Usage = func() {
		fmt.Fprintf(os.Stderr, "webhook answers the API server's admission reviews: priority, topology spread and grace periods of pods.\n\nUsage:\n  webhook [flags]\n\nFlags:\n%s", flags.FlagUsages())
	}
	if err := flags.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return 0
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "webhook:", err)
		return 2
	}
	if err := errors.Join(options.Complete(), options.Validate(flags.Args())); err != nil {
		fmt.Fprintln(os.Stderr, "webhook:", err)
		return 2
	}
	if err := run(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, "webhook:", err)
		return 1
	}
	return 0
}
