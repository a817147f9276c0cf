// Command webhook answers the API server's admission reviews of pods and workloads.
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
	flags := pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	flags.SortFlags = false
	options.AddFlags(flags)
	tell := flags.Bool("version", false, "print the version and end")
	ask := flags.Bool("ask", false, "serve nothing: have the API server call the webhook, and end with 0 if a replica answers (helm test)")
	flags.Usage = func() {
		fmt.Fprintf(log, "webhook answers the API server's admission reviews: priority, topology spread and grace periods of pods.\n\nUsage:\n  webhook [flags]\n\nFlags:\n%s", flags.FlagUsages())
	}
	if err := flags.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return 0
	} else if err != nil {
		fmt.Fprintln(log, "webhook:", err)
		return 2
	}
	if *tell {
		fmt.Fprintln(out, version.Of(version.Webhook))
		return 0
	}
	if err := errors.Join(options.Complete(), options.Validate(flags.Args())); err != nil {
		fmt.Fprintln(log, "webhook:", err)
		return 2
	}
	do := run
	if *ask {
		do = askAPIServer
	}
	if err := do(ctx, options, log); err != nil {
		options.log.Failed(log, "webhook", err)
		return 1
	}
	return 0
}
