// Command tiers runs the tests, from those that need nothing to those that need a real node, and ends with
// one table: what passed, what failed, and what could not run here and why.
//
//	go run ./e2e/tiers [-race] [TIER...]
//
// Tiers run one after the other, but for one that mostly waits: it runs beside those that follow, and its output is
// printed in one piece once it has ended and no other tier is speaking.
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
	beside     bool         // runs beside the tiers that follow; see schedule
	unmet      func() error // why it cannot run here; nil: it always can
}

// live are the arguments of the tiers with a cluster: never cached, and one package at a time, so that its control
// planes do not compete for the same cores.
var live = []string{"-count=1", "-p=1", "-timeout=30m"}

// tiers in the order in which they run.
var tiers = []tier{
	{
		name: "unit", what: "pure decisions, handlers, programs", dir: ".",
		packages: []string{
			"./api/...", "./certs/...", "./cmd/...", "./confirm/...", "./defaulting/...", "./deploy/...", "./docs/...", "./explain/...", "./graceperiod/...", "./guard/...", "./nodeenforcer/...", "./page/...", "./policyfile/...", "./review/...", "./version/...", "./webhook/...",
			"./e2e/cluster/...", "./e2e/tiers/...", "./e2e/bench/...", "./e2e/benchnode/...", "./e2e/benchreview/...", "./e2e/demo/...", "./e2e/guest", "./e2e/vmnode/...", "./e2e/guest/guesttest", "./e2e/kind", "./e2e/kind/runc",
		},
	},
	{
		// It mostly waits, for guests whose processor is emulated and for the kubelet's timers. With the tiers that follow it shares
		// nothing that there is one of: addresses come from slots, ports from the kernel, what is built is built under a lock.
		name: "virtual machine", what: "nodes and bare guests in QEMU, with cgroup v2", dir: ".",
		packages: []string{"./e2e/node/guest", "./e2e/node/vm", "./e2e/node/vmenforcer"},
		// Beside others it may take three times as long as alone.
		args: []string{"-count=1", "-p=1", "-timeout=60m"}, programs: true, beside: true, unmet: guestUnmet,
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
		name: "node", what: "with a kubelet and containerd on this host", dir: ".",
		packages: []string{"./e2e/node", "./e2e/node/cgroupv1", "./e2e/node/enforcer", "./e2e/node/ordinary", "./e2e/node/partition"},
		args:     live, programs: true, unmet: cluster.NodeSupported,
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

// guestUnmet: some of these tests run in a bare guest, others on a node in one.
func guestUnmet() error { return cmp.Or(guest.Supported(), vmnode.Supported()) }

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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
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
	rows := schedule{requireAll: o.requireAll, prepare: prepare, test: o.test, out: out}.run(ctx, chosen)
	fmt.Fprintf(out, "\n%s%s\n", table(rows), closing(rows))
	return verdict(rows)
}

// verdict is errFailed unless every tier is ok or skipped.
func verdict(rows []row) error {
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

// prepare builds Kubernetes' programs, if the tier needs them and the cache lacks them.
func prepare(ctx context.Context, t tier, out io.Writer) error {
	if !t.programs {
		return nil
	}
	_, err := cluster.Binaries(ctx, out)
	return err
}

// test runs go test on a tier and counts its events.
func (o options) test(ctx context.Context, t tier, out io.Writer) (*tally, error) {
	counted := newTally()
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
	err = cmd.Wait()
	if ctx.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // whoever did not end in time; most often there is no one
		return counted, context.Cause(ctx)
	}
	if err != nil {
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

// command is a go command in the tier's module.
func (t tier) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = t.dir
	asGroup(cmd)
	return cmd
}

// asGroup gives a command a process group of its own, and has the whole group asked to end, not forced, when the context
// ends: go test does not pass a signal on, and its tests would go on alone, with what they started.
func asGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	cmd.WaitDelay = 2 * time.Minute // the kind tier's tests take up to one to remove their cluster
}
