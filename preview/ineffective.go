package preview

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/podgrace/podgrace/preview/scheduler"
)

// ineffective returns a sentence for each spread constraint and affinity term of a pod that has no effect, or another one than it seems to have.
func (p *Previewer) ineffective(s *scheduler.Scheduler, pod *corev1.Pod) []string {
	pod = pod.DeepCopy()
	var says []string
	if len(pod.Spec.TopologySpreadConstraints) > 0 && !s.Enabled(names.PodTopologySpread) {
		says = append(says, fmt.Sprintf("The scheduler's profile has no plugin %s: topologySpreadConstraints have no effect.", names.PodTopologySpread))
		pod.Spec.TopologySpreadConstraints = nil
	}
	if a := pod.Spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) && !s.Enabled(names.InterPodAffinity) {
		says = append(says, fmt.Sprintf("The scheduler's profile has no plugin %s: podAffinity and podAntiAffinity have no effect.", names.InterPodAffinity))
		pod.Spec.Affinity = nil
	}
	return slices.Concat(says, countsNone(pod), keyless(pod, p.cluster.Nodes))
}

// countsNone returns a sentence for each topology spread constraint of a pod that does not count the pod itself, and so none of its workload's pods. It is decided from the pod alone.
func countsNone(pod *corev1.Pod) []string {
	var says []string
	for _, c := range pod.Spec.TopologySpreadConstraints {
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		switch {
		case err != nil: // the API server refuses it
		case c.LabelSelector == nil:
			says = append(says, fmt.Sprintf("The constraint on %s has no labelSelector. It counts no pods, and spreads nothing.", c.TopologyKey))
		case selector.Empty(): // countPodsMatchSelector in pkg/scheduler/framework/plugins/podtopologyspread/common.go, 1.36.3
			says = append(says, fmt.Sprintf("The constraint on %s has an empty labelSelector, with which the scheduler counts no pods. It spreads nothing.", c.TopologyKey))
		case !selector.Matches(labels.Set(pod.Labels)):
			says = append(says, fmt.Sprintf("The constraint on %s counts none of the workload's own pods, whose labels its selector does not match (%s). It does not spread them.", c.TopologyKey, selector))
		}
	}
	return says
}

// keyless returns a sentence for each topology key of a pod that is a label of no node, with what follows from it.
func keyless(pod *corev1.Pod, nodes []*corev1.Node) []string {
	have := map[string]bool{}
	for _, n := range nodes {
		for key := range n.Labels {
			have[key] = true
		}
	}
	var says []string
	for _, u := range keysOf(&pod.Spec) {
		if have[u.key] {
			continue
		}
		text := fmt.Sprintf("No node has the label %s, the topologyKey of %s: %s.", u.key, u.by, u.so)
		if near := sameName(u.key, slices.Sorted(maps.Keys(have))); near != "" {
			text += fmt.Sprintf(" Nodes have %s.", near)
		}
		if !slices.Contains(says, text) {
			says = append(says, text)
		}
	}
	return says
}

// keyUse is where a pod names a topology key, and what follows if no node has it.
type keyUse struct{ key, by, so string }

// keysOf are the topology keys of a pod. What follows without a node that has one is in PodTopologySpread and InterPodAffinity (pkg/scheduler/framework/plugins, 1.36.3): a node without the
// key is refused for a hard constraint and for required affinity, and is in no domain for the rest.
func keysOf(spec *corev1.PodSpec) []keyUse {
	const nowhere, apart = "the pod fits nowhere", "it keeps no pods apart"
	var all []keyUse
	for _, c := range spec.TopologySpreadConstraints {
		so := "it spreads nothing"
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			so = nowhere
		}
		all = append(all, keyUse{c.TopologyKey, "a spread constraint", so})
	}
	affinity := spec.Affinity
	if affinity == nil {
		return all
	}
	if a := affinity.PodAffinity; a != nil {
		all = append(all, termsOf("podAffinity", a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, nowhere, "it brings no pods together")...)
	}
	if a := affinity.PodAntiAffinity; a != nil {
		all = append(all, termsOf("podAntiAffinity", a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, apart, apart)...)
	}
	return all
}

func termsOf(kind string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, ifRequired, ifPreferred string) []keyUse {
	var all []keyUse
	for _, t := range required {
		all = append(all, keyUse{t.TopologyKey, "a required term of " + kind, ifRequired})
	}
	for _, t := range preferred {
		all = append(all, keyUse{t.PodAffinityTerm.TopologyKey, "a preferred term of " + kind, ifPreferred})
	}
	return all
}

// sameName is the first of some label keys that has the name of another with another prefix, such as kubernetes.io/hostname for topology.kubernetes.io/hostname; empty: none has.
func sameName(key string, keys []string) string {
	name := key[strings.LastIndex(key, "/")+1:]
	for _, k := range keys {
		if k[strings.LastIndex(k, "/")+1:] == name {
			return k
		}
	}
	return ""
}
