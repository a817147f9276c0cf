package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/preview/scheduler/schedulertest"
)

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
	for _, e := range schedulertest.Examples() {
		t.Run(e.Name, func(t *testing.T) {
			v := judge(t, clusterOf(&e.Case), e.Pod)
			if got := fitting(v); !cmp.Equal(got, e.Fits) {
				t.Errorf("fits on %q, want %q: %+v", got, e.Fits, v.Nodes)
			}
		})
	}
}

func clusterOf(c *schedulertest.Case) Cluster {
	return Cluster{Nodes: c.Nodes, Pods: c.Pods, Objects: c.Objects}
}

// contradiction is the first of the examples.
func contradiction() Cluster { return clusterOf(&schedulertest.Examples()[0].Case) }

// What contradicts what, and which changes were tried with success.
func TestContradiction(t *testing.T) {
	v := judge(t, contradiction(), schedulertest.SpreadPod("web-new"))
	want := []scheduling.Contradiction{{
		Constraints: []int{0, 1}, Allows: [][]string{{"n3"}, {"n2"}},
		Ways: []scheduling.Way{{Constraint: 0, MaxSkew: 2, Nodes: []string{"n2"}}, {Constraint: 0, Nodes: []string{"n2"}}, {Constraint: 1, MaxSkew: 2, Nodes: []string{"n3"}}, {Constraint: 1, Nodes: []string{"n3"}}},
	}}
	if diff := cmp.Diff(want, v.Contradictions); diff != "" {
		t.Error(diff)
	}
	alone := schedulertest.SpreadPod("web-new")
	alone.Spec.TopologySpreadConstraints[0].MinDomains = new(int32(3)) // so that the minimum is 0
	v = judge(t, contradiction(), alone)
	if len(v.Contradictions) != 1 || !cmp.Equal(v.Contradictions[0].Constraints, []int{0}) || !cmp.Equal(v.Contradictions[0].Allows, [][]string{{}}) || !cmp.Equal(v.Contradictions[0].Ways, []scheduling.Way{{MaxSkew: 4, Nodes: []string{"n2"}}, {Nodes: []string{"n2"}}}) {
		t.Errorf("%+v", v.Contradictions)
	}
	large := schedulertest.SpreadPod("web-new") // the constraints are not to blame
	large.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
	if v = judge(t, contradiction(), large); len(v.Contradictions) > 0 {
		t.Errorf("%+v", v.Contradictions)
	}
}

// A constraint that counts nodes which the pod can't have honors what keeps it from them, before it gets a larger maxSkew.
func TestHonoring(t *testing.T) {
	const honor, ignore = corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore
	c := Cluster{Nodes: []*corev1.Node{schedulertest.Node("n1", "A"), schedulertest.Node("n2", "A"), schedulertest.Node("n3", "A")}}
	c.Nodes[0].Labels["pool"], c.Nodes[1].Labels["pool"] = "web", "web"
	c.Nodes[1].Spec.Taints = []corev1.Taint{{Key: "own", Effect: corev1.TaintEffectNoSchedule}}
	there := schedulertest.SpreadPod("web-0")
	there.Spec.NodeName = "n1"
	c.Pods = []*corev1.Pod{there}
	for name, test := range map[string]struct {
		pool             string
		taints, affinity *corev1.NodeInclusionPolicy
		gone             int // of the nodes at the end
		want             []scheduling.Way
	}{
		"a tainted node":                  {"", nil, nil, 1, []scheduling.Way{{NodeTaintsPolicy: honor}, {MaxSkew: 2}, {}}},
		"a tainted node, said":            {"", new(ignore), nil, 1, []scheduling.Way{{NodeTaintsPolicy: honor}, {MaxSkew: 2}, {}}},
		"a node of another pool":          {"web", new(honor), new(ignore), 0, []scheduling.Way{{NodeAffinityPolicy: honor}, {MaxSkew: 2}, {}}},
		"both":                            {"web", nil, new(ignore), 0, []scheduling.Way{{NodeTaintsPolicy: honor, NodeAffinityPolicy: honor}, {MaxSkew: 2}, {}}},
		"taints, and affinity by default": {"web", nil, nil, 0, []scheduling.Way{{NodeTaintsPolicy: honor}, {MaxSkew: 2}, {}}},
	} {
		p := schedulertest.SpreadPod("web-1")
		p.Spec.TopologySpreadConstraints = p.Spec.TopologySpreadConstraints[1:]
		p.Spec.TopologySpreadConstraints[0].NodeTaintsPolicy, p.Spec.TopologySpreadConstraints[0].NodeAffinityPolicy = test.taints, test.affinity
		if test.pool != "" {
			p.Spec.NodeSelector = map[string]string{"pool": test.pool}
		}
		in := c
		in.Nodes = c.Nodes[:len(c.Nodes)-test.gone]
		for i := range test.want {
			test.want[i].Nodes = []string{"n1"}
		}
		v := judge(t, in, p)
		if len(v.Contradictions) != 1 {
			t.Errorf("%s: %s, %+v", name, v.Outcome, v.Contradictions)
			continue
		}
		if diff := cmp.Diff(test.want, v.Contradictions[0].Ways); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Each constraint keeps the pod from one of three nodes: no two of them are to blame, and a fourth has nothing to do with it.
func TestContradictionOfThree(t *testing.T) {
	var c Cluster
	p := schedulertest.Pod("web-new", "", 100)
	for i, key := range []string{"a", "b", "c", "d"} {
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"on": key}}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector})
		if i == 3 {
			break
		}
		n := schedulertest.Node(fmt.Sprint("n", i+1), "A")
		for _, other := range []string{"a", "b", "c", "d"} {
			n.Labels[other] = fmt.Sprint(key == other)
		}
		c.Nodes = append(c.Nodes, n)
		for j := range 2 {
			there := schedulertest.Pod(fmt.Sprint(key, j), n.Name, 100)
			there.Labels = selector.MatchLabels
			c.Pods = append(c.Pods, there)
		}
	}
	v := judge(t, c, p)
	if len(v.Contradictions) != 1 {
		t.Fatalf("%+v", v.Contradictions)
	}
	got := v.Contradictions[0]
	if want := [][]string{{"n2", "n3"}, {"n1", "n3"}, {"n1", "n2"}}; !cmp.Equal(got.Constraints, []int{0, 1, 2}) || !cmp.Equal(got.Allows, want) || len(got.Ways) != 6 {
		t.Errorf("%+v", got)
	}
}

