package apiserver

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MergeMatchLabelKeys writes the pod's own labels into its selectors where matchLabelKeys or mismatchLabelKeys name them, in
// place, as the API server does once, after the mutating and before the validating webhooks (pkg/registry/core/pod/strategy.go
// mutatePodAffinity and mutateTopologySpreadConstraints, 1.36.3; gates MatchLabelKeysInPodAffinity and
// MatchLabelKeysInPodTopologySpreadSelectorMerge, on by default).
func MergeMatchLabelKeys(pod *corev1.Pod) {
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			mergeTerms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, pod.Labels)
		}
		if a.PodAntiAffinity != nil {
			mergeTerms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, pod.Labels)
		}
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		mergeKeys(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels)
	}
}

func mergeTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, labels map[string]string) {
	for i := range required {
		mergeTerm(&required[i], labels)
	}
	for i := range preferred {
		mergeTerm(&preferred[i].PodAffinityTerm, labels)
	}
}

func mergeTerm(term *corev1.PodAffinityTerm, labels map[string]string) {
	mergeKeys(term.LabelSelector, term.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
	mergeKeys(term.LabelSelector, term.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, labels)
}

// mergeKeys leaves a nil selector, which matches nothing.
func mergeKeys(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator, labels map[string]string) {
	if selector == nil {
		return
	}
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
		}
	}
}
