package apiserver

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MergeMatchLabelKeys writes the pod's own labels into its selectors where matchLabelKeys or mismatchLabelKeys name them, in
// place, as the API server does once, after the mutating and before the validating webhooks (pkg/registry/core/pod/strategy.go
// mutatePodAffinity and mutateTopologySpreadConstraints, 1.36.3; gates MatchLabelKeysInPodAffinity and
// MatchLabelKeysInPodTopologySpreadSelectorMerge, on by default). changed: there was something to write.
func MergeMatchLabelKeys(pod *corev1.Pod) (changed bool) {
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			changed = mergeTerms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, pod.Labels)
		}
		if a.PodAntiAffinity != nil {
			changed = mergeTerms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, pod.Labels) || changed
		}
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		changed = mergeKeys(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels) || changed
	}
	return changed
}

func mergeTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, labels map[string]string) (changed bool) {
	for i := range required {
		changed = mergeTerm(&required[i], labels) || changed
	}
	for i := range preferred {
		changed = mergeTerm(&preferred[i].PodAffinityTerm, labels) || changed
	}
	return changed
}

func mergeTerm(term *corev1.PodAffinityTerm, labels map[string]string) (changed bool) {
	changed = mergeKeys(term.LabelSelector, term.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
	return mergeKeys(term.LabelSelector, term.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, labels) || changed
}

// mergeKeys leaves a nil selector, which matches nothing.
func mergeKeys(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator, labels map[string]string) (changed bool) {
	if selector == nil {
		return false
	}
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			changed = true
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
		}
	}
	return changed
}
