package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// node is a node of a zone with two processors, 4 GiB and room for 110 pods.
func node(name, zone string) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
}

// barPod is a pod with the label foo=bar that asks for so many thousandths of a processor, on a node or on none.
func barPod(name, node string, milli int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"foo": "bar"}},
		Spec: corev1.PodSpec{NodeName: node, SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{
			Name: "c", Image: "example/app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}},
		}}},
	}
}

// spreadPod wants to be spread over zones and hosts.
func spreadPod(name string) *corev1.Pod {
	p := barPod(name, "", 100)
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelHostname} {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"foo": "bar"}},
		})
	}
	return p
}

// contradiction is the example of the design of topology spread: the zone wants n3, the hostname wants n2.
func contradiction() Cluster {
	c := Cluster{Nodes: []*corev1.Node{node("n1", "A"), node("n2", "A"), node("n3", "B")}}
	for i, on := range []string{"n1", "n1", "n2", "n3", "n3"} {
		c.Pods = append(c.Pods, barPod(fmt.Sprint("web-", i), on, 100))
	}
	return c
}

func judge(t *testing.T, c Cluster, p *corev1.Pod) *Verdict {
	t.Helper()
	s, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Judge(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// names of the nodes that fit, the best first.
func fitting(v *Verdict) []string {
	var names []string
	for _, n := range v.Nodes[:v.Fit()] {
		names = append(names, n.Name)
	}
	return names
}

// Two constraints that each can be met, and together cannot; and the ways out of it.
func TestSpread(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Cluster, *corev1.Pod)
		want   []string
	}{
		"contradiction":      {func(*Cluster, *corev1.Pod) {}, nil},
		"more skew of zones": {func(_ *Cluster, p *corev1.Pod) { p.Spec.TopologySpreadConstraints[0].MaxSkew = 2 }, []string{"n2"}},
		"more skew of hosts": {func(_ *Cluster, p *corev1.Pod) { p.Spec.TopologySpreadConstraints[1].MaxSkew = 2 }, []string{"n3"}},
		"zones as a wish": {func(_ *Cluster, p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints[0].WhenUnsatisfiable = corev1.ScheduleAnyway
		}, []string{"n2"}},
		"hosts as a wish": {func(_ *Cluster, p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints[1].WhenUnsatisfiable = corev1.ScheduleAnyway
		}, []string{"n3"}},
		"another empty node, B": {func(c *Cluster, _ *corev1.Pod) { c.Nodes = append(c.Nodes, node("n4", "B")) }, []string{"n4"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, p := contradiction(), spreadPod("web-new")
			test.change(&c, p)
			v := judge(t, c, p)
			if got := fitting(v); !cmp.Equal(got, test.want) {
				t.Errorf("fits on %q, want %q: %+v", got, test.want, v.Nodes)
			}
		})
	}
}

// What contradicts what, and which changes were tried with success.
func TestContradiction(t *testing.T) {
	v := judge(t, contradiction(), spreadPod("web-new"))
	want := []Contradiction{{
		Constraints: []int{0, 1}, Allows: [][]string{{"n3"}, {"n2"}},
		Ways: []Way{{0, 2, []string{"n2"}}, {0, 0, []string{"n2"}}, {1, 2, []string{"n3"}}, {1, 0, []string{"n3"}}},
	}}
	if diff := cmp.Diff(want, v.Contradictions); diff != "" {
		t.Error(diff)
	}
	alone := spreadPod("web-new")
	alone.Spec.TopologySpreadConstraints[0].MinDomains = new(int32(3)) // so that the minimum is 0
	v = judge(t, contradiction(), alone)
	if len(v.Contradictions) != 1 || !cmp.Equal(v.Contradictions[0].Constraints, []int{0}) || !cmp.Equal(v.Contradictions[0].Ways, []Way{{0, 4, []string{"n2"}}, {0, 0, []string{"n2"}}}) {
		t.Errorf("%+v", v.Contradictions)
	}
	large := spreadPod("web-new") // the constraints are not to blame
	large.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
	if v = judge(t, contradiction(), large); len(v.Contradictions) > 0 {
		t.Errorf("%+v", v.Contradictions)
	}
}

