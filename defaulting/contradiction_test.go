package defaulting_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// own gives a pod hard constraints of its own, which count the pods of app web.
func own(keys ...string) PodOption {
	return func(p *podT) {
		for _, key := range keys {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: Pairs("app", "web")},
			})
		}
	}
}

func constraint(i int, change func(*corev1.TopologySpreadConstraint)) PodOption {
	return func(p *podT) { change(&p.Spec.TopologySpreadConstraints[i]) }
}

// counted has a constraint count pods without a label.
func counted(i int, without string) PodOption {
	return constraint(i, func(c *corev1.TopologySpreadConstraint) {
		c.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: without, Operator: metav1.LabelSelectorOpDoesNotExist}}}
	})
}

func told(f *factsT)  { f.Told = true }
func later(f *factsT) { f.Later = true }

// example is that of the design of topology spread: the zone wants n3, the hostname n2.
func example(more ...factOption) []factOption {
	return append([]factOption{
		told, withNode("n1", zone, "a", host, "n1"), withNode("n2", zone, "a", host, "n2"), withNode("n3", zone, "b", host, "n3"),
		withPod("n1", "app", "web"), withPod("n1", "app", "web"), withPod("n2", "app", "web"), withPod("n3", "app", "web"), withPod("n3", "app", "web"),
	}, more...)
}

const exampleSays = "topologySpreadConstraints on topology.kubernetes.io/zone and kubernetes.io/hostname can each be met now, and together they can't: the first leaves node n3 only, the second n2 only; raise maxSkew, use another topologyKey or ScheduleAnyway for one of them"

// TestContradiction: what a person is told about hard constraints of the pod's own: never what is not so.
func TestContradiction(t *testing.T) {
	t.Parallel()
	both := own(zone, host)
	type c = corev1.TopologySpreadConstraint
	raised := func(i int) PodOption { return constraint(i, func(k *c) { k.MaxSkew = 2 }) }
	wish := func(i int) PodOption {
		return constraint(i, func(k *c) { k.WhenUnsatisfiable = corev1.ScheduleAnyway })
	}
	honors := constraint(0, func(k *c) { k.NodeTaintsPolicy = new(corev1.NodeInclusionPolicyHonor) })
	many := func(f *factsT) {
		for _, name := range []string{"n4", "n5", "n6", "n7", "n8"} {
			withNode(name, zone, "b", host, name)(f)
			withPod(name, "app", "web")(f)
			withPod(name, "app", "web")(f)
		}
		for range 10 {
			withPod("n1", "app", "web")(f)
		}
	}
	long := strings.Repeat("x", 80)
	owned := func(kind, name string) factOption {
		return withNeighbour(defaulting.Neighbour{Node: "n1", Controller: defaulting.ControllerName(kind, name)}, Pairs("app", "web"))
	}
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		facts []factOption
		want  string // nothing: silence
	}{
		{name: "the example", pod: Pod(both), facts: example(), want: exampleSays},
		{name: "nobody reads it", pod: Pod(both), facts: example(func(f *factsT) { f.Told = false })},
		{name: "zone with maxSkew 2", pod: Pod(both, raised(0)), facts: example()},
		{name: "hostname with maxSkew 2", pod: Pod(both, raised(1)), facts: example()},
		{name: "zone ScheduleAnyway", pod: Pod(both, wish(0)), facts: example()},
		{name: "hostname ScheduleAnyway", pod: Pod(both, wish(1)), facts: example()},
		{name: "a fourth empty node in b", pod: Pod(both), facts: example(withNode("n4", zone, "b", host, "n4"))},
		{name: "one alone", pod: Pod(own(zone)), facts: example()},
		{name: "pods are not known", pod: Pod(both), facts: example(func(f *factsT) { f.Pods = nil })},
		{name: "a CronJob's", pod: Pod(both), facts: example(later)},
		{name: "another scheduler", pod: Pod(both, func(p *podT) { p.Spec.SchedulerName = "other" }), facts: example()},
		{name: "gates", pod: Pod(both, func(p *podT) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }), facts: example()},
		{name: "bound", pod: Pod(both, func(p *podT) { p.Spec.NodeName = "n1" }), facts: example()},
		{name: "a DaemonSet's", pod: Pod(both, OfDaemonSet), facts: example()},
		{name: "others could be preempted", pod: Pod(both, OfClass(high)), facts: example(classes(high))},
		{name: "it preempts nobody", pod: Pod(both, OfClass(Class("high", 1000, never))), facts: example(classes(Class("high", 1000, never))), want: exampleSays},
		{name: "no priority is known", pod: Pod(both, func(p *podT) { p.Spec.Priority = nil }), facts: example()},
		{name: "too many constraints", pod: Pod(both, own("a", "b", "c", "d", "e", "f", "g")), facts: example()},
		{name: "too many selectors", pod: Pod(both, own("k"), counted(0, "a"), counted(1, "b"), counted(2, "c")), facts: example(withNode("n1", zone, "a", host, "n1", "k", "k"), withNode("n2", zone, "a", host, "n2", "k", "k"), withNode("n3", zone, "b", host, "n3", "k", "k"))},
		{name: "a StatefulSet's own pods", pod: Pod(both, OfStatefulSet), facts: example(owned("StatefulSet", "db"))},
		{name: "its node affinity is to blame", pod: Pod(both, func(p *podT) { p.Spec.NodeSelector = Pairs("disk", "ssd") }), facts: example()},
		{name: "no node has the key of one", pod: Pod(own(zone, "rack")), facts: example(), want: "topologySpreadConstraints on rack can't be met now: no node that the pod may use has that label; label nodes, use another topologyKey or ScheduleAnyway"},
		{name: "no node has the keys of both, whoever runs there", pod: Pod(own("rack", "row")), facts: example(later, withNode("n5", "rack", "r"), withNode("n6", "row", "r")), want: "topologySpreadConstraints on rack and row can't be met together now: no node that the pod may use has these labels; …"},
		{name: "too few domains", pod: Pod(own(zone), constraint(0, func(k *c) { k.MinDomains = new(int32(3)) })), facts: example(), want: "topologySpreadConstraints on topology.kubernetes.io/zone can't be met now: minDomains is 3, only 2 domain(s) exist, and each already has maxSkew (1) pods; raise maxSkew…"},
		{name: "the fewest are where the pod may not go", pod: Pod(own(zone), func(p *podT) {
			p.Spec.NodeSelector = Pairs(zone, "a")
			p.Spec.TopologySpreadConstraints[0].NodeAffinityPolicy = new(corev1.NodeInclusionPolicyIgnore)
		}), facts: example(), want: "topologySpreadConstraints on topology.kubernetes.io/zone can't be met now: on each node that the pod may use the skew would be more than maxSkew (1); …"},
		{name: "taints of a node that is not ready are tolerated by default", pod: Pod(both, honors), facts: example(withTaintedNode("n4", []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}}, zone, "c", host, "n4"))},
		{name: "names are bounded", pod: Pod(both), facts: example(many), want: "…the first leaves n3 and 5 more, the second n2 only; raise…"},
		{name: "long names are counted", pod: Pod(both), facts: append(example()[:3], withNode("n3-"+long, zone, "b", host, "n3"), withPod("n1", "app", "web"), withPod("n1", "app", "web"), withPod("n2", "app", "web"), withPod("n3-"+long, "app", "web"), withPod("n3-"+long, "app", "web")), want: "…the first leaves 1 node only, the second 1 node only; raise maxSkew, use another topologyKey or ScheduleAnyway for one of them"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := scenario{pod: tt.pod, facts: facts(tt.facts...)}
			got := defaulting.For(nil, s.request(), Exempt).Validate(s.request(), s.facts)
			var said, want []string
			for _, w := range got.Warnings {
				said = append(said, w.Message)
			}
			if tt.want != "" {
				want = []string{tt.want}
			}
			CompareTexts(t, "warnings", want, said)
		})
	}
}

