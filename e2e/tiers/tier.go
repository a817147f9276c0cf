package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/fencing/agents"
	"github.com/podgrace/podgrace/e2e/kind"
	"github.com/podgrace/podgrace/e2e/page"
	"github.com/podgrace/podgrace/e2e/vm"
)

// tier is a set of packages which need the same things of the machine, or a command.
type tier struct {
	name, what string
	root, dir  string // the repository, and in it the module's folder
	packages   []string
	args       []string // for go test
	// Instead of tests, a program with its arguments, or what is done here; each counts as one test.
	command []string
	do      func(ctx context.Context, out io.Writer) error
	after   []string     // tiers that make what it needs
	shares  string       // what the machine has one of: of tiers that share it one runs at a time
	unmet   func() error // why it cannot run here; nil: it always can
	// cores is how many it keeps busy on average; the closing table has it, but for what runs in containers (kind's and node's). What waits runs beside others by it.
	cores float64
	// limit is how long it may take, beside others and on a machine that is busy. It does not bound what is well, but has the
	// closing table name what hangs.
	limit time.Duration
}

// live are the arguments of the tiers with a cluster: never cached, and one package at a time, so that its control
// planes do not compete for the same cores.
var live = []string{"-count=1", "-p=1"}

// The tiers that make what others need. They take no time where it is there.
const (
	controlPlane = "control plane's programs"
	nodePrograms = "node's programs"
)

// hostNode is the one node that a machine can have (cluster.StartKubelet): who waits for it would keep cores that others could use.
const hostNode = "the host's node"

// builds builds those of Kubernetes' programs that the cache lacks.
func builds(programs ...string) func(context.Context, io.Writer) error {
	return func(ctx context.Context, out io.Writer) error {
		_, err := cluster.Binaries(ctx, out, programs...)
		return err
	}
}