func TestSpreadTables(t *testing.T) {
	p := spreadPod("web-new")
	p.Spec.TopologySpreadConstraints[1].WhenUnsatisfiable = corev1.ScheduleAnyway
	p.Spec.TopologySpreadConstraints[1].MinDomains = nil
	v := judge(t, contradiction(), p)
	want := []Spread{
		{
			TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, MinDomains: 1, SelfMatch: true, Minimum: 2,
			Domains: []Domain{{"A", 3, 2}, {"B", 2, 1}},
		},
		{
			TopologyKey: corev1.LabelHostname, MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway, MinDomains: 1, SelfMatch: true, Minimum: 1,
			Domains: []Domain{{"n1", 2, 2}, {"n2", 1, 1}, {"n3", 2, 2}},
		},
	}
	if diff := cmp.Diff(want, v.Spread); diff != "" {
		t.Error(diff)
	}
}

// The words are the scheduler's, and it knows where preemption could help.
func TestReasons(t *testing.T) {
	c := Cluster{Nodes: []*corev1.Node{node("full", "A"), node("tainted", "A"), node("small", "A")}}
	c.Nodes[1].Spec.Taints = []corev1.Taint{{Key: "only", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
	c.Nodes[2].Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("1")
	c.Pods = []*corev1.Pod{barPod("other", "full", 1000), barPod("ended", "full", 1000)}
	c.Pods[1].Status.Phase = corev1.PodSucceeded
	v := judge(t, c, barPod("web", "", 1500))
	want := []Node{
		{Name: "full", Plugin: "NodeResourcesFit", Reasons: []string{"Insufficient cpu"}, MayPreempt: true},
		{Name: "small", Plugin: "NodeResourcesFit", Reasons: []string{"Insufficient cpu"}},
		{Name: "tainted", Plugin: "TaintToleration", Reasons: []string{"node(s) had untolerated taint(s)"}},
	}
	if diff := cmp.Diff(want, v.Nodes); diff != "" {
		t.Error(diff)
	}
	if v.Outcome != Nowhere || v.Preemption == nil || len(v.Preemption.Candidates) > 0 {
		t.Errorf("%+v", v)
	}
}

func TestScores(t *testing.T) {
	c := Cluster{Nodes: []*corev1.Node{node("busy", "A"), node("idle", "A"), node("idle-2", "A")}, Pods: []*corev1.Pod{barPod("other", "busy", 1500)}}
	v := judge(t, c, barPod("web", "", 100))
	if got, want := fitting(v), []string{"idle", "idle-2", "busy"}; !cmp.Equal(got, want) {
		t.Fatalf("in order of scores: %q, want %q", got, want)
	}
	if best := v.Best(); len(best) != 2 {
		t.Errorf("the best: %+v", best)
	}
	for _, n := range v.Nodes {
		var sum int64
		for _, s := range n.Scores {
			sum += s.Score * s.Weight
			if s.Score < 0 || s.Score > 100 {
				t.Errorf("%s: %+v", n.Name, s)
			}
		}
		if sum != n.Total || sum == 0 {
			t.Errorf("%s: the scores add up to %d, the total is %d", n.Name, sum, n.Total)
		}
	}
}

// prioritized gives a pod a priority, and a start.
func prioritized(p *corev1.Pod, priority int32, started string) *corev1.Pod {
	p.Spec.Priority = &priority
	at, err := time.Parse(time.TimeOnly, started)
	if err != nil {
		panic(err)
	}
	p.Status.StartTime = &metav1.Time{Time: at}
	return p
}

// Of two nodes where others would have to go the one is picked where no budget is violated; of those that go none of them has to.
func TestPreemption(t *testing.T) {
	c := Cluster{Nodes: []*corev1.Node{node("n1", "A"), node("n2", "A"), node("n3", "A"), node("vip", "A")}}
	for _, n := range []string{"n1", "n2", "n3", "vip"} {
		for i, milli := range []int64{1500, 400} {
			p := prioritized(barPod(fmt.Sprint(n, "-", i), n, milli), 10, "08:00:00")
			switch n {
			case "n1":
				p.Labels["guarded"] = "yes"
			case "n3":
				*p.Spec.Priority = 20
			case "vip":
				*p.Spec.Priority = 1000
			}
			c.Pods = append(c.Pods, p)
		}
	}
	c.Objects = []client.Object{&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "guarded"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"guarded": "yes"}}},
	}}
	v := judge(t, c, prioritized(barPod("urgent", "", 600), 100, "09:00:00"))
	if v.Outcome != Preempts || len(v.Preemption.Candidates) != 3 {
		t.Fatalf("%s %+v", v.Outcome, v.Preemption)
	}
	var got []string
	for _, c := range v.Preemption.Candidates {
		for _, p := range c.Victims {
			got = append(got, fmt.Sprintf("%s %s %d violated, priority %d", c.Node, p.Name, c.Criteria.Violations, c.Criteria.HighestPriority))
		}
	}
	want := []string{"n2 n2-0 0 violated, priority 10", "n3 n3-0 0 violated, priority 20", "n1 n1-0 1 violated, priority 10"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	never := prioritized(barPod("polite", "", 600), 100, "09:00:00")
	never.Spec.PreemptionPolicy = new(corev1.PreemptNever)
	if v = judge(t, c, never); v.Outcome != Nowhere || v.Preemption.Refused != "not eligible due to preemptionPolicy=Never." {
		t.Errorf("%s %+v", v.Outcome, v.Preemption)
	}
}

