package scheduler

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/preview/scheduler"
	"github.com/podgrace/podgrace/preview/scheduler/schedulertest"
)

var (
	cases = flag.Int("preview.cases", 25, "random clusters")
	seed  = flag.Int("preview.seed", 1, "the first of their seeds")
)

// start starts a control plane that ends with the test.
func start(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute) // the first run on a machine builds Kubernetes
	defer cancel()
	options := cluster.Options{Scheduler: true, EveryNode: true, Log: os.Stderr}
	_, err := cluster.Binaries(ctx, os.Stderr, options.Programs()...)
	clustertest.Require(t, err)
	c, err := cluster.Start(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return newWorld(t, c)
}

// TestScheduler: what kube-scheduler does with a pod is what the preview said of it, in what the API server listed before.
func TestScheduler(t *testing.T) {
	w := start(t)
	for _, e := range schedulertest.Examples() {
		t.Run(e.Name, func(t *testing.T) {
			v, d := w.run(t, &e.Case)
			d.hold(t, w, v)
			if fit := v.Fit(); fit != len(e.Fits) || (len(e.Fits) > 0 && !slices.Contains(e.Fits, d.node)) {
				t.Errorf("%d nodes fit, the scheduler took %q, want one of %q", fit, d.node, e.Fits)
			}
		})
	}
	were := map[string]int{}
	generator := schedulertest.Cases()
	for i := range *cases {
		t.Run(fmt.Sprintf("seed %d", *seed+i), func(t *testing.T) {
			c := generator.Example(*seed + i)
			v, d := w.run(t, c)
			d.hold(t, w, v)
			were[string(v.Outcome)]++
			if t.Failed() {
				t.Logf("%#v", c)
			}
		})
	}
	t.Logf("%d random clusters: %v", *cases, were)
}

// decision is what kube-scheduler wrote into a pod, at first.
type decision struct {
	gated bool
	// node that it bound the pod to, or, where volumes have to be bound before, that it will.
	node string
	// message is why there is none, and nominated the node where it makes room.
	message, nominated string
}

// run puts a cluster in the place of the one before, and has the preview judge the pod, then the scheduler.
func (w *world) run(t *testing.T, c *schedulertest.Case) (*scheduler.Verdict, *decision) {
	t.Helper()
	w.clear(t)
	w.build(t, c)
	pod := c.Pod.DeepCopy()
	pod.UID, pod.Status = "", corev1.PodStatus{}
	return w.ask(t, pod)
}

// ask has the preview judge a pod in the cluster that is there, then the scheduler.
func (w *world) ask(t *testing.T, pod *corev1.Pod) (*scheduler.Verdict, *decision) {
	t.Helper()
	stored := pod.DeepCopy() // as the API server would store it
	if err := w.kube.Create(t.Context(), stored, client.DryRunAll); err != nil {
		t.Fatalf("%v\n%#v", err, pod)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := scheduler.New(ctx, w.listed(t))
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Judge(ctx, stored)
	d := w.decision(t, pod)
	if err != nil {
		if !strings.HasPrefix(d.message, "running ") { // a plugin failed there, too
			t.Fatalf("no verdict: %v, the scheduler: %+v", err, d)
		}
		v = &scheduler.Verdict{Outcome: "Error"}
	}
	return v, d
}

// decision creates the pod and waits for what the scheduler says of it first.
func (w *world) decision(t *testing.T, pod *corev1.Pod) *decision {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, err := w.set.CoreV1().Pods(pod.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", pod.Name).String()})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	if err := w.kube.Create(ctx, pod.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	for e := range events.ResultChan() {
		if p, ok := e.Object.(*corev1.Pod); ok && e.Type != watch.Deleted {
			if d := decided(p); d != nil {
				return d
			}
		}
	}
	t.Fatalf("the scheduler says nothing of the pod: %v", context.Cause(ctx))
	return nil
}

func decided(p *corev1.Pod) *decision {
	if p.Spec.NodeName != "" {
		return &decision{node: p.Spec.NodeName}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return &decision{gated: c.Reason == corev1.PodReasonSchedulingGated, message: c.Message, nominated: p.Status.NominatedNodeName}
		}
	}
	if p.Status.NominatedNodeName != "" {
		return &decision{node: p.Status.NominatedNodeName}
	}
	return nil
}

// hold compares.
func (d *decision) hold(t *testing.T, w *world, v *scheduler.Verdict) {
	t.Helper()
	switch {
	case v.Outcome == "Error":
	case d.gated || v.Outcome == scheduling.Gated:
		if !d.gated || v.Outcome != scheduling.Gated {
			t.Errorf("the preview says %s, the scheduler %+v", v.Outcome, d)
		}
	case v.Outcome == scheduling.Fits:
		if !slices.ContainsFunc(v.Best(), func(n scheduler.Node) bool { return n.Name == d.node }) {
			t.Errorf("the scheduler took %q (%s), the best are %+v", d.node, d.message, v.Best())
		}
	default:
		if want := reasons(v); !strings.HasPrefix(d.message, want) {
			t.Errorf("the scheduler says\n%s\nthe preview\n%s", d.message, want)
		}
		d.holdPreemption(t, w, v.Preemption)
	}
}

func (d *decision) holdPreemption(t *testing.T, w *world, p *scheduler.Preemption) {
	t.Helper()
	i := slices.IndexFunc(p.Candidates, func(c scheduler.Candidate) bool { return c.Node == d.nominated })
	if i < 0 {
		if d.nominated != "" || len(p.Candidates) > 0 {
			t.Errorf("the scheduler nominated %q, the candidates are %+v", d.nominated, p.Candidates)
		}
		return
	}
	if best, picked := p.Candidates[0].Criteria, p.Candidates[i].Criteria; picked != best {
		t.Errorf("the scheduler picked %s with %+v, the best is %+v", d.nominated, picked, best)
	}
	want := map[string]bool{}
	for _, victim := range p.Candidates[i].Victims {
		want[victim.Namespace+"/"+victim.Name] = true
	}
	var got map[string]bool
	suite.Eventually(t, "the victims are deleted", func(ctx context.Context) (bool, error) {
		var err error
		got, err = w.ending(ctx)
		for name := range want {
			if !got[name] {
				return false, err
			}
		}
		return true, err
	})
	for name := range w.endedBefore {
		delete(got, name)
		delete(want, name)
	}
	if !maps.Equal(got, want) {
		t.Errorf("deleted are %v, the victims are %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// reasons are the words of FailedScheduling (FitError in pkg/scheduler/framework/types.go, 1.36.3): how many nodes for which reason, or why the pod fits none at all.
func reasons(v *scheduler.Verdict) string {
	if len(v.Nodes) == 0 {
		return v.Why
	}
	text := fmt.Sprintf("0/%d nodes are available:", len(v.Nodes))
	if v.Why != "" {
		return text + " " + v.Why + "."
	}
	counts := map[string]int{}
	for _, n := range v.Nodes {
		for _, r := range n.Reasons {
			counts[r]++
		}
	}
	var parts []string
	for r, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, r))
	}
	slices.Sort(parts)
	return text + " " + strings.Join(parts, ", ") + "."
}
