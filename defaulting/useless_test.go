package defaulting_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/defaulting"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// apart gives a pod anti-affinity to pods of its own over a key.
func apart(key string) PodOption {
	return func(p *podT) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: key}}}}
	}
}

// beside gives a pod affinity to pods with a label.
func beside(key, value string) PodOption {
	return func(p *podT) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: zone, LabelSelector: &metav1.LabelSelector{MatchLabels: Pairs(key, value)}},
		}}}
	}
}

// counting gives a pod a soft constraint with a selector.
func counting(key string, selector *metav1.LabelSelector) PodOption {
	return func(p *podT) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selector})
	}
}

// What the API server accepts and what does not do what its author wants is warned about, if somebody reads it.
func TestUseless(t *testing.T) {
	t.Parallel()
	selecting := func(pairs ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: Pairs(pairs...)}
	}
	others := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"web"}}}}
	web, node, rack := Labelled("app", "web"), withNode("n1", zone, "a"), "rack"
	overRack := func(p *podT) {
		beside("app", "db")(p)
		p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = rack
	}
	priority := func(p *podT) { p.Spec.Priority = new(int32(100)) }
	never := func(p *podT) { p.Spec.PreemptionPolicy = new(corev1.PreemptNever) }
	runs := func(priorities ...int32) factOption {
		return func(f *factsT) {
			noPods(f)
			for _, p := range priorities {
				withNeighbour(defaulting.Neighbour{Node: "n1", Priority: p}, Pairs("app", "db"))(f)
			}
		}
	}
	rows := []scenario{
		{name: "no selector", pod: Pod(counting(zone, nil)), facts: facts(told, node), warnings: []string{"topologySpreadConstraints[0] over " + zone + " counts none of the workload's own pods, so it does not spread them: it has no labelSelector"}},
		{name: "an empty selector", pod: Pod(counting(zone, selecting())), facts: facts(told, node), warnings: []string{"its labelSelector is empty"}},
		{name: "the selector of another app", pod: Pod(web, counting(zone, selecting("app", "db"))), facts: facts(told, node), warnings: []string{"its labelSelector does not select the labels of these pods"}},
		{name: "an expression that leaves them out", pod: Pod(web, counting(zone, others)), facts: facts(told, node), warnings: []string{"does not select"}},
		{name: "its own selector", pod: Pod(web, counting(zone, selecting("app", "web"))), facts: facts(told, node)},
		{name: "a soft constraint over a key that no node has", pod: Pod(web, counting(rack, selecting("app", "web"))), facts: facts(told, node), warnings: []string{"topologySpreadConstraints[0] spreads nothing: no node has the label rack"}},
		{name: "the nodes are not known", pod: Pod(web, counting(rack, selecting("app", "web"))), facts: facts(told)},
		{name: "anti-affinity over such a key", pod: Pod(apart(rack)), facts: facts(told, node), warnings: []string{"required podAntiAffinity over rack: no node has that label, so it keeps no pods apart"}},
		{name: "affinity over such a key", pod: Pod(overRack), facts: facts(told, node), warnings: []string{"required podAffinity over rack: no node has that label, so no node takes the pod"}},
		{name: "nobody reads it", pod: Pod(counting(zone, nil)), facts: facts(node)},
		{
			name: "at most five", pod: Pod(counting("a", nil), counting("b", nil), counting("c", nil), counting("d", nil)), facts: facts(told, node),
			warnings: []string{"[0] over a", "[0] spreads nothing", "[1] over b", "[1] spreads nothing", "[2] over c"},
		},
		{name: "beside pods of lower priority", pod: Pod(priority, beside("app", "db")), facts: facts(told, node, runs(50)), warnings: []string{"required podAffinity over " + zone + " is to pods of lower priority only"}},
		{name: "beside pods, one of the same priority", pod: Pod(priority, beside("app", "db")), facts: facts(told, node, runs(50, 100))},
		{name: "beside pods that are not there", pod: Pod(priority, beside("app", "db")), facts: facts(told, node, runs())},
		{name: "beside pods that it does not preempt", pod: Pod(priority, never, beside("app", "db")), facts: facts(told, node, runs(50))},
	}
	for i := range rows {
		rows[i].policies = One(PodPolicy("web", MaxGrace(60)))
	}
	testValidate(t, append(rows, scenario{
		name: "what a policy gave and softened", pod: Pod(web, counting(rack, selecting("app", "web"))), facts: facts(told, node),
		policies: One(PodPolicy("web", Spreads(Hard(rack)))),
	}, scenario{
		name: "of another app, though otherwise what the policy would give", pod: Pod(web, counting(zone, selecting("app", "db"))), facts: facts(told, node),
		policies: One(PodPolicy("web", Spreads(Soft(zone)))), warnings: []string{"its labelSelector does not select the labels of these pods"},
	}))
}