// Room that was made for one pod is kept from another one of lower priority.
func TestNominated(t *testing.T) {
	waits := prioritized(barPod("waits", "", 1500), 100, "08:00:00")
	waits.Status.NominatedNodeName = "n1"
	c := Cluster{Nodes: []*corev1.Node{node("n1", "A")}, Pods: []*corev1.Pod{waits}}
	if v := judge(t, c, prioritized(barPod("lower", "", 1000), 10, "08:00:00")); v.Outcome != Nowhere {
		t.Errorf("a lower one: %s", v.Outcome)
	}
	if v := judge(t, c, prioritized(barPod("higher", "", 1000), 1000, "08:00:00")); v.Outcome != Fits {
		t.Errorf("a higher one: %s", v.Outcome)
	}
}

// A claim that is missing is no node's fault; one that is bound to a disk of a zone is. The lookups are those of the plugins.
func TestVolumes(t *testing.T) {
	claimed := barPod("db", "", 100)
	claimed.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	c := Cluster{Nodes: []*corev1.Node{node("a", "A"), node("b", "B")}}
	v := judge(t, c, claimed)
	if v.Outcome != Nowhere || v.Why != `persistentvolumeclaim "data" not found` {
		t.Errorf("without the claim: %s %q", v.Outcome, v.Why)
	}
	c.Objects = []client.Object{
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "disk"}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"B"}}}}},
		}}}},
	}
	v = judge(t, c, claimed)
	if got := fitting(v); !cmp.Equal(got, []string{"b"}) || v.Nodes[1].Plugin != "VolumeBinding" {
		t.Errorf("with a disk in zone B: %q %+v", got, v.Nodes)
	}
}

func TestGated(t *testing.T) {
	p := barPod("web", "", 100)
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
	if v := judge(t, Cluster{Nodes: []*corev1.Node{node("n1", "A")}}, p); v.Outcome != Gated || v.Why != "waiting for scheduling gates: [example.com/quota]" {
		t.Errorf("%+v", v)
	}
}

// Pods that are placed count for the next one.
func TestPlace(t *testing.T) {
	s, err := New(t.Context(), contradiction())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Place(barPod("between", "", 100), "n2"); err != nil {
		t.Fatal(err)
	}
	v, err := s.Judge(t.Context(), spreadPod("web-new"))
	if err != nil {
		t.Fatal(err)
	}
	if got := fitting(v); !cmp.Equal(got, []string{"n3"}) { // all hosts have two, zone A has four
		t.Errorf("got %q", got)
	}
}
