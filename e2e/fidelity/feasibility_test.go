package fidelity

import (
	"context"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/util/workqueue"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
)

type feasibilityCase struct {
	Pod        *corev1.Pod
	Spread     *v1alpha1.TopologySpreadSection
	Service    map[string]string
	Nodes      []*corev1.Node
	Neighbours []*corev1.Pod
}

func (c *feasibilityCase) GoString() string {
	return show(c.Pod, c.Spread, c.Service, c.Nodes, c.Neighbours)
}

// feasibilityCases have so many hard constraints, and sometimes soft ones. The selector comes from a Service, or from a
// StatefulSet that does not select the pod: then the pod does not count itself.
func feasibilityCases(most int) *rapid.Generator[*feasibilityCase] {
	return drawn(func(s source) *feasibilityCase {
		c := &feasibilityCase{Spread: &v1alpha1.TopologySpreadSection{}, Service: map[string]string{"app": "a"}}
		c.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod", Labels: map[string]string{"app": "a", "tier": pick(s, "a", "b")}}}
		c.Pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example/app"}}
		if s.chance(9) {
			addNodeAffinity(s, &c.Pod.Spec)
		}
		c.Pod.Spec.Tolerations = drawTolerations(s)
		for _, key := range topologyKeys[:most] {
			if s.chance(2) {
				c.Spread.Constraints = append(c.Spread.Constraints, drawConstraint(s, key, corev1.ScheduleAnyway))
			}
		}
		hard := 1 + s.below(most)
		from := s.below(len(topologyKeys))
		for i := range hard {
			c.Spread.Constraints = append(c.Spread.Constraints, drawConstraint(s, topologyKeys[(from+i)%len(topologyKeys)], corev1.DoNotSchedule))
		}
		c.Nodes = drawNodes(s)
		c.Neighbours = drawNeighbours(s, c.Nodes, c.Pod.Labels)
		if s.chance(2) {
			c.Pod.OwnerReferences = []metav1.OwnerReference{ownerReference(ownerKinds[1], "owner", new(true))}
		}
		return c
	})
}

// scheduler is the PodTopologySpread plugin, with its feature gates at their defaults.
type scheduler struct {
	plugin interface {
		fwk.PreFilterPlugin
		fwk.FilterPlugin
	}
}

// handle is what the plugin needs of the scheduler where it has no default constraints.
type handle struct{ fwk.Handle }

func (handle) SnapshotSharedLister() fwk.SharedLister { return struct{ fwk.SharedLister }{} }
func (handle) Parallelizer() fwk.Parallelizer         { return inOrder{} }

// inOrder does the plugin's work in one goroutine: more would cost more than the work.
type inOrder struct{}

func (inOrder) Until(_ context.Context, pieces int, work workqueue.DoWorkPieceFunc, _ string) {
	for i := range pieces {
		work(i)
	}
}

func newScheduler(t *testing.T) *scheduler {
	t.Helper()
	args := &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting}
	plugin, err := podtopologyspread.New(context.Background(), args, handle{}, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		t.Fatalf("making the plugin: %v", err)
	}
	return &scheduler{plugin.(*podtopologyspread.PodTopologySpread)}
}

// fits says for each node whether the plugin lets the pod onto it.
func (s *scheduler) fits(t *rapid.T, pod *corev1.Pod, nodes []*corev1.Node, neighbours []*corev1.Pod) map[string]bool {
	infos := make([]fwk.NodeInfo, 0, len(nodes))
	for _, n := range nodes {
		info := framework.NewNodeInfo()
		info.SetNode(n)
		for _, p := range neighbours {
			if p.Spec.NodeName == n.Name {
				info.AddPod(p)
			}
		}
		infos = append(infos, info)
	}
	ctx, state := context.Background(), framework.NewCycleState()
	if _, status := s.plugin.PreFilter(ctx, state, pod, infos); !status.IsSuccess() {
		t.Fatalf("PreFilter: %v\n%s", status, show(pod.Spec.TopologySpreadConstraints))
	}
	fits := map[string]bool{}
	for _, info := range infos {
		status := s.plugin.Filter(ctx, state, pod, info)
		if !status.IsSuccess() && !status.IsRejected() {
			t.Fatalf("Filter: %v", status)
		}
		fits[info.Node().Name] = status.IsSuccess()
	}
	return fits
}

// judgement is what Podgrace says about a case: the constraints as it injects them, and which it calls infeasible.
type judgement struct {
	constraints []corev1.TopologySpreadConstraint
	infeasible  []corev1.TopologySpreadConstraint
}

// judge asks Podgrace with each of the three actions. They must rest on the same judgement.
func judge(t *rapid.T, c *feasibilityCase, arrived *corev1.Pod) judgement {
	facts := defaulting.Facts{ServiceSelectors: []map[string]string{c.Service}, Nodes: c.Nodes, Pods: counted(c.Neighbours), OwnerSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "a"}}}
	apply := func(action v1alpha1.InfeasibleAction) defaulting.Result {
		policy := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.PodPolicySpec{TopologySpread: c.Spread.DeepCopy()}}
		policy.Spec.TopologySpread.OnInfeasible = action
		req := request(arrived, authenticationv1.UserInfo{})
		return compiled(t, []*v1alpha1.PodPolicy{policy}).For(req, "").Apply(req, facts)
	}
	warned, denied, softened := apply(v1alpha1.InfeasibleWarn), apply(v1alpha1.InfeasibleDeny), apply(v1alpha1.InfeasibleSoften)
	j := judgement{constraints: injected(warned.Changes)}
	kept := map[string]bool{}
	for _, k := range injected(softened.Changes) {
		if k.WhenUnsatisfiable == corev1.DoNotSchedule {
			kept[k.TopologyKey] = true
		}
	}
	for _, k := range j.constraints {
		if k.WhenUnsatisfiable == corev1.DoNotSchedule && !kept[k.TopologyKey] {
			j.infeasible = append(j.infeasible, k)
		}
	}
	said := 0
	for _, w := range warned.Warnings {
		if strings.Contains(string(w), "can't be met now") {
			said++
		}
	}
	if said != len(j.infeasible) || (len(denied.Denials) > 0) != (said > 0) {
		t.Fatalf("Warn, Soften and Deny do not agree\n%s", show(warned, softened, denied))
	}
	return j
}

