package enforcer

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
)

// contract is how a pod fares: its cgroup's part of the CPUs and of memory, and how soon the kernel's OOM killer takes its processes.
type contract struct {
	shares, low, oom string
}

// fares reads it from the kernel, past the enforcer.
func (g *Ground) fares(t *testing.T, pod string) contract {
	t.Helper()
	plan := g.Plan(t)
	at := group(t, plan, pod)
	c := contract{shares: g.Get(t, at.Path, g.Shares)}
	if g.Memory != nil {
		c.low = g.Get(t, at.Path, "memory.low")
	}
	for _, in := range plan.Cgroups {
		if in.Pod == pod && in.Container == "main" {
			c.oom = g.OOMScoreAdj(t, in.Path)
		}
	}
	return c
}

// What a PodPolicy's node section asks for is in the kernel's files of a pod that was admitted under it: as soon as the node's policy writes, in no other mode, for as long as it does, and
// no more than its bounds let.
func fromPolicyToKernel(t *testing.T, g *Ground) {
	ns := g.Namespace(t)
	e := g.Enforcer(t)
	plain := g.Pod(ns, "plain", cluster.PauseImage, "100m/64Mi", "500m/256Mi", nil)
	g.Running(t, plain)
	kubelets := g.fares(t, ns+"/plain")

	asks := &v1alpha1.Enforcement{CPU: &v1alpha1.WeightEnforcement{Weight: 321}, OOM: &v1alpha1.OOMEnforcement{Rank: 50}}
	if g.Memory != nil {
		asks.Memory = &v1alpha1.MemoryEnforcement{Protection: v1alpha1.MemoryProtectionLow}
	}
	g.Policy(t, ns, v1alpha1.PodPolicySpec{Node: asks})
	kept := g.Pod(ns, "kept", cluster.PauseImage, "100m/64Mi", "500m/256Mi", nil, func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AnnotationEnforcement: `{"cpu":{"weight":9999}}`} // a user's, which admission replaces
	})
	g.Running(t, kept)
	name := ns + "/kept"

	become := func(t *testing.T, what string, want contract) {
		t.Helper()
		var have contract
		g.Eventually(t, what, func(context.Context) (bool, error) {
			if have = g.fares(t, name); have != want {
				return false, fmt.Errorf("%+v, want %+v", have, want)
			}
			return true, nil
		})
	}
	// The scores: of a Burstable pod that requests a part of this node's memory the kubelet's is just under 1000, and a rank of 50 is half of what is left above it.
	asked := contract{shares: g.Weights[321], low: kubelets.low, oom: halfWay(t, kubelets.oom)}
	if g.Memory != nil {
		asked.low = fmt.Sprint(64 << 20)
	}

	t.Run("Observe", func(t *testing.T) {
		g.NodePolicy(t, v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeObserve})
		g.Eventually(t, "the difference in the metrics", func(ctx context.Context) (bool, error) {
			n, err := e.Sum(ctx, `podgrace_node_drift_files{owner="nobody",reason="Observe"}`)
			return n > 0, err
		})
		g.rounds(t, e, 2)
		become(t, "the kubelet's own values", kubelets)
		if plan := g.Plan(t); group(t, plan, name).Drift[g.Shares] != kubelets.shares {
			t.Errorf("the plan does not show what is not as asked: %+v", group(t, plan, name))
		}
	})
	t.Run("Tune", func(t *testing.T) {
		g.NodePolicy(t, v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune})
		become(t, "what the PodPolicy asks for", asked)
		g.rounds(t, e, 3)
		become(t, "what the PodPolicy asks for, three rounds later", asked)
		if of := g.fares(t, ns+"/plain"); of != kubelets {
			t.Errorf("the pod that no policy is for fares as %+v, before %+v", of, kubelets)
		}
	})
	t.Run("Bounded", func(t *testing.T) {
		g.NodePolicy(t, v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeRepair, Bounds: &v1alpha1.EnforcementBounds{
			MaxCPUWeight: new(int32(200)), MaxProtection: v1alpha1.MemoryProtectionNone, MaxProtectedMemoryPercent: new(int32(80)), MaxIOWeight: new(int32(1)),
		}})
		become(t, "no more than the bounds let", contract{shares: g.Weights[200], low: kubelets.low, oom: asked.oom})
	})
	g.NodePolicy(t, v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune, Bounds: &v1alpha1.EnforcementBounds{MaxCPUWeight: new(int32(200))}})
	t.Run("Forged", func(t *testing.T) { g.forged(t, kubelets) })
}

// forged are annotations that no webhook saw, as in kube-system: one gives no more than the bounds let, one that can't be read nothing, and says so.
func (g *Ground) forged(t *testing.T, kubelets contract) {
	const system = metav1.NamespaceSystem
	forged := func(name, text string) *corev1.Pod {
		return g.Pod(system, name, cluster.PauseImage, "100m/64Mi", "500m/256Mi", nil, func(p *corev1.Pod) {
			p.Annotations = map[string]string{v1alpha1.AnnotationEnforcement: text}
		})
	}
	texts := map[string]string{
		"no-json": "weight", "newer": `{"cpu":{"weight":9999},"network":{"weight":1}}`, "large": `{"cpu":{"weight":9999}}` + strings.Repeat(" ", 200<<10),
	}
	g.WaitServiceAccount(t, system)
	heavy := forged("heavy", `{"cpu":{"weight":9999}}`)
	g.Running(t, heavy)
	g.Eventually(t, "the bound", func(context.Context) (bool, error) { return g.fares(t, system+"/heavy").shares == g.Weights[200], nil })
	for name, text := range texts {
		g.Running(t, forged(name, text))
		if of := g.fares(t, system+"/"+name); of != kubelets {
			t.Errorf("%s fares as %+v, and not as the kubelet made it, %+v", name, of, kubelets)
		}
		said := false
		for _, n := range g.Plan(t).Notes {
			said = said || n.Pod == system+"/"+name && strings.Contains(n.Message, v1alpha1.AnnotationEnforcement)
		}
		if !said {
			t.Errorf("the plan does not say that the annotation of %s can't be read", name)
		}
	}
	if err := g.Client.Delete(t.Context(), heavy, client.GracePeriodSeconds(1)); err != nil {
		t.Error(err)
	}
}

// halfWay is a rank of 50 above the kubelet's score.
func halfWay(t *testing.T, kubelets string) string {
	t.Helper()
	var score int
	if _, err := fmt.Sscan(kubelets, &score); err != nil || score < 3 || score > 999 {
		t.Fatalf("the kubelet's oom_score_adj of a Burstable pod is %q", kubelets)
	}
	return fmt.Sprint(score + (999-score)*50/100)
}