func TestSpreadTables(t *testing.T) {
	p := schedulertest.SpreadPod("web-new")
	p.Spec.TopologySpreadConstraints[1].WhenUnsatisfiable = corev1.ScheduleAnyway
	p.Spec.TopologySpreadConstraints[1].MinDomains = nil
	v := judge(t, contradiction(), p)
	want := []scheduling.Spread{
		{
			TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, MinDomains: 1, SelfMatch: true, Minimum: 2,
			Domains: []scheduling.Domain{{Value: "A", Count: 3, SkewAfter: 2}, {Value: "B", Count: 2, SkewAfter: 1}},
		},
		{
			TopologyKey: corev1.LabelHostname, MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway, MinDomains: 1, SelfMatch: true, Minimum: 1,
			Domains: []scheduling.Domain{{Value: "n1", Count: 2, SkewAfter: 2}, {Value: "n2", Count: 1, SkewAfter: 1}, {Value: "n3", Count: 2, SkewAfter: 2}},
		},
	}
	if diff := cmp.Diff(want, v.Spread); diff != "" {
		t.Error(diff)
	}
}

// A list of no domains is an empty one, not null, in JSON.
func TestSpreadTableOfNoDomains(t *testing.T) {
	p := schedulertest.SpreadPod("web-new")
	p.Spec.TopologySpreadConstraints = p.Spec.TopologySpreadConstraints[:1]
	p.Spec.TopologySpreadConstraints[0].TopologyKey = "rack"
	if v := judge(t, contradiction(), p); len(v.Spread) != 1 || v.Spread[0].Domains == nil || len(v.Spread[0].Domains) > 0 {
		t.Errorf("%+v", v.Spread)
	}
}

