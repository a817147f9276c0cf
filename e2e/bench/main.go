// Command bench measures Podgrace:
//
//	go run -C e2e ./bench NAME [flags]
//
// Without a name it lists what it measures, and with -help after a name the flags. If two sides are compared, they take turns in one run and ratios are printed, since a machine that others use too slows both alike. A
// goal that is not met is no error; a run that proves nothing is.
package main

import (
	"fmt"
	"os"

	"github.com/podgrace/podgrace/e2e/bench/fencer"
	"github.com/podgrace/podgrace/e2e/bench/node"
	"github.com/podgrace/podgrace/e2e/bench/partition"
	"github.com/podgrace/podgrace/e2e/bench/peers"
	"github.com/podgrace/podgrace/e2e/bench/preview"
	"github.com/podgrace/podgrace/e2e/bench/review"
	"github.com/podgrace/podgrace/e2e/bench/volumelock"
	"github.com/podgrace/podgrace/e2e/bench/webhook"
)

var benches = []struct {
	name, what string
	run        func()
}{
	{"webhook", "the webhook beside one that only decodes the pod; -sizes: a large cluster beside a small one", webhook.Main},
	{"peers", "admission beside the API server's own policies, Kyverno and Gatekeeper", peers.Main},
	{"node", "the node enforcer: -hog, -plan, -steady", node.Main},
	{"fencer", "the fencer beside 5,000 nodes", fencer.Main},
	{"volumelock", "the volume lock beside an attacher that looks at nothing", volumelock.Main},
	{"partition", "a database whose node is cut off: by Kubernetes alone, by a person, by the fencer", partition.Main},
	{"review", "podgrace review over 100 to 100,000 manifests", review.Main},
	{"preview", "podgrace preview over 5,000 nodes and 150,000 pods", preview.Main},
}

func main() {
	if len(os.Args) > 1 {
		for _, b := range benches {
			if b.name == os.Args[1] {
				os.Args = os.Args[1:]
				b.run()
				return
			}
		}
	}
	fmt.Fprintln(os.Stderr, "usage: go run -C e2e ./bench NAME [flags]")
	for _, b := range benches {
		fmt.Fprintf(os.Stderr, "  %-10s %s\n", b.name, b.what)
	}
	os.Exit(2)
}
