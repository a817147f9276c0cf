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
	"github.com/podgrace/podgrace/defaulting/topology"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

type feasibilityCase struct {
	Pod        *corev1.Pod
	Spread     *v1alpha1.TopologySpreadSection
	Service    map[string]string
	Nodes      []*corev1.Node
	Neighbours []*corev1.Pod
}

func (c *feasibilityCase) GoString() string {
	return draw.Show(c.Pod, c.Spread, c.Service, c.Nodes, c.Neighbours)
}

// feasibilityCases have so many hard constraints, and sometimes soft ones. The selector comes from a Service, or from a
// StatefulSet that does not select the pod: then the pod does not count itself.
func feasibilityCases(most int) *rapid.Generator[*feasibilityCase] {
	return draw.Of(func(s draw.Source) *feasibilityCase {
		c := &feasibilityCase{Spread: &v1alpha1.TopologySpreadSection{}, Service: map[string]string{"app": "a"}}
		c.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod", Labels: map[string]string{"app": "a", "tier": draw.Pick(s, "a", "b")}}}
		c.Pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example/app"}}
		if s.Chance(9) {
			draw.AddNodeAffinity(s, &c.Pod.Spec)
		}
		c.Pod.Spec.Tolerations = draw.Tolerations(s)
		for _, key := range draw.TopologyKeys[:most] {
			if s.Chance(2) {
				c.Spread.Constraints = append(c.Spread.Constraints, drawConstraint(s, key, corev1.ScheduleAnyway))
			}
		}
		hard := 1 + s.Below(most)
		from := s.Below(len(draw.TopologyKeys))
		for i := range hard {
			c.Spread.Constraints = append(c.Spread.Constraints, drawConstraint(s, draw.TopologyKeys[(from+i)%len(draw.TopologyKeys)], corev1.DoNotSchedule))
		}
		c.Nodes = draw.Nodes(s, 5)
		c.Neighbours = drawNeighbours(s, c.Nodes, c.Pod.Labels)
		if most > 1 && s.Chance(2) {
			for _, p := range c.Neighbours {
				p.Spec.Priority = new(draw.Pick(s, int32(0), -1))
			}
		}
		if s.Chance(2) {
			c.Pod.OwnerReferences = []metav1.OwnerReference{ownerReference(ownerKinds[1], "owner", new(true))}
		}
		if most > 1 && s.Chance(3) {
			c.unhindered()
		}
		return c
	})
}

// unhindered leaves nothing but the numbers of pods in the way of the constraints: by chance they are rarely what decides.
func (c *feasibilityCase) unhindered() {
	c.Pod.Spec.NodeSelector, c.Pod.Spec.Affinity = nil, nil
	for i := range c.Spread.Constraints {
		k := &c.Spread.Constraints[i]
		k.MaxSkew, k.MinDomains, k.NodeAffinityPolicy, k.NodeTaintsPolicy = 1, nil, nil, nil
	}
	for i, n := range c.Nodes {
		n.Labels[corev1.LabelHostname] = n.Name
		for _, key := range draw.TopologyKeys {
			if _, ok := n.Labels[key]; !ok {
				n.Labels[key] = "abc"[i%3 : i%3+1]
			}
		}
	}
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
		t.Fatalf("PreFilter: %v\n%s", status, draw.Show(pod.Spec.TopologySpreadConstraints))
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
	// contradiction is what it says of several of them together; empty: nothing.
	contradiction string
	// kept are the hard ones that Soften leaves hard.
	kept []corev1.TopologySpreadConstraint
}

