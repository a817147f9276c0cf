// Command webhook answers the API server's admission reviews of pods and workloads.
package main

import (
	"context"
	"io"

	"github.com/podgrace/podgrace/internal/program/replica"
	"github.com/podgrace/podgrace/internal/program/version"
)

func main() { command(defaultOptions()).Main() }

// command is how the webhook is called, to do what the options say once the flags are in them.
func command(o *options) replica.Command {
	return replica.Command{
		Name: "webhook", Program: version.Webhook, Does: "answers the API server's admission reviews: priority, topology spread and grace periods of pods.",
		Flags: o, Log: &o.Log, Run: func(ctx context.Context, log io.Writer) error {
			if o.ask {
				return askAPIServer(ctx, o, log)
			}
			return run(ctx, o, log)
		},
	}
}
