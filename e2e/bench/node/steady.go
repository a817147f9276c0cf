package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/manypods"
	"github.com/podgrace/podgrace/e2e/measure"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/webhook"
)

const (
	steadyNode = "bench"
	steadyPods = 500
)

// benchSteady watches the real program and returns the report.
func benchSteady(ctx context.Context, o options, progress io.Writer) (_ string, err error) {
	c, kube, stop, err := startCluster(ctx, cluster.Options{Log: progress})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := c.AddNode(ctx, steadyNode, nil); err != nil {
		return "", err
	}
	if err := makePods(ctx, c); err != nil {
		return "", err
	}
	fmt.Fprintf(progress, "%d pods are there\n", steadyPods)
	policy, err := steadyPolicy(ctx, kube)
	if err != nil {
		return "", err
	}
	t, err := steadyTree(ctx, kube, policy)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, t.remove()) }()
	e, err := startEnforcer(ctx, c)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, e.Stop()) }()
	r, err := watchSteady(ctx, o, e, progress)
	if err != nil {
		return "", fmt.Errorf("this run is void: %w", err)
	}
	return steadyReport(o, r), nil
}

// makePods makes the pods, bound to the node, and running as far as the API server knows.
func makePods(ctx context.Context, c *cluster.Cluster) error {
	config := rest.CopyConfig(c.Config)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	kube, err := client.New(config, client.Options{Scheme: webhook.NewScheme()})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range steadyPods {
		group.Go(func() error {
			p := podOf(steadyNode, i)
			if err := kube.Create(ctx, p); err != nil {
				return fmt.Errorf("make pod %s: %w", p.Name, err)
			}
			if err := kube.Status().Update(ctx, manypods.Running(p)); err != nil {
				return fmt.Errorf("make pod %s run: %w", p.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// steadyPolicy has everything that makes an enforcer work: it repairs, and watches thresholds, which are far.
func steadyPolicy(ctx context.Context, kube client.Client) (*v1alpha1.NodePolicySpec, error) {
	spec := repairPolicy()
	spec.Eviction = &v1alpha1.NodeEviction{Hard: []v1alpha1.EvictionThreshold{
		{Signal: v1alpha1.SignalMemoryAvailable, Value: "100Mi"}, {Signal: v1alpha1.SignalNodeFsAvailable, Value: "1Mi"}, {Signal: v1alpha1.SignalPIDAvailable, Value: "100"},
	}}
	p := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: *spec}
	if err := kube.Create(ctx, p); err != nil {
		return nil, fmt.Errorf("make the NodePolicy: %w", err)
	}
	return spec, nil
}

// steadyTree makes the cgroups of the pods as the API server has them, as planned.
func steadyTree(ctx context.Context, kube client.Client, policy *v1alpha1.NodePolicySpec) (*hostTree, error) {
	var pods corev1.PodList
	var n corev1.Node
	if err := errors.Join(kube.List(ctx, &pods), kube.Get(ctx, client.ObjectKey{Name: steadyNode}, &n)); err != nil {
		return nil, fmt.Errorf("read the node and its pods: %w", err)
	}
	known := state.State{Node: &n, Config: kubeletConfig()}
	for i := range pods.Items {
		known.Pods = append(known.Pods, &pods.Items[i])
	}
	machine, err := state.DetectMachine(hostCgroups, hostProc, "")
	if err != nil {
		return nil, err
	}
	node := machine.Node(known)
	t, err := newHostTree(ctx, plan.Build(node, policy, known.Pods))
	if err != nil {
		return nil, err
	}
	if _, err := t.enforcer().Round(ctx, node, policy, v1alpha1.NodeModeRepair, known.Pods, true); err != nil {
		return nil, errors.Join(err, t.remove())
	}
	return t, nil
}

// startEnforcer starts the real program and returns when it is ready.
func startEnforcer(ctx context.Context, c *cluster.Cluster) (*podgrace.Replica, error) {
	if err := podgrace.AllowEnforcer(ctx, c); err != nil {
		return nil, err
	}
	program, err := podgrace.BuildEnforcer(ctx, filepath.Join(c.Dir, "bin"))
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(kubeletConfig())
	if err != nil {
		return nil, fmt.Errorf("write the kubelet's configuration: %w", err)
	}
	config := filepath.Join(c.Dir, "kubelet.yaml")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return nil, fmt.Errorf("write the kubelet's configuration: %w", err)
	}
	e, err := podgrace.StartEnforcer(c, program, steadyNode, "--kubelet=", "--kubelet-config="+config, "--kubelet-root="+c.Dir, "--image-root="+c.Dir,
		"--runtime-dir="+filepath.Join(c.Dir, "run"), "--checkpoint="+filepath.Join(c.Dir, "checkpoint"))
	if err != nil {
		return nil, err
	}
	if err := e.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// steady is what a while cost.
type steady struct {
	elapsed       time.Duration
	cpu           time.Duration
	writes        float64
	full, partial float64 // rounds
	cgroups       float64
	drift         float64
	failures      float64
	memory        measure.Memory
	heap          float64 // in use, in bytes
}

// settled is how long the program is let be before it is watched: its first round, the informers, the checkpoint.
const settled = 15 * time.Second

func watchSteady(ctx context.Context, o options, e *podgrace.Replica, progress io.Writer) (steady, error) {
	if err := pause(ctx, settled); err != nil {
		return steady{}, err
	}
	before, err := look(ctx, e)
	if err != nil {
		return steady{}, err
	}
	fmt.Fprintf(progress, "watching the steady state for %s\n", o.minute)
	began := time.Now()
	if err := pause(ctx, o.minute); err != nil {
		return steady{}, err
	}
	after, err := look(ctx, e)
	if err != nil {
		return steady{}, err
	}
	after.elapsed = time.Since(began)
	after.cpu -= before.cpu
	after.writes -= before.writes
	after.full -= before.full
	after.partial -= before.partial
	after.failures -= before.failures
	if want := float64(1 + 2*steadyPods); after.cgroups < want {
		return after, fmt.Errorf("the enforcer plans %.0f cgroups, and not %.0f at least", after.cgroups, want)
	}
	return after, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// look reads what the program has done and used so far.
func look(ctx context.Context, e *podgrace.Replica) (s steady, err error) {
	text, err := measure.Metrics(ctx, e.MetricsURL+"/metrics")
	if err != nil {
		return s, err
	}
	if s.cpu, err = measure.CPU(e.PID()); err != nil {
		return s, err
	}
	if s.memory, err = measure.MemoryOf(e.PID()); err != nil {
		return s, err
	}
	for series, into := range map[string]*float64{
		"podgrace_node_writes_total": &s.writes, "podgrace_node_round_failures_total": &s.failures, "podgrace_node_cgroups": &s.cgroups, "podgrace_node_drift_files": &s.drift,
		`podgrace_node_round_seconds_count{scope="full"}`: &s.full, `podgrace_node_round_seconds_count{scope="changed"}`: &s.partial, "go_memstats_heap_inuse_bytes": &s.heap,
	} {
		if *into, err = measure.Sum(text, series); err != nil {
			return s, err
		}
	}
	return s, nil
}

// steadyReport is the table.
func steadyReport(o options, s steady) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\nSteady state: the real program, a real API server with %d pods (%d containers, %.0f planned cgroups) on its node, mode Repair, thresholds\n"+
		"that are far, for %s: %.0f full rounds, %.0f others, %.0f that failed, %.0f files in drift.\n\n",
		steadyPods, containers(steadyPods), s.cgroups, o.minute, s.full, s.partial, s.failures, s.drift)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tvalue\tgoal\t")
	percent := s.cpu.Seconds() / s.elapsed.Seconds() * 100
	for _, row := range []struct {
		name  string
		value float64
		show  string
		goal  goal
	}{
		{"writes", s.writes, "%.0f", new(0.0)},
		{"CPU, seconds", s.cpu.Seconds(), "%.2f", nil},
		{"CPU, % of a core", percent, "%.2f", new(1.0)},
		{"RSS, MiB", s.memory.Resident / mib, "%.1f", new(40.0)},
		{"  RssAnon", s.memory.Anonymous / mib, "%.1f", nil},
		{"  RssFile", s.memory.File / mib, "%.1f", nil},
		{"  highest RSS", s.memory.Peak / mib, "%.1f", nil},
		{"Go heap in use, MiB", s.heap / mib, "%.1f", nil},
	} {
		bound := ""
		if row.goal != nil {
			bound = fmt.Sprintf("<= %.0f", *row.goal)
		}
		fmt.Fprintf(table, "%s\t"+row.show+"\t%s\t%s\n", row.name, row.value, bound, verdict(row.goal, row.value))
	}
	_ = table.Flush() // into memory
	return text.String()
}