// judge asks Podgrace with each of the three actions. They must rest on the same judgement.
func judge(t *rapid.T, c *feasibilityCase, arrived *corev1.Pod) judgement {
	facts := defaulting.Facts{ServiceSelectors: []map[string]string{c.Service}, Nodes: topology.New(c.Nodes...), Pods: counted(c.Neighbours), Told: true, OwnerSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "a"}}}
	apply := func(action v1alpha1.InfeasibleAction) defaulting.Result {
		policy := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.PodPolicySpec{TopologySpread: c.Spread.DeepCopy()}}
		policy.Spec.TopologySpread.OnInfeasible = action
		req := request(arrived, authenticationv1.UserInfo{})
		return defaulting.For(compiled(t, []*v1alpha1.PodPolicy{policy}), req, kubeSystemAlone).Apply(req, facts)
	}
	warned, denied, softened := apply(v1alpha1.InfeasibleWarn), apply(v1alpha1.InfeasibleDeny), apply(v1alpha1.InfeasibleSoften)
	j := judgement{constraints: injected(warned.Changes)}
	for _, k := range injected(softened.Changes) {
		if k.WhenUnsatisfiable == corev1.DoNotSchedule {
			j.kept = append(j.kept, k)
		}
	}
	for _, w := range warned.Warnings {
		if strings.Contains(w.Message, "hard spread constraints over ") {
			j.contradiction = w.Message
		}
	}
	for _, k := range j.constraints {
		if k.WhenUnsatisfiable == corev1.DoNotSchedule && slices.ContainsFunc(warned.Warnings, func(w defaulting.Warning) bool {
			return strings.Contains(w.Message, "hard spread constraint over "+k.TopologyKey+" can't be met now")
		}) {
			j.infeasible = append(j.infeasible, k)
		}
	}
	hard := 0
	for _, k := range j.constraints {
		if k.WhenUnsatisfiable == corev1.DoNotSchedule {
			hard++
		}
	}
	isKept := func(k corev1.TopologySpreadConstraint) bool {
		return slices.ContainsFunc(j.kept, func(o corev1.TopologySpreadConstraint) bool { return o.TopologyKey == k.TopologyKey })
	}
	denies, said := len(denied.Denials) > 0, len(j.infeasible) > 0 || j.contradiction != ""
	if denies != said || slices.ContainsFunc(j.infeasible, isKept) || len(j.infeasible) == 0 && (len(j.kept) < hard) != said {
		t.Fatalf("Warn, Soften and Deny do not agree\n%s", draw.Show(warned, softened, denied))
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
		slices.ContainsFunc(usable, func(n *corev1.Node) bool { _, ok := n.Labels[k.TopologyKey]; return ok })
}

// TestFidelityFeasibility: with a single hard constraint, Podgrace calls it infeasible just where the scheduler finds no
// node for the pod, of those that it may use.
func TestFidelityFeasibility(t *testing.T) {
	t.Parallel()
	plugin, cases := newScheduler(t), feasibilityCases(1)
	wanted := draw.Shares{"infeasible": 10, "infeasible by minDomains": 4, "feasible": 30}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
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
			t.Fatalf("Podgrace calls it infeasible, the scheduler has a node for it: %v\n%s", fits, draw.Show(final.Spec))
		case len(j.infeasible) == 0 && len(nodes) > 0 && !open && outOfReach(hard, nodes):
			counts.Add("known: nodeAffinityPolicy Ignore, only domains out of reach fit")
			return
		case len(j.infeasible) == 0 && len(nodes) > 0 && !open:
			t.Fatalf("Podgrace calls it feasible, the scheduler finds none of %d nodes: %v\n%s", len(nodes), fits, draw.Show(final.Spec))
		}
		countFeasibility(counts, j, len(nodes))
	})
}

func countFeasibility(counts *draw.Tally, j judgement, nodes int) {
	switch {
	case len(j.infeasible) == 0 && nodes == 0:
		counts.Add("feasible, but no node is usable")
	case len(j.infeasible) == 0:
		counts.Add("feasible")
	default:
		counts.Add("infeasible")
		if k := j.infeasible[0]; nodes > 0 && k.MinDomains != nil && *k.MinDomains > 1 {
			counts.Add("infeasible by minDomains")
		}
	}
}

// TestFidelityFeasibilityOfSeveral: with several hard constraints Podgrace judges each by itself, in the company of the others: the
// scheduler looks only at nodes that have the keys of all. That judgement is held in both directions: a constraint is called
// infeasible just where the plugin, asked about it alone among those nodes, finds none that the pod may use. So the reverse of
// "what is called infeasible fits on no node" is not that the rest fits: constraints that can each be met may leave no node
// together, one only in zone a, another only in zone b. Where nothing is infeasible by itself Podgrace says that of two or more, and the plugin finds
// then no node; where it is silent although no node is left, pods might be preempted.
func TestFidelityFeasibilityOfSeveral(t *testing.T) {
	t.Parallel()
	plugin, cases := newScheduler(t), feasibilityCases(3)
	wanted := draw.Shares{
		"infeasible": 10, "feasible": 10, "some of several infeasible": 5, "by minDomains among several": 1,
		"by the keys of several": 0.5, "each can be met, not together": 0.2, "softened further": 0.1,
	}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
		c := cases.Draw(t, "case")
		arrived := sent(t, received(t, c.Pod))
		arrived.Spec.Priority = new(int32(0))
		j := judge(t, c, arrived)
		final := arrived.DeepCopy()
		final.Spec.TopologySpreadConstraints = j.constraints
		final = sent(t, prepared(received(t, final)))
		together := plugin.fits(t, final, c.Nodes, c.Neighbours)
		for _, n := range usableNodes(final, j.infeasible, c.Nodes) {
			if len(j.infeasible) > 0 && together[n.Name] {
				t.Fatalf("Podgrace calls %d constraints infeasible, but the scheduler takes node %s: %v\n%s", len(j.infeasible), n.Name, together, draw.Show(j.infeasible, final.Spec))
			}
		}
		inCompany := plugin.inCompany(t, final, c)
		inCompany.checkEach(t, j, final, counts)
		if len(j.infeasible) == 0 {
			inCompany.checkTogether(t, j, final, c, together, counts)
		}
		plugin.checkSoftened(t, j, final, c, counts)
		countFeasibility(counts, j, len(c.Nodes))
	})
}

