package fencer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/measure"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/program"
)

// Main measures, by the flags of the command line.
func Main() {
	var o options
	program.Main("bench fencer", o.AddFlags, func(ctx context.Context) error {
		if err := o.Validate(); err != nil {
			return err
		}
		return run(ctx, o, os.Stdout, os.Stderr)
	})
}

type options struct {
	nodes, silent int
	minute        time.Duration
}

// AddFlags declares the flags with their defaults.
func (o *options) AddFlags(f *flag.FlagSet) {
	f.IntVar(&o.nodes, "nodes", 5000, "Nodes of the cluster")
	f.IntVar(&o.silent, "silent", 50, "how many of them fall silent")
	f.DurationVar(&o.minute, "for", time.Minute, "how long each state is watched")
}

// Validate says all that is wrong with the options.
func (o *options) Validate() error {
	errs := []error{program.Positive("nodes", o.nodes), program.Positive("silent", o.silent), program.Positive("for", o.minute)}
	if o.silent >= o.nodes {
		errs = append(errs, fmt.Errorf("-silent: %d of %d nodes leave none", o.silent, o.nodes))
	}
	return errors.Join(errs...)
}

// watched is what was seen in one state.
type watched struct {
	state       string
	span        time.Duration
	cpu         time.Duration
	memory      measure.Memory
	rounds      float64
	renewals    int64
	partitioned float64
}

func run(ctx context.Context, o options, out, progress io.Writer) (err error) {
	c, err := cluster.Start(ctx, cluster.Options{Log: progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	w, err := podgrace.Install(ctx, c, podgrace.Options{Log: progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	kubelets, err := makeNodes(ctx, c, o.nodes)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "%d Nodes and Leases are there\n", o.nodes)
	ctx, end := context.WithCancel(ctx)
	defer end()
	go kubelets.beat(ctx)
	f, err := startFencer(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()

	if err := f.awaitRounds(ctx, 10); err != nil {
		return err
	}
	calm, err := f.watch(ctx, o, kubelets, "all are heard of")
	if err != nil {
		return err
	}
	kubelets.silence(o.silent)
	if err := f.awaitPartitioned(ctx, o.silent); err != nil {
		return err
	}
	storm, err := f.watch(ctx, o, kubelets, fmt.Sprintf("%d are silent", o.silent))
	if err != nil {
		return err
	}
	return report(out, o, calm, storm)
}

// fencer is the program that is measured.
type fencer struct{ *podgrace.Fencer }

func startFencer(ctx context.Context, c *cluster.Cluster) (*fencer, error) {
	if err := podgrace.AllowFencer(ctx, c); err != nil {
		return nil, err
	}
	kube, err := newClient(c)
	if err != nil {
		return nil, err
	}
	// All of them would be unhealthy before the budget says no: what is measured is showing, and the decision that nothing is done.
	most := intstr.FromString("100%")
	policy := &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: v1alpha1.FencePolicySpec{
		Mode: v1alpha1.FenceModeShow, SilentFor: metav1.Duration{Duration: time.Minute}, Release: v1alpha1.ReleasePodsAndTaint,
		Budget: v1alpha1.FenceBudget{MaxConcurrent: 1, MaxUnhealthyInZone: most, MaxUnhealthy: most, Cooldown: metav1.Duration{Duration: time.Minute}},
	}}
	if err := kube.Create(ctx, policy); err != nil {
		return nil, fmt.Errorf("make the FencePolicy: %w", err)
	}
	program, err := podgrace.BuildFencer(ctx, filepath.Join(c.Dir, "bin"))
	if err != nil {
		return nil, err
	}
	f, err := podgrace.StartFencer(ctx, c, program)
	return &fencer{f}, err
}

func (f *fencer) sum(ctx context.Context, prefix string) (float64, error) {
	text, err := measure.Metrics(ctx, f.MetricsURL+"/metrics")
	if err != nil {
		return 0, err
	}
	return measure.Sum(text, prefix)
}

const rounds = `podgrace_fencer_rounds_total{result="ok"}`

// awaitRounds waits until it leads and has done some rounds.
func (f *fencer) awaitRounds(ctx context.Context, n float64) error {
	return cluster.UntilWithin(ctx, 3*time.Minute, "rounds of the fencer", func(ctx context.Context) (bool, error) {
		done, err := f.sum(ctx, rounds)
		return err == nil && done >= n, nil // there is no such metric before the first
	})
}

func (f *fencer) awaitPartitioned(ctx context.Context, n int) error {
	return cluster.UntilWithin(ctx, 5*time.Minute, "the silent nodes to be shown", func(ctx context.Context) (bool, error) {
		shown, err := f.sum(ctx, "podgrace_fencer_partitioned_nodes")
		return shown >= float64(n), err
	})
}

// watch measures for as long as the options say.
func (f *fencer) watch(ctx context.Context, o options, k *kubelets, state string) (watched, error) {
	before, err := f.look(ctx, k)
	if err != nil {
		return watched{}, err
	}
	begin := time.Now()
	select {
	case <-ctx.Done():
		return watched{}, ctx.Err()
	case <-time.After(o.minute):
	}
	after, err := f.look(ctx, k)
	if err != nil {
		return watched{}, err
	}
	after.state, after.span = state, time.Since(begin)
	after.cpu -= before.cpu
	after.rounds -= before.rounds
	after.renewals -= before.renewals
	if want := float64(k.heard()) * after.span.Seconds() / renewEvery.Seconds(); float64(after.renewals) < 0.9*want {
		return watched{}, fmt.Errorf("this run is void: %d leases were renewed in %s, of %.0f: this machine is too busy, or too slow for so many nodes", after.renewals, after.span.Round(time.Second), want)
	}
	return after, nil
}

func (f *fencer) look(ctx context.Context, k *kubelets) (now watched, err error) {
	var errs [4]error
	now.cpu, errs[0] = measure.CPU(f.PID())
	now.memory, errs[1] = measure.MemoryOf(f.PID())
	now.rounds, errs[2] = f.sum(ctx, rounds)
	now.partitioned, errs[3] = f.sum(ctx, "podgrace_fencer_partitioned_nodes")
	now.renewals = k.renewed.Load()
	return now, errors.Join(errs[:]...)
}

func report(out io.Writer, o options, all ...watched) error {
	const mib = 1 << 20
	fmt.Fprintf(out, "The fencer beside %d nodes, %s each:\n\n", o.nodes, o.minute)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "nodes\tpartitioned\tleases/s\trounds\tCPU, % of a core\tms a round\tRSS, MiB\thighest\t")
	for _, w := range all {
		fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.0f\t%.1f\t%.0f\t%.1f\t%.1f\t\n", w.state, w.partitioned, float64(w.renewals)/w.span.Seconds(), w.rounds,
			100*w.cpu.Seconds()/w.span.Seconds(), 1000*w.cpu.Seconds()/w.rounds, w.memory.Resident/mib, w.memory.Peak/mib)
	}
	return table.Flush()
}

// newClient is one that no rate limit holds up.
func newClient(c *cluster.Cluster) (client.Client, error) {
	config := *c.Config
	config.QPS = -1
	kube, err := client.New(&config, client.Options{Scheme: podgraceScheme()})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return kube, nil
}