// TestContradictionOfPolicies: what a policy gives is judged likewise, and onInfeasible says what becomes of it.
func TestContradictionOfPolicies(t *testing.T) {
	t.Parallel()
	giving := func(action v1alpha1.InfeasibleAction) []*v1alpha1.PodPolicy {
		return One(PodPolicy("web", Spreads(Hard(zone), Hard(host)), OnInfeasible(action)))
	}
	const says = "PodPolicy web: …topology.kubernetes.io/zone and kubernetes.io/hostname can each be met now, and together they can't: the first leaves node n3 only, the second n2 only"
	all := example(service("app", "web"))
	unread := func(f *factsT) { f.Told = false }
	both := addSpread + `[` + hardZone + byApp + `},` + `{"maxSkew":1,"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"DoNotSchedule",` + byApp + `}]`
	testApply(t, []scenario{
		{name: "Warn", pod: Pod(), policies: giving(v1alpha1.InfeasibleWarn), facts: facts(all...), changes: []string{both}, warnings: []string{says + "; the pod stays Pending until they can"}},
		{name: "Warn, and nobody reads it: pods are not counted", pod: Pod(), policies: giving(v1alpha1.InfeasibleWarn), facts: facts(append(all, unread, func(f *factsT) { f.Pods = nil })...), changes: []string{both}},
		{name: "Deny", pod: Pod(), policies: giving(v1alpha1.InfeasibleDeny), facts: facts(append(all, unread)...), denials: []string{"SpreadInfeasible: " + says + ". Make room…"}},
		{
			name: "Soften", pod: Pod(), policies: giving(v1alpha1.InfeasibleSoften), facts: facts(append(all, unread)...), warnings: []string{says + ": the last was softened to ScheduleAnyway"},
			changes: []string{addSpread + `[` + hardZone + byApp + `},` + `{"maxSkew":1,"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"ScheduleAnyway",` + byApp + `}]`},
		},
	})
}
