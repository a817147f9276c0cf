package defaulting

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/defaulting/topology"
)

// warnOfUseless warns whoever creates a pod, or a workload of such pods, about constraints and affinity of the pod's own that the API server accepts and that do not do what their author
// wants. The pod is final.
func warnOfUseless(pod *corev1.Pod, facts Facts, out *Result) {
	if !facts.Told {
		return
	}
	said := 0
	warn := func(format string, args ...any) {
		if said++; said <= maxNamed {
			out.warn(becauseSpreadsNothing, "", format, args...)
		}
	}
	for i, c := range pod.Spec.TopologySpreadConstraints {
		if why := countsNone(pod, c); why != "" {
			warn("topologySpreadConstraints[%d] over %s counts none of the workload's own pods, so it does not spread them: %s", i, c.TopologyKey, why)
		}
		if c.WhenUnsatisfiable == corev1.ScheduleAnyway && unlabelled(c.TopologyKey, facts) {
			warn("topologySpreadConstraints[%d] spreads nothing: no node has the label %s", i, c.TopologyKey)
		}
	}
	for _, t := range affinityTerms(pod) {
		if unlabelled(t.key, facts) {
			warn("%s over %s: no node has that label, so %s", t.field, t.key, t.effect)
		}
	}
	warnOfAffinityToLower(pod, facts, out)
}

// countsNone is why a constraint does not count the pod itself, and so none of its workload; empty: it does. Of a selector that is empty the scheduler counts nothing
// (pkg/scheduler/framework/plugins/podtopologyspread/common.go countPodsMatchSelector, 1.36.3).
func countsNone(pod *corev1.Pod, c corev1.TopologySpreadConstraint) string {
	switch selector, self := countedBy(pod, c); {
	case c.LabelSelector == nil:
		return "it has no labelSelector"
	case selector.Empty():
		return "its labelSelector is empty"
	case self == 0:
		return "its labelSelector does not select the labels of these pods"
	}
	return ""
}

// unlabelled reports whether the nodes are known and none of them has a label.
func unlabelled(key string, facts Facts) bool {
	if facts.Nodes.Len() == 0 || key == "" {
		return false
	}
	domains, _ := facts.Nodes.Domains(topology.ForPod(&corev1.Pod{}), topology.Constraint{Key: key, Keys: []string{key}}, 1)
	return domains == 0
}

// affinityTerm is a term of a pod's affinity to other pods, and what it comes to if no node has the label.
type affinityTerm struct{ field, key, effect string }

func affinityTerms(pod *corev1.Pod) (terms []affinityTerm) {
	add := func(field string, required []corev1.PodAffinityTerm, effect string, preferred []corev1.WeightedPodAffinityTerm) {
		for _, t := range required {
			terms = append(terms, affinityTerm{"required " + field, t.TopologyKey, effect})
		}
		for _, t := range preferred {
			terms = append(terms, affinityTerm{"preferred " + field, t.PodAffinityTerm.TopologyKey, "it has no effect"})
		}
	}
	a := ptr.Deref(pod.Spec.Affinity, corev1.Affinity{})
	if p := a.PodAffinity; p != nil {
		add("podAffinity", p.RequiredDuringSchedulingIgnoredDuringExecution, "no node takes the pod", p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		add("podAntiAffinity", p.RequiredDuringSchedulingIgnoredDuringExecution, "it keeps no pods apart", p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return terms
}

// warnOfAffinityToLower warns about a pod that must be beside pods all of which have a lower priority: the scheduler preempts nothing on a node that the pod fits only beside what would be
// preempted (https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption, Inter-Pod affinity on lower-priority Pods).
func warnOfAffinityToLower(pod *corev1.Pod, facts Facts, out *Result) {
	a := ptr.Deref(pod.Spec.Affinity, corev1.Affinity{}).PodAffinity
	if a == nil || facts.Pods == nil || ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever {
		return
	}
	priority := ptr.Deref(pod.Spec.Priority, math.MinInt32)
	for i, t := range a.RequiredDuringSchedulingIgnoredDuringExecution {
		if i == maxSelectors || len(t.Namespaces) > 0 || t.NamespaceSelector != nil {
			return
		}
		selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
		if err != nil {
			continue // the API server refuses it
		}
		beside, known := facts.Pods(selector)
		if !known || len(beside) == 0 || slices.ContainsFunc(beside, func(n Neighbour) bool { return n.Priority >= priority }) {
			continue
		}
		out.warn(becauseAffinityToLower, "", "%s", fmt.Sprintf("required podAffinity over %s is to pods of lower priority only: the scheduler can't preempt pods that this one has to be beside, so it may stay Pending on full nodes", t.TopologyKey))
	}
}
