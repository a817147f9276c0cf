// Command fencer shows silent nodes, has them powered off where a FencePolicy says so, and releases their pods on evidence.
package main

import (
	"context"
	"io"

	"github.com/podgrace/podgrace/internal/program/replica"
	"github.com/podgrace/podgrace/internal/program/version"
)

func main() {
	o := defaultOptions()
	replica.Command{
		Name: "fencer", Program: version.Fencer, Does: "shows silent nodes, has them powered off where a FencePolicy says so, and releases their pods on evidence.",
		Flags: o, Log: &o.Log, Run: func(ctx context.Context, log io.Writer) error { return run(ctx, o, log) },
	}.Main()
}