// The words are the scheduler's, and it knows where preemption could help.
func TestReasons(t *testing.T) {
	c := Cluster{Nodes: []*corev1.Node{schedulertest.Node("full", "A"), schedulertest.Node("tainted", "A"), schedulertest.Node("small", "A")}}
	c.Nodes[1].Spec.Taints = []corev1.Taint{{Key: "only", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
	c.Nodes[2].Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("1")
	c.Pods = []*corev1.Pod{schedulertest.Pod("other", "full", 1000), schedulertest.Pod("ended", "full", 1000)}
	c.Pods[1].Status.Phase = corev1.PodSucceeded
	v := judge(t, c, schedulertest.Pod("web", "", 1500))
	want := []Node{
		{Name: "full", Plugin: "NodeResourcesFit", Reasons: []string{"Insufficient cpu"}, MayPreempt: true},
		{Name: "small", Plugin: "NodeResourcesFit", Reasons: []string{"Insufficient cpu"}},
		{Name: "tainted", Plugin: "TaintToleration", Reasons: []string{"node(s) had untolerated taint(s)"}},
	}
	if diff := cmp.Diff(want, v.Nodes); diff != "" {
		t.Error(diff)
	}
	if v.Outcome != scheduling.Nowhere || v.Preemption == nil || len(v.Preemption.Candidates) > 0 {
		t.Errorf("%+v", v)
	}
}

func TestScores(t *testing.T) {
	c := Cluster{Nodes: []*corev1.Node{schedulertest.Node("busy", "A"), schedulertest.Node("idle", "A"), schedulertest.Node("idle-2", "A")}, Pods: []*corev1.Pod{schedulertest.Pod("other", "busy", 1500)}}
	v := judge(t, c, schedulertest.Pod("web", "", 100))
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
	c := Cluster{Nodes: []*corev1.Node{schedulertest.Node("n1", "A"), schedulertest.Node("n2", "A"), schedulertest.Node("n3", "A"), schedulertest.Node("vip", "A")}}
	for _, n := range []string{"n1", "n2", "n3", "vip"} {
		for i, milli := range []int64{1500, 400} {
			p := prioritized(schedulertest.Pod(fmt.Sprint(n, "-", i), n, milli), 10, "08:00:00")
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
	v := judge(t, c, prioritized(schedulertest.Pod("urgent", "", 600), 100, "09:00:00"))
	if v.Outcome != scheduling.Preempts || len(v.Preemption.Candidates) != 3 {
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
	never := prioritized(schedulertest.Pod("polite", "", 600), 100, "09:00:00")
	never.Spec.PreemptionPolicy = new(corev1.PreemptNever)
	if v = judge(t, c, never); v.Outcome != scheduling.Nowhere || v.Preemption.Refused != "not eligible due to preemptionPolicy=Never." {
		t.Errorf("%s %+v", v.Outcome, v.Preemption)
	}
}

// Room that was made for one pod is kept from another one of lower priority.
func TestNominated(t *testing.T) {
	waits := prioritized(schedulertest.Pod("waits", "", 1500), 100, "08:00:00")
	waits.Status.NominatedNodeName = "n1"
	c := Cluster{Nodes: []*corev1.Node{schedulertest.Node("n1", "A")}, Pods: []*corev1.Pod{waits}}
	if v := judge(t, c, prioritized(schedulertest.Pod("lower", "", 1000), 10, "08:00:00")); v.Outcome != scheduling.Nowhere {
		t.Errorf("a lower one: %s", v.Outcome)
	}
	if v := judge(t, c, prioritized(schedulertest.Pod("higher", "", 1000), 1000, "08:00:00")); v.Outcome != scheduling.Fits {
		t.Errorf("a higher one: %s", v.Outcome)
	}
}

// A claim that is missing is no node's fault; one that is bound to a disk of a zone is. The lookups are those of the plugins.
func TestVolumes(t *testing.T) {
	claimed := schedulertest.Pod("db", "", 100)
	claimed.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	c := Cluster{Nodes: []*corev1.Node{schedulertest.Node("a", "A"), schedulertest.Node("b", "B")}}
	v := judge(t, c, claimed)
	if v.Outcome != scheduling.Nowhere || v.Why != `persistentvolumeclaim "data" not found` {
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
	p := schedulertest.Pod("web", "", 100)
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
	if v := judge(t, Cluster{Nodes: []*corev1.Node{schedulertest.Node("n1", "A")}}, p); v.Outcome != scheduling.Gated || v.Why != "waiting for scheduling gates: [example.com/quota]" {
		t.Errorf("%+v", v)
	}
}

// Pods that are placed count for the next one.
func TestPlace(t *testing.T) {
	s, err := New(t.Context(), contradiction())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Place(schedulertest.Pod("between", "", 100), "n2"); err != nil {
		t.Fatal(err)
	}
	v, err := s.Judge(t.Context(), schedulertest.SpreadPod("web-new"))
	if err != nil {
		t.Fatal(err)
	}
	if got := fitting(v); !cmp.Equal(got, []string{"n3"}) { // all hosts have two, zone A has four
		t.Errorf("got %q", got)
	}
}

// A volume that is attached to a node counts, though no pod there uses it.
func TestVolumeAttachments(t *testing.T) {
	const driver = "disks.example.com"
	p := schedulertest.Pod("db", "", 100)
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	csi := func(handle string) corev1.PersistentVolumeSpec {
		return corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}}
	}
	c := Cluster{Nodes: []*corev1.Node{schedulertest.Node("n1", "A"), schedulertest.Node("n2", "A")}, Objects: []client.Object{
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: schedulertest.Namespace, Name: "data", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "disk"},
		},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: csi("disk")},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: csi("other")},
		&storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "other"},
			Spec:       storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("other")}},
		},
	}}
	for _, n := range c.Nodes {
		c.Objects = append(c.Objects, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: n.Name, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(1))}}},
		}})
	}
	if v := judge(t, c, p); !cmp.Equal(fitting(v), []string{"n2"}) {
		t.Errorf("%+v", v.Nodes)
	}
}