// company is what the plugin says of each hard constraint of a pod by itself. That is no other question than the one about all of
// them: Filter takes a node where each constraint does, and each counts on the nodes with the keys of all (filtering.go, 1.36.3).
type company struct {
	hard []corev1.TopologySpreadConstraint
	// alone: no node with its own key is for the pod. The company of such a constraint counts for nothing.
	alone []bool
	// nodes are those with the keys of the rest, and of them the ones that the plugin takes for it and the pod may use.
	nodes []*corev1.Node
	takes []map[string]bool
	open  []bool
	// outOfReach: see there.
	outOfReach []bool
	// met: it can be met if it is the only one, with what runs there.
	met []bool
}

func (s *scheduler) inCompany(t *rapid.T, pod *corev1.Pod, c *feasibilityCase) company {
	var all company
	only := func(k corev1.TopologySpreadConstraint) *corev1.Pod {
		p := pod.DeepCopy()
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{k}
		return p
	}
	for _, k := range pod.Spec.TopologySpreadConstraints {
		if k.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		anyCount := *k.DeepCopy()
		anyCount.MinDomains = nil
		fits := s.fits(t, only(anyCount), c.Nodes, nil) // without pods no skew is too large
		usable := usableNodes(pod, []corev1.TopologySpreadConstraint{k}, c.Nodes)
		fitsNow := s.fits(t, only(k), c.Nodes, c.Neighbours)
		all.met = append(all.met, slices.ContainsFunc(usableNodes(pod, nil, c.Nodes), func(n *corev1.Node) bool { return fitsNow[n.Name] }))
		all.hard = append(all.hard, k)
		all.alone = append(all.alone, !slices.ContainsFunc(usable, func(n *corev1.Node) bool { return fits[n.Name] }))
	}
	for _, n := range c.Nodes {
		has := true
		for i, k := range all.hard {
			_, labelled := n.Labels[k.TopologyKey]
			has = has && (labelled || all.alone[i])
		}
		if has {
			all.nodes = append(all.nodes, n)
		}
	}
	for _, k := range all.hard {
		takes := map[string]bool{}
		if len(all.nodes) > 0 {
			takes = s.fits(t, only(k), all.nodes, c.Neighbours)
		}
		usable := usableNodes(pod, []corev1.TopologySpreadConstraint{k}, all.nodes)
		all.takes = append(all.takes, takes)
		all.open = append(all.open, slices.ContainsFunc(usable, func(n *corev1.Node) bool { return takes[n.Name] }))
		all.outOfReach = append(all.outOfReach, outOfReach(k, usable))
	}
	return all
}

// checkEach: what is called infeasible is what no node can meet, of those with the keys of the rest.
func (c *company) checkEach(t *rapid.T, j judgement, pod *corev1.Pod, counts *draw.Tally) {
	for i, k := range c.hard {
		called := slices.ContainsFunc(j.infeasible, func(o corev1.TopologySpreadConstraint) bool { return o.TopologyKey == k.TopologyKey })
		impossible := c.alone[i] || !c.open[i]
		if called == impossible {
			continue
		}
		if !called && !c.alone[i] && c.outOfReach[i] {
			counts.Add("known: nodeAffinityPolicy Ignore, only domains out of reach fit")
			continue
		}
		t.Fatalf("of the constraint over %s Podgrace says infeasible: %v, the scheduler, asked about it alone: %v (on its own nodes: %v)\n%s", k.TopologyKey, called, impossible, c.alone[i], draw.Show(pod.Spec))
	}
	c.count(j, counts)
}

