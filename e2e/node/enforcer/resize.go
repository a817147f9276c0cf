package enforcer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/nodeplan"
	"github.com/podgrace/podgrace/e2e/cluster"
)

// ask asks for a resize in place.
func (g *Ground) ask(t *testing.T, p *corev1.Pod, resources corev1.ResourceRequirements) {
	t.Helper()
	if err := g.Client.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
		t.Fatal(err)
	}
	before := p.DeepCopy()
	p.Spec.Containers[0].Resources = resources
	if err := g.Client.SubResource("resize").Patch(t.Context(), p, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// becomes returns when the kubelet has put the resize off for this reason, or with none when it is done.
func (g *Ground) becomes(t *testing.T, p *corev1.Pod, reason string) {
	t.Helper()
	g.Eventually(t, "the resize of pod "+p.Name+" "+reason, func(ctx context.Context) (bool, error) {
		if err := g.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return false, err
		}
		var is []string
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress {
				is = append(is, string(c.Type)+" "+c.Reason)
			}
		}
		s, asked := p.Status.ContainerStatuses[0], p.Spec.Containers[0].Resources
		done := equality.Semantic.DeepEqual(s.AllocatedResources, asked.Requests) && s.Resources != nil && equality.Semantic.DeepEqual(s.Resources.Limits, asked.Limits)
		want := []string{string(corev1.PodResizePending) + " " + reason}
		if reason == "" {
			want = nil
		}
		if !slices.Equal(is, want) || done != (reason == "") || p.Status.ObservedGeneration != p.Generation {
			return false, fmt.Errorf("%v, %+v", is, s.Resources)
		}
		return true, nil
	})
}

// files are what a pod's cgroup and its container's hold, past the enforcer.
func (g *Ground) files(t *testing.T, pod string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, c := range g.Plan(t).Cgroups {
		if c.Pod != pod {
			continue
		}
		for file := range c.Files {
			all[c.Container+" "+file] = g.Get(t, c.Path, file)
		}
	}
	return all
}

// unfought returns a function that fails for what an enforcer has written since of files that are others'. A resize leaves the oom_score_adj of what runs as it is: that
// is Repair's to follow.
func (g *Ground) unfought(t *testing.T, e Metrics) func(what string) {
	t.Helper()
	others := func() float64 {
		n := 0.0
		for series, of := range e.Series(t, "podgrace_node_writes_total{") {
			if ownerOf(series) != "nobody" && !strings.Contains(series, "oom_score_adj") {
				n += of
			}
		}
		return n
	}
	before := others()
	return func(what string) {
		t.Helper()
		g.rounds(t, e, 3)
		g.NoDrift(t)
		if n := others() - before; n != 0 {
			t.Errorf("%s: it wrote %v files of others", what, n)
		}
	}
}

// Infeasible asks for a resize of a pod in place that its kubelet refuses for good: nothing is fought, the plan says so, and all of the pod is restored as ever. Then it is
// taken back. The enforcer is in Repair.
func (g *Ground) Infeasible(t *testing.T, e Metrics, p *corev1.Pod, requests, limits string) {
	t.Helper()
	name, was := p.Namespace+"/"+p.Name, p.Spec.Containers[0].Resources
	g.NoDrift(t)
	made := g.files(t, name)
	unfought := g.unfought(t, e)
	g.ask(t, p, g.resources(requests, limits))
	g.becomes(t, p, corev1.PodReasonInfeasible)
	unfought("an infeasible resize")
	g.waits(t, name, corev1.PodReasonInfeasible)
	if diff := cmp.Diff(made, g.files(t, name)); diff != "" {
		t.Errorf("an infeasible resize changed the pod's files (-before +after):\n%s", diff)
	}
	at := group(t, g.Plan(t), name)
	g.Put(t, at.Path, g.Shares, "777")
	g.Eventually(t, "the repair", func(context.Context) (bool, error) { return g.Get(t, at.Path, g.Shares) == made[" "+g.Shares], nil })
	g.ask(t, p, was)
	g.becomes(t, p, "")
}