// The node that a pod was nominated to is the only one that is looked at, if it fits; if it does not its refusal is told as that of others.
func TestOwnNomination(t *testing.T) {
	c := Cluster{Nodes: []*corev1.Node{schedulertest.Node("busy", "A"), schedulertest.Node("idle", "A")}, Pods: []*corev1.Pod{schedulertest.Pod("other", "busy", 1500)}}
	p := schedulertest.Pod("web", "", 100)
	p.Status.NominatedNodeName = "busy"
	if v := judge(t, c, p); v.Nominated != "busy" || len(v.Best()) != 1 || v.Best()[0].Name != "busy" || v.Fit() != 2 {
		t.Errorf("%q of %+v", v.Nominated, v.Nodes)
	}
	large := schedulertest.Pod("web", "", 1000)
	large.Status.NominatedNodeName = "busy"
	if v := judge(t, c, large); v.Nominated != "" || v.Best()[0].Name != "idle" {
		t.Errorf("%q of %+v", v.Nominated, v.Nodes)
	}
	elsewhere := schedulertest.Pod("web", "", 3000)
	elsewhere.Status.NominatedNodeName = "busy"
	elsewhere.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"gone"}}},
	}}}}}
	v := judge(t, c, elsewhere)
	want := []Node{
		{Name: "busy", Plugin: "NodeAffinity", Reasons: []string{"node(s) didn't match Pod's node affinity/selector"}},
		{Name: "idle", Reasons: []string{"node(s) didn't satisfy plugin(s) [NodeAffinity]"}},
	}
	if diff := cmp.Diff(want, v.Nodes); diff != "" {
		t.Error(diff)
	}
}

// Room is kept only for pods that are in the scheduler's queue; one that is being deleted is.
func TestNominatedOfOthers(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   scheduling.Outcome
	}{
		"waits":             {func(*corev1.Pod) {}, scheduling.Nowhere},
		"is deleted":        {func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }, scheduling.Nowhere},
		"has no scheduler":  {func(p *corev1.Pod) { p.Spec.SchedulerName = "" }, scheduling.Nowhere},
		"another scheduler": {func(p *corev1.Pod) { p.Spec.SchedulerName = "another" }, scheduling.Fits},
		"has ended":         {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, scheduling.Fits},
		"is gated":          {func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}} }, scheduling.Fits},
	} {
		t.Run(name, func(t *testing.T) {
			waits := prioritized(schedulertest.Pod("waits", "", 1500), 100, "08:00:00")
			waits.Status.NominatedNodeName = "n1"
			test.change(waits)
			c := Cluster{Nodes: []*corev1.Node{schedulertest.Node("n1", "A")}, Pods: []*corev1.Pod{waits}}
			if v := judge(t, c, schedulertest.Pod("lower", "", 1000)); v.Outcome != test.want {
				t.Errorf("got %s, want %s", v.Outcome, test.want)
			}
		})
	}
}

// A node without the key of a wish counts for what must be, and the other way round.
func TestSpreadTablesApart(t *testing.T) {
	p := schedulertest.SpreadPod("web-new")
	p.Spec.TopologySpreadConstraints[1].WhenUnsatisfiable = corev1.ScheduleAnyway
	c := contradiction()
	delete(c.Nodes[0].Labels, corev1.LabelHostname)
	delete(c.Nodes[2].Labels, corev1.LabelTopologyZone)
	v := judge(t, c, p)
	if got := [][]scheduling.Domain{v.Spread[0].Domains, v.Spread[1].Domains}; !cmp.Equal(got, [][]scheduling.Domain{{{Value: "A", Count: 3, SkewAfter: 1}}, {{Value: "n2", Count: 1, SkewAfter: 1}, {Value: "n3", Count: 2, SkewAfter: 2}}}) {
		t.Errorf("%+v", got)
	}
}

// Where one node fits alone the scheduler asks no plugin for scores, so that one which can't give any is in nobody's way.
func TestScoresOfOne(t *testing.T) {
	p := schedulertest.Pod("web", "", 100)
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "rack", Operator: corev1.NodeSelectorOpGt, Values: []string{"many"}}},
	}}}}}
	c := Cluster{Nodes: []*corev1.Node{schedulertest.Node("n1", "A")}}
	if v := judge(t, c, p); !cmp.Equal(fitting(v), []string{"n1"}) {
		t.Errorf("%+v", v.Nodes)
	}
	c.Nodes = append(c.Nodes, schedulertest.Node("n2", "A"))
	s, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := s.Judge(t.Context(), p); err == nil {
		t.Errorf("%+v", v)
	}
}

// Victims that have not begun begin at the same moment on all nodes, so that a second that passes meanwhile makes no difference.
func TestCriteriaOfWhatHasNotBegun(t *testing.T) {
	now := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	if got := criteriaOf(&extenderv1.Victims{Pods: []*corev1.Pod{schedulertest.Pod("p", "n1", 100)}}, now); got.Start != now.Unix() {
		t.Errorf("%+v", got)
	}
}
