// Command volumelock attaches volumes of CSI drivers that attach nothing themselves, each to one node at a time, until it is proved that the node does not use it any more.
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
		Name: "volumelock", Program: version.VolumeLock,
		Does:  "attaches volumes of CSI drivers that attach nothing themselves, each to one node at a time, until it is proved that the node does not use it any more.",
		Flags: o, Log: &o.Log, Run: func(ctx context.Context, log io.Writer) error { return run(ctx, o, log) },
	}.Main()
}
