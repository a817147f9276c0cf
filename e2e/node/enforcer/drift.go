package enforcer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/nodeplan"
	"github.com/podgrace/podgrace/e2e/cluster"
)

// group is a pod's own cgroup in a plan.
func group(t *testing.T, p nodeplan.NodePlan, pod string) nodeplan.Cgroup {
	t.Helper()
	for _, c := range p.Cgroups {
		if c.Pod == pod && c.Container == "" {
			return c
		}
	}
	t.Fatalf("the plan has no cgroup of pod %s", pod)
	return nodeplan.Cgroup{}
}

// victim runs a pod whose cgroup is as planned, for a test to change by hand.
func (g *Ground) victim(t *testing.T) (pod string, at nodeplan.Cgroup) {
	t.Helper()
	ns := g.Namespace(t)
	g.Running(t, g.Pod(ns, "p", cluster.PauseImage, "100m/64Mi", "500m/256Mi", nil))
	pod = ns + "/p"
	at = group(t, g.Plan(t), pod)
	if at.Files[g.Shares] == "" || at.Drift[g.Shares] != "" {
		t.Fatalf("the pod's cgroup is %+v", at)
	}
	return pod, at
}

// Drift made by hand is found and shown in every mode, and repaired in Repair only. What nobody else owns is written by Tune.
func testDrift(t *testing.T, g *Ground) {
	pod, at := g.victim(t)
	value := func() string { return g.Get(t, at.Path, g.Shares) }
	g.Put(t, at.Path, g.Shares, "777")
	if have := group(t, g.Plan(t), pod).Drift[g.Shares]; have != "777" {
		t.Errorf("plan shows drift %q, want 777", have)
	}
	for _, mode := range []v1alpha1.NodeMode{v1alpha1.NodeModeObserve, v1alpha1.NodeModeTune} {
		t.Run(string(mode), func(t *testing.T) {
			g.NodePolicy(t, v1alpha1.NodePolicySpec{Mode: mode})
			e := g.Enforcer(t)
			g.Eventually(t, "the drift in the metrics", func(ctx context.Context) (bool, error) {
				n, err := e.Sum(ctx, `podgrace_node_drift_files{owner="kubelet",reason=`)
				return n == 1, err
			})
			if got := value(); got != "777" {
				t.Errorf("mode %s wrote %s", mode, got)
			}
		})
	}
	t.Run("Repair", func(t *testing.T) {
		e := g.Enforcer(t)
		writes := fmt.Sprintf("podgrace_node_writes_total{file=%q", g.Shares)
		before := e.Of(t, writes)
		g.NodePolicy(t, v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeRepair})
		for _, what := range []string{"the repair", "the second repair"} {
			g.Eventually(t, what, func(context.Context) (bool, error) { return value() == at.Files[g.Shares], nil })
			if what == "the repair" {
				g.Put(t, at.Path, g.Shares, "778")
			}
		}
		var n float64
		g.Eventually(t, "the count of it", func(ctx context.Context) (bool, error) { // of a round, once that has ended
			now, err := e.Sum(ctx, writes)
			n = now - before
			return n >= 2, err
		})
		if n != 2 {
			t.Errorf("it wrote %v times", n)
		}
	})
}

// Somebody writes the same file again and again: it is left alone, with an Event and a metric.
func rival(t *testing.T, g *Ground) {
	pod, at := g.victim(t)
	g.NodePolicy(t, v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeRepair})
	e := g.Enforcer(t)
	const givenUp = "podgrace_node_given_up_files_total"
	writes := fmt.Sprintf("podgrace_node_writes_total{file=%q", g.Shares)
	before := e.Of(t, givenUp)
	reverts := 0
	g.Eventually(t, "the file being given up", func(ctx context.Context) (bool, error) {
		if g.Get(t, at.Path, g.Shares) != "900" {
			g.Put(t, at.Path, g.Shares, "900")
			reverts++
		}
		n, err := e.Sum(ctx, givenUp)
		return n == before+1, err
	})
	if reverts < 3 {
		t.Errorf("it was given up after %d reverts", reverts)
	}
	wrote := e.Of(t, writes)
	g.rounds(t, e, 3)
	if now := e.Of(t, writes); now != wrote {
		t.Errorf("it goes on fighting: %v writes, then %v", wrote, now)
	}
	g.Eventually(t, "the Event of it", func(ctx context.Context) (bool, error) {
		var events corev1.EventList
		err := g.Client.List(ctx, &events, client.MatchingFields{"reason": "CgroupFileContested"})
		events.Items = slices.DeleteFunc(events.Items, func(e corev1.Event) bool { return !strings.Contains(e.Message, g.Shares+" of pod "+pod) })
		return len(events.Items) == 1, err // other tests have theirs
	})
	g.Eventually(t, "the Node's condition", func(ctx context.Context) (bool, error) {
		var n corev1.Node
		err := g.Client.Get(ctx, client.ObjectKey{Name: g.NodeName}, &n)
		for _, c := range n.Status.Conditions {
			if c.Type == "PodgraceEnforced" {
				return c.Status == corev1.ConditionFalse && strings.Contains(c.Message, g.Shares), err
			}
		}
		return false, err
	})
}
