package defaulting

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// OwnerHasSelector reports whether the scheduler derives a selector from a controller of this kind
// (pkg/scheduler/framework/plugins/helper/spread.go DefaultSelector, 1.36.3).
func OwnerHasSelector(owner *metav1.OwnerReference) bool {
	switch schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind) {
	case corev1.SchemeGroupVersion.WithKind("ReplicationController"),
		appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"):
		return true
	}
	return false
}

// deriveSelector returns the selector that the scheduler would derive for its own default constraints: the selectors of
// the Services that select the pod merged with that of its controller. For controllers that the scheduler does not know a
// rule of the policy may name labels instead. nil means that nothing can be derived, and why says what is missing.
func deriveSelector(pod *corev1.Pod, rules []v1alpha1.OwnerRule, facts Facts) (selector *metav1.LabelSelector, why string) {
	selector = &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for _, s := range facts.ServiceSelectors {
		if labels.SelectorFromSet(s).Matches(labels.Set(pod.Labels)) {
			maps.Copy(selector.MatchLabels, s)
		}
	}
	why = "no Service selects it and it has no controller"
	if owner := controllerOf(pod); owner != nil {
		why = addOwner(selector, pod, owner, rules, facts)
	}
	if len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0 {
		return nil, why
	}
	return selector, ""
}

// addOwner merges what follows from the controller into the selector, or says why nothing does.
func addOwner(selector *metav1.LabelSelector, pod *corev1.Pod, owner *metav1.OwnerReference, rules []v1alpha1.OwnerRule, facts Facts) string {
	if OwnerHasSelector(owner) {
		if facts.OwnerSelector == nil {
			return fmt.Sprintf("%s %s, its controller, was not found", owner.Kind, owner.Name)
		}
		if owner.Kind == "ReplicationController" { // the scheduler lets its selector win over a Service's
			maps.Copy(selector.MatchLabels, facts.OwnerSelector.MatchLabels)
		} else {
			merge(selector, facts.OwnerSelector)
		}
		return fmt.Sprintf("%s %s, its controller, has an empty selector", owner.Kind, owner.Name)
	}
	for _, r := range rules {
		if !isOf(owner, r) {
			continue
		}
		named := map[string]string{}
		for _, key := range r.LabelKeys {
			value, ok := pod.Labels[key]
			if !ok { // half a rule would count the pods of other controllers
				return fmt.Sprintf("ownerRules for %s name the label %s, which it does not have", owner.Kind, key)
			}
			named[key] = value
		}
		merge(selector, &metav1.LabelSelector{MatchLabels: named})
		return ""
	}
	return fmt.Sprintf("its controller is a %s, for which the policy has no ownerRules", owner.Kind)
}

// isOf reports whether a rule is for controllers of this kind.
func isOf(owner *metav1.OwnerReference, rule v1alpha1.OwnerRule) bool {
	kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
	return rule.APIGroup == kind.Group && rule.Kind == kind.Kind
}

// merge adds all requirements of more. Two values for one key stay two requirements: together they match nothing, as the
// scheduler has it.
func merge(selector, more *metav1.LabelSelector) {
	for _, key := range slices.Sorted(maps.Keys(more.MatchLabels)) {
		value := more.MatchLabels[key]
		if have, ok := selector.MatchLabels[key]; ok && have != value {
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
			continue
		}
		selector.MatchLabels[key] = value
	}
	selector.MatchExpressions = append(selector.MatchExpressions, more.MatchExpressions...)
}

// stripKey removes a key from the selector, if the selector requires just the pod's own value of it, and reports whether it did. The caller puts the key
// into matchLabelKeys: the API server refuses a constraint that has a key in both.
func stripKey(selector *metav1.LabelSelector, pod *corev1.Pod, key string) (*metav1.LabelSelector, bool) {
	value, ok := pod.Labels[key]
	if want, named := selector.MatchLabels[key]; !ok || !named || want != value {
		return selector, false
	}
	if slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == key }) {
		return selector, false
	}
	stripped := selector.DeepCopy()
	delete(stripped.MatchLabels, key)
	return stripped, true
}
