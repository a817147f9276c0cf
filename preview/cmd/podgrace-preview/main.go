// Command podgrace-preview says where a pod would be scheduled, why not elsewhere, and whom it would cost. "podgrace preview" starts it: it is a program of its own, since it has the
// scheduler of Kubernetes in it.
package main

import (
	"context"
	"os"

	"github.com/podgrace/podgrace/cmd/podgrace/cli"
	"github.com/podgrace/podgrace/cmd/version"
)

func main() {
	t := cli.NewTerminal()
	root := newCommand(t)
	cli.Declare(root, t, "podgrace preview", version.Of("podgrace-preview"))
	os.Exit(cli.Execute(context.Background(), t, root))
}
