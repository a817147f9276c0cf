// Command tiers runs the tests, from those that need nothing to those that need a real node, and ends with
// one table: what passed, what failed, and what could not run here and why.
//
//	go run ./e2e/tiers [-race] [TIER...]
//
// Under REQUIRE_ALL=1 a tier that cannot run and a test that is skipped are failures.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/guest"
	"github.com/podgrace/podgrace/e2e/kind"
	"github.com/podgrace/podgrace/e2e/page"
	"github.com/podgrace/podgrace/e2e/vmnode"
)

// tier is a set of packages which need the same things of the machine.
type tier struct {
	name, what string
	dir        string // of the module, from the repository's root
	packages   []string
	args       []string     // for go test
	programs   bool         // needs Kubernetes' programs
	unmet      func() error // why it cannot run here; nil: it always can
}

// live are the arguments of the tiers with a cluster: never cached, and one package at a time, so that two
// control planes do not compete for the same cores.
var live = []string{"-count=1", "-p=1", "-timeout=30m"}

// tiers in the order in which they run.
var tiers = []tier{
	{
		name: "unit", what: "pure decisions, handlers, programs", dir: ".",
		packages: []string{
			"./api/...", "./certs/...", "./cmd/...", "./confirm/...", "./defaulting/...", "./deploy/...", "./docs/...", "./explain/...", "./graceperiod/...", "./guard/...", "./nodeenforcer/...", "./page/...", "./policyfile/...", "./review/...", "./webhook/...",
			"./e2e/cluster/...", "./e2e/tiers/...", "./e2e/bench/...", "./e2e/benchnode/...", "./e2e/benchreview/...", "./e2e/demo/...", "./e2e/guest", "./e2e/vmnode/...", "./e2e/guest/guesttest", "./e2e/kind", "./e2e/kind/runc",
		},
	},
	{
		name: "browser", what: "the page of a review in a headless Chromium", dir: ".",
		packages: []string{"./e2e/page/...", "./e2e/screenshot/..."}, args: live, unmet: page.Supported,
	},
	{
		name: "API server", what: "the webhooks behind a real API server", dir: ".",
		packages: []string{"./e2e/apiserver/...", "./e2e/agreement/...", "./e2e/certificates/...", "./e2e/faults/..."}, args: live, programs: true,
	},
	{
		name: "deploy", what: "what Podgrace is installed by, on a real API server", dir: "e2e/deploy",
		packages: []string{"./..."}, args: live, programs: true,
	},
	{
		name: "monitoring", what: "the alerts, by Prometheus' own promtool", dir: "e2e/monitoring",
		packages: []string{"./..."}, args: live,
	},
	{
		name: "cluster", what: "with the controllers and the scheduler", dir: ".",
		packages: []string{"./e2e/controlplane/..."}, args: live, programs: true,
	},
	{
		name: "node", what: "with a kubelet and containerd", dir: ".",
		packages: []string{"./e2e/node/..."}, args: live, programs: true, unmet: nodeUnmet,
	},
	{
		name: "kind", what: "images, manifests and both certificate modes in a kind cluster", dir: ".",
		packages: []string{"./e2e/kind/box", "./e2e/kind/install"}, args: live, programs: true, unmet: kind.Supported,
	},
	{
		name: "fidelity", what: "our decisions against Kubernetes' own code", dir: "e2e/fidelity",
		packages: []string{"./..."}, args: live, programs: true,
	},
}

// nodeUnmet: some of the node tests need a kubelet, others a virtual machine.
func nodeUnmet() error { return cmp.Or(cluster.NodeSupported(), guest.Supported(), vmnode.Supported()) }

// options are the command line and the environment.
type options struct {
	race, requireAll bool
	only             []string
}

func main() {
	var o options
	flag.BoolVar(&o.race, "race", false, "run with the race detector (slow on few cores)")
	flag.Parse()
	o.only, o.requireAll = flag.Args(), os.Getenv("REQUIRE_ALL") == "1"
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, o, os.Stdout)
	if err != nil && !errors.Is(err, errFailed) { // the closing line stays the last one
		fmt.Fprintln(os.Stderr, "tiers:", err)
	}
	if err != nil {
		os.Exit(1)
	}
}

// errFailed means that the table says the rest.
var errFailed = errors.New("not all tests passed")

func run(ctx context.Context, o options, out io.Writer) error {
	chosen, err := choose(tiers, o.only)
	if err != nil {
		return err
	}
	var rows []row
	for _, t := range chosen {
		fmt.Fprintf(out, "=== %s: %s\n", t.name, t.what)
		rows = append(rows, t.run(ctx, o, out))
	}
	fmt.Fprintf(out, "\n%s%s\n", table(rows), closing(rows))
	if slices.ContainsFunc(rows, func(r row) bool { return r.result == failed }) {
		return errFailed
	}
	return nil
}

// choose picks tiers by name; no names are all of them.
func choose(all []tier, names []string) ([]tier, error) {
	if len(names) == 0 {
		return all, nil
	}
	var chosen []tier
	for _, name := range names {
		i := slices.IndexFunc(all, func(t tier) bool { return t.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no tier %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// run runs one tier and judges it.
func (t tier) run(ctx context.Context, o options, out io.Writer) row {
	start := time.Now()
	if t.unmet != nil {
		if reason := t.unmet(); reason != nil {
			return judgeUnmet(t.name, reason, o.requireAll)
		}
	}
	counted, err := t.test(ctx, o, out)
	return judge(t.name, counted, err, o.requireAll, time.Since(start))
}

// test runs go test and counts its events.
func (t tier) test(ctx context.Context, o options, out io.Writer) (*tally, error) {
	counted := newTally()
	if t.programs {
		if _, err := cluster.Binaries(ctx, out); err != nil {
			return counted, err
		}
	}
	if err := t.checkPackages(ctx); err != nil {
		return counted, err
	}
	args := append([]string{"test", "-json"}, t.args...)
	if o.race {
		args = append(args, "-race")
	}
	cmd := t.command(ctx, append(args, t.packages...)...)
	cmd.Stderr = out
	events, err := cmd.StdoutPipe()
	if err != nil {
		return counted, fmt.Errorf("starting go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return counted, fmt.Errorf("starting go test: %w", err)
	}
	readErr := readEvents(events, func(e event) { fmt.Fprint(out, counted.add(e)) })
	if err := cmd.Wait(); err != nil {
		return counted, fmt.Errorf("go test: %w", err)
	}
	return counted, readErr
}

// checkPackages fails for a pattern without packages, about which go test only warns.
func (t tier) checkPackages(ctx context.Context) error {
	for _, pattern := range t.packages {
		cmd := t.command(ctx, "list", pattern)
		var complaint strings.Builder
		cmd.Stderr = &complaint
		names, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("go list %s: %w: %s", pattern, err, strings.TrimSpace(complaint.String()))
		}
		if len(names) == 0 {
			return fmt.Errorf("%s matches no package", pattern)
		}
	}
	return nil
}

// command is a go command in the tier's module. Its end is asked for, not forced: go passes the signal on, and
// the tests stop what they started.
func (t tier) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = t.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	return cmd
}