// usableNodes are those that the pod may use by its required node affinity and, where a constraint that Podgrace judged
// has nodeTaintsPolicy Honor, by its tolerations: what other plugins of the scheduler judge.
func usableNodes(pod *corev1.Pod, judged []corev1.TopologySpreadConstraint, nodes []*corev1.Node) []*corev1.Node {
	affinity, tainted := nodeaffinity.GetRequiredNodeAffinity(pod), slices.ContainsFunc(judged, honorsTaints)
	var usable []*corev1.Node
	for _, n := range nodes {
		if match, _ := affinity.Match(n); !match {
			continue
		}
		_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, pod.Spec.Tolerations, helper.DoNotScheduleTaintsFilterFunc(), false)
		if !tainted || !untolerated {
			usable = append(usable, n)
		}
	}
	return usable
}

func honorsTaints(k corev1.TopologySpreadConstraint) bool {
	return k.NodeTaintsPolicy != nil && *k.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
}

// outOfReach is the one corner where Podgrace says less than the scheduler, knowingly. With nodeAffinityPolicy Ignore the
// domains that the pod's own affinity excludes count as well: the global minimum may be that of a domain which the pod
// can't reach, and then those which it can reach are over maxSkew by comparison. Podgrace calls infeasible what lacks a
// node or a domain; here neither is lacking, and the next pod that goes elsewhere may change it. The cases are counted.
func outOfReach(k corev1.TopologySpreadConstraint, usable []*corev1.Node) bool {
	return k.NodeAffinityPolicy != nil && *k.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore &&
		slices.ContainsFunc(usable, func(n *corev1.Node) bool { _, has := n.Labels[k.TopologyKey]; return has })
}

// TestFidelityFeasibility: with a single hard constraint, Podgrace calls it infeasible just where the scheduler finds no
// node for the pod, of those that it may use.
func TestFidelityFeasibility(t *testing.T) {
	t.Parallel()
	plugin, cases := newScheduler(t), feasibilityCases(1)
	wanted := []share{{"infeasible", 10}, {"infeasible by minDomains", 4}, {"feasible", 30}}
	check(t, wanted, func(t *rapid.T, counts *tally) {
		c := cases.Draw(t, "case")
		arrived := sent(t, received(t, c.Pod))
		j := judge(t, c, arrived)
		final := arrived.DeepCopy()
		final.Spec.TopologySpreadConstraints = j.constraints
		final = sent(t, prepared(received(t, final)))
		hard := j.constraints[len(j.constraints)-1]
		fits := plugin.fits(t, final, c.Nodes, c.Neighbours)
		nodes := usableNodes(final, []corev1.TopologySpreadConstraint{hard}, c.Nodes)
		open := slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return fits[n.Name] })
		switch {
		case len(j.infeasible) > 0 && open:
			t.Fatalf("Podgrace calls it infeasible, the scheduler has a node for it: %v\n%s", fits, show(final.Spec))
		case len(j.infeasible) == 0 && len(nodes) > 0 && !open && outOfReach(hard, nodes):
			counts.add("known: nodeAffinityPolicy Ignore, only domains out of reach fit")
			return
		case len(j.infeasible) == 0 && len(nodes) > 0 && !open:
			t.Fatalf("Podgrace calls it feasible, the scheduler finds none of %d nodes: %v\n%s", len(nodes), fits, show(final.Spec))
		}
		countFeasibility(counts, j, len(nodes))
	})
}

func countFeasibility(counts *tally, j judgement, nodes int) {
	switch {
	case len(j.infeasible) == 0 && nodes == 0:
		counts.add("feasible, but no node is usable")
	case len(j.infeasible) == 0:
		counts.add("feasible")
	default:
		counts.add("infeasible")
		if k := j.infeasible[0]; nodes > 0 && k.MinDomains != nil && *k.MinDomains > 1 {
			counts.add("infeasible by minDomains")
		}
	}
}

// TestFidelityFeasibilityOfSeveral: with several hard constraints, a pod of which Podgrace calls one infeasible fits on
// no node.
func TestFidelityFeasibilityOfSeveral(t *testing.T) {
	t.Parallel()
	plugin, cases := newScheduler(t), feasibilityCases(3)
	check(t, []share{{"infeasible", 10}, {"feasible", 10}}, func(t *rapid.T, counts *tally) {
		c := cases.Draw(t, "case")
		arrived := sent(t, received(t, c.Pod))
		j := judge(t, c, arrived)
		final := arrived.DeepCopy()
		final.Spec.TopologySpreadConstraints = j.constraints
		final = sent(t, prepared(received(t, final)))
		fits := plugin.fits(t, final, c.Nodes, c.Neighbours)
		for _, n := range usableNodes(final, j.infeasible, c.Nodes) {
			if len(j.infeasible) > 0 && fits[n.Name] {
				t.Fatalf("Podgrace calls %d constraints infeasible, but the scheduler takes node %s: %v\n%s", len(j.infeasible), n.Name, fits, show(j.infeasible, final.Spec))
			}
		}
		countFeasibility(counts, j, len(c.Nodes))
	})
}