func (c *company) count(j judgement, counts *draw.Tally) {
	if len(c.hard) < 2 || len(j.infeasible) == 0 {
		return
	}
	if len(j.infeasible) < len(c.hard) {
		counts.Add("some of several infeasible")
	}
	for i, k := range c.hard {
		if c.alone[i] || c.open[i] {
			continue
		}
		if len(c.nodes) == 0 {
			counts.Add("by the keys of several")
			return
		}
		if k.MinDomains != nil && *k.MinDomains > 1 {
			counts.Add("by minDomains among several")
			return
		}
	}
}

// checkTogether: where nothing was called infeasible, a node fits that each constraint takes, and only such a one; and where there is none, Podgrace says that
// they contradict each other.
func (c *company) checkTogether(t *rapid.T, j judgement, pod *corev1.Pod, drawn *feasibilityCase, together map[string]bool, counts *draw.Tally) {
	nodes, common := drawn.Nodes, false
	for _, n := range nodes {
		each := slices.Contains(c.nodes, n) && !slices.ContainsFunc(c.takes, func(takes map[string]bool) bool { return !takes[n.Name] })
		if each != together[n.Name] {
			t.Fatalf("node %s is taken for each constraint alone: %v, for all: %v\n%s", n.Name, each, together[n.Name], draw.Show(pod.Spec))
		}
		common = common || each && len(usableNodes(pod, c.hard, []*corev1.Node{n})) > 0
	}
	if j.contradiction != "" && slices.ContainsFunc(usableNodes(pod, nil, nodes), func(n *corev1.Node) bool { return together[n.Name] }) {
		t.Fatalf("the scheduler has a node, but Podgrace says %q\n%s", j.contradiction, draw.Show(together, pod.Spec))
	}
	if common || len(nodes) == 0 || slices.Contains(c.outOfReach, true) {
		return
	}
	if len(c.hard) < 2 || slices.Contains(c.open, false) {
		t.Fatalf("Podgrace calls nothing infeasible, the scheduler finds no node, and it is no contradiction of several: %v\n%s", together, draw.Show(pod.Spec))
	}
	switch {
	case j.contradiction != "":
		counts.Add("each can be met, not together")
	case slices.ContainsFunc(drawn.Neighbours, mayBePreempted):
		counts.Add("silent: pods may be preempted")
	case slices.ContainsFunc(c.hard, honorsTaints): // a tainted node is left, which another plugin refuses
		counts.Add("silent: taints")
	case selectors(pod) > 2:
		counts.Add("silent: more selectors than are counted")
	case slices.Contains(c.met, false): // on nodes without the keys of the others are fewer pods
		counts.Add("silent: one can't be met alone")
	default:
		t.Fatalf("each can be met, not together, and Podgrace is silent: %v\n%s", together, draw.Show(pod.Spec))
	}
}

func mayBePreempted(p *corev1.Pod) bool { return p.Spec.Priority != nil && *p.Spec.Priority < 0 }

// selectors are how many different ones the hard constraints have.
func selectors(pod *corev1.Pod) int {
	different := map[string]bool{}
	for _, k := range pod.Spec.TopologySpreadConstraints {
		if k.WhenUnsatisfiable == corev1.DoNotSchedule {
			different[metav1.FormatLabelSelector(k.LabelSelector)] = true
		}
	}
	return len(different)
}

// checkSoftened: Soften takes no more than what stands in the way.
func (s *scheduler) checkSoftened(t *rapid.T, j judgement, pod *corev1.Pod, c *feasibilityCase, counts *draw.Tally) {
	left := pod.DeepCopy()
	left.Spec.TopologySpreadConstraints = slices.DeleteFunc(left.Spec.TopologySpreadConstraints, func(k corev1.TopologySpreadConstraint) bool {
		return k.WhenUnsatisfiable != corev1.DoNotSchedule || slices.ContainsFunc(j.infeasible, func(o corev1.TopologySpreadConstraint) bool { return o.TopologyKey == k.TopologyKey })
	})
	if len(j.kept) == len(left.Spec.TopologySpreadConstraints) {
		return
	}
	counts.Add("softened further")
	for _, n := range usableNodes(pod, nil, c.Nodes) {
		if fits := s.fits(t, left, c.Nodes, c.Neighbours); fits[n.Name] {
			t.Fatalf("Podgrace keeps %d hard constraints, but the scheduler has node %s for more of them: %v\n%s", len(j.kept), n.Name, fits, draw.Show(left.Spec))
		}
	}
}