// Beside the kubelet, in Repair: what a resize makes of a pod's files stays, and what it has not made yet is not made. A resize that is put off changes nothing, the
// plan says that one waits, and nothing of the pod is restored that the kubelet may be about to write.
func resize(t *testing.T, g *Ground) {
	ns := g.Namespace(t)
	g.NodePolicy(t, v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeRepair})
	e := g.Enforcer(t)
	p := g.Pod(ns, "p", cluster.PauseImage, "100m/64Mi", "500m/256Mi", nil)
	g.Running(t, p)
	name := ns + "/p"
	g.NoDrift(t)
	at := group(t, g.Plan(t), name)
	unfought := g.unfought(t, e)

	made := g.files(t, name)
	g.ask(t, p, g.resources("200m/96Mi", "600m/320Mi"))
	g.becomes(t, p, "")
	unfought("a resize")
	larger := g.files(t, name)
	changed := 0
	for file, was := range made {
		if larger[file] != was {
			changed++
		}
	}
	if changed < 5 || larger[" "+g.Shares] == made[" "+g.Shares] {
		t.Errorf("the resize changed %d files: %v, then %v", changed, made, larger)
	}

	t.Run("Deferred", func(t *testing.T) {
		blocker := g.Pod(ns, "blocker", cluster.PauseImage, g.free(t, 100)+"/8Mi", "", nil)
		g.Running(t, blocker)
		g.ask(t, p, g.resources("350m/96Mi", "600m/320Mi"))
		g.becomes(t, p, corev1.PodReasonDeferred)
		unfought("a deferred resize")
		g.waits(t, name, corev1.PodReasonDeferred)
		g.Put(t, at.Path, g.Shares, "777")
		g.rounds(t, e, 4)
		if got := g.Get(t, at.Path, g.Shares); got != "777" {
			t.Errorf("%s of the pod became %s while its resize was deferred", g.Shares, got)
		}
		if drift := group(t, g.Plan(t), name).Drift[g.Shares]; drift != "777" {
			t.Errorf("the plan shows drift %q", drift)
		}
		if err := g.Client.Delete(t.Context(), blocker, client.GracePeriodSeconds(1)); err != nil {
			t.Fatal(err)
		}
		g.becomes(t, p, "")
		unfought("a deferred resize that was accepted")
		if got := g.Get(t, at.Path, g.Shares); got == "777" || got == larger[" "+g.Shares] {
			t.Errorf("%s of the pod is %s after the resize", g.Shares, got)
		}
	})
	g.Lives(t, p)
}

// waits fails where the plan does not say that a pod's resize is pending.
func (g *Ground) waits(t *testing.T, pod, reason string) {
	t.Helper()
	plan := g.Plan(t)
	for _, n := range plan.Notes {
		if n.Pod == pod && strings.Contains(n.Message, "resize is pending ("+reason+")") {
			return
		}
	}
	t.Errorf("the plan does not say that the resize of %s is pending (%s): %+v", pod, reason, []nodeplan.Note(plan.Notes))
}

// free is the node's CPU that no pod has requested, but for so many milli-CPUs.
func (g *Ground) free(t *testing.T, less int64) string {
	t.Helper()
	var node corev1.Node
	var pods corev1.PodList
	if err := g.Client.Get(t.Context(), client.ObjectKey{Name: g.NodeName}, &node); err != nil {
		t.Fatal(err)
	}
	if err := g.Client.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	left := node.Status.Allocatable.Cpu().MilliValue() - less
	for _, p := range pods.Items {
		if p.Spec.NodeName != g.NodeName || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, c := range p.Spec.Containers {
			left -= c.Resources.Requests.Cpu().MilliValue()
		}
	}
	return resource.NewMilliQuantity(left, resource.DecimalSI).String()
}