// tiers in the order in which they begin where there is room: first what compiles most where nothing is cached, by one core in the end,
// then the longest.
var tiers = []tier{
	{
		name: controlPlane, what: "of Kubernetes, built once a version", cores: 2, limit: 40 * time.Minute,
		do: builds(cluster.Options{ControllerManager: true, Scheduler: true}.Programs()...),
	},
	{
		name: nodePrograms, what: "of Kubernetes, built once a version", cores: 2, limit: 40 * time.Minute, after: []string{controlPlane},
		do: builds("kubelet", "kubeadm", "kube-proxy"),
	},
	{
		name: "lint", what: "the linter, on all modules", dir: ".", command: []string{"make", "lint"}, cores: 1.5, limit: 40 * time.Minute,
	},
	{
		name: "monitoring", what: "the alerts, by Prometheus' own promtool", dir: "e2e/monitoring",
		packages: []string{"./..."}, args: live, cores: 0.4, limit: 40 * time.Minute, // it compiles promtool where that is not cached
	},
	{
		// With the others it shares nothing that there is one of: addresses come from slots, ports from the kernel, what is built
		// is built under a lock.
		name: "virtual machine", what: "bare guests, a node with the enforcer and one with the volume lock in QEMU, with cgroup v2", dir: "e2e",
		packages: []string{"./node/guest", "./node/vm", "./volumelock/vm"},
		args:     live, after: []string{controlPlane, nodePrograms}, unmet: machinesUnmet, cores: 1, limit: 80 * time.Minute, // 20 minutes where nothing else runs, three times that on a machine that is busy
	},
	{
		name: "kind", what: "images, manifests and both certificate modes in a kind cluster", dir: "e2e",
		packages: []string{"./kind/noregistry/box", "./kind/install"}, args: live, after: []string{controlPlane, nodePrograms}, unmet: kind.Supported,
		cores: 0.6, limit: kindLimit(),
	},
	{
		name: "node", what: "with a kubelet and containerd on this host", dir: "e2e",
		packages: []string{"./node", "./node/cgroupv1", "./node/host", "./node/ordinary", "./node/partition"},
		args:     live, after: []string{controlPlane, nodePrograms}, shares: hostNode, unmet: cluster.NodeSupported, cores: 0.4, limit: 30 * time.Minute,
	},
	{
		name: "fencing", what: "ways to power machines off, against fence agents and a BMC that others wrote, and machines in QEMU that are cut off", dir: "e2e",
		packages: []string{"./fencing/..."}, args: live, after: []string{controlPlane, nodePrograms}, unmet: func() error { return cmp.Or(agents.Supported(), vm.NodeSupported()) },
		cores: 0.5, limit: 60 * time.Minute, // some 25 minutes where nothing else runs, so that it is not the last one, beside which the machine has nothing to do
	},
	{
		name: "unit", what: "pure decisions, handlers, programs", dir: ".",
		packages: []string{"./..."}, cores: 1, limit: 20 * time.Minute,
	},
	{
		name: "preview", what: "the scheduler of Kubernetes as previews ask it", dir: "preview",
		packages: []string{"./..."}, cores: 1, limit: 20 * time.Minute,
	},
	{
		name: "release", what: "what a release consists of, made for three platforms, opened and pushed to a registry of the test", dir: "release",
		// Fourteen builds, Helm and krew. Where nothing is cached it compiles for two platforms that nothing else compiles for, and type-checks for three.
		packages: []string{"./..."}, args: live, cores: 1.2, limit: 60 * time.Minute,
	},
	{
		name: "scheduler", what: "verdicts of previews against kube-scheduler, with a real API server and nodes without a kubelet", dir: "e2e/preview",
		packages: []string{"./..."}, args: live, after: []string{controlPlane}, cores: 0.6, limit: 20 * time.Minute,
	},
	{
		name: "laboratory", what: "what the tiers are run and measured with, and schemas of what is shipped and printed", dir: "e2e",
		packages: []string{
			"./chaos/plan", "./cluster/...", "./schema", "./tiers/...", "./benchfencer/...", "./benchnode/...", "./benchpartition/...", "./benchpeers/...", "./benchpreview/...", "./benchreview/...", "./benchvolumelock/...", "./demo/...", "./firstday", "./fuzz", "./measure", "./processclock", "./vm", "./vm/agent", "./vm/guesttest", "./wire",
		},
		cores: 1, limit: 20 * time.Minute,
	},
	{
		name: "API server", what: "the webhooks behind a real API server", dir: "e2e",
		packages: []string{"./apiserver/...", "./agreement/...", "./bench/...", "./certificates/...", "./faults/..."}, args: live,
		after: []string{controlPlane}, cores: 0.4, limit: 30 * time.Minute,
	},
	{
		name: "deploy", what: "what Podgrace is installed by, on a real API server", dir: "e2e/deploy",
		packages: []string{"./..."}, args: live, after: []string{controlPlane}, cores: 0.4, limit: 30 * time.Minute, // so it follows the API server, instead of running alone at the end
	},
	{
		name: "cluster", what: "with the controllers and the scheduler", dir: "e2e",
		packages: []string{"./controlplane/...", "./attacks/...", "./volumelock"}, args: live, after: []string{controlPlane}, cores: 0.5, limit: 40 * time.Minute, // six minutes of it wait for the attach/detach controller
	},
	{
		// It can do without a node, so that where there can be none it runs all the same; it comes after what a node needs because it takes one where there can be one.
		name: "chaos", what: "faults that nobody planned, with a node of this host where it can have one", dir: "e2e",
		packages: []string{"./chaos"}, args: live, after: []string{controlPlane, nodePrograms}, shares: hostNode, cores: 0.5, limit: 40 * time.Minute,
	},
	{
		name: "browser", what: "the page of a review in a headless Chromium", dir: "e2e",
		packages: []string{"./page/...", "./screenshot/..."}, args: live, unmet: page.Supported, cores: 0.6, limit: 15 * time.Minute,
	},
	{
		name: "fidelity", what: "our decisions against Kubernetes' own code", dir: "e2e/fidelity",
		packages: []string{"./..."}, args: live, cores: 1, limit: 20 * time.Minute,
	},
	{
		name: "verify", what: "generated files and modules are fresh", dir: ".", command: []string{"make", "verify"}, cores: 1, limit: 20 * time.Minute,
	},
}

// machinesUnmet: some of these tests run in a bare guest, others on a node in a machine.
func machinesUnmet() error { return cmp.Or(vm.GuestSupported(), vm.NodeSupported()) }

// choose picks tiers by name, and those that they come after; no names are all of them.
func choose(all []tier, names []string) ([]tier, error) {
	if len(names) == 0 {
		return slices.Clone(all), nil
	}
	wanted := map[string]bool{}
	for names := slices.Clone(names); len(names) > 0; names = names[1:] {
		i := slices.IndexFunc(all, func(t tier) bool { return t.name == names[0] })
		if i < 0 {
			return nil, fmt.Errorf("no tier %q", names[0])
		}
		wanted[names[0]] = true
		names = append(names, all[i].after...)
	}
	return slices.DeleteFunc(slices.Clone(all), func(t tier) bool { return !wanted[t.name] }), nil
}

// kindLimit leaves all combinations the time that they take: sixteen, of three minutes each.
func kindLimit() time.Duration {
	if kind.All() {
		return 100 * time.Minute
	}
	return 60 * time.Minute
}
