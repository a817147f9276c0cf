package controllers

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podgrace/podgrace/policy"
)

// ConfigurationName is the name of both webhook configurations.
const ConfigurationName = "podgrace"

// RenderExempt has an object from a file leave out the namespaces that no policy is for, as the chart does. What selects no namespaces, because it keeps our own programs to
// their place or is for what is in none, stays as it is.
func RenderExempt(object runtime.Object, exempt policy.Exempt) {
	switch o := object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			renderExempt(o.Webhooks[i].NamespaceSelector, &o.Webhooks[i].MatchConditions, exempt)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			renderExempt(o.Webhooks[i].NamespaceSelector, &o.Webhooks[i].MatchConditions, exempt)
		}
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		if o.Spec.MatchConstraints != nil {
			renderExempt(o.Spec.MatchConstraints.NamespaceSelector, &o.Spec.MatchConditions, exempt)
		}
	}
}

func renderExempt(selector *metav1.LabelSelector, conditions *[]admissionregistrationv1.MatchCondition, exempt policy.Exempt) {
	leavesOut := false
	if selector != nil {
		for i, r := range selector.MatchExpressions {
			if r.Key == corev1.LabelMetadataName && r.Operator == metav1.LabelSelectorOpNotIn {
				selector.MatchExpressions[i], leavesOut = exempt.Selector().MatchExpressions[0], true
			}
		}
	}
	if expression := exempt.Condition(); leavesOut && expression != "" {
		*conditions = append(*conditions, admissionregistrationv1.MatchCondition{Name: policy.ExemptCondition, Expression: expression})
	}
}

// ReadExempt reads back which namespaces a cluster's configuration leaves out. One webhook tells of all: that they say the same is looked at by Registered. Podgrace runs in the namespace of the Service that is called; where
// none is, in own.
func ReadExempt(configuration *admissionregistrationv1.ValidatingWebhookConfiguration, own string) (policy.Exempt, error) {
	for i := range configuration.Webhooks {
		w := &configuration.Webhooks[i]
		if w.NamespaceSelector == nil || len(w.NamespaceSelector.MatchExpressions) == 0 {
			continue
		}
		if w.ClientConfig.Service != nil {
			own = w.ClientConfig.Service.Namespace
		}
		return policy.ReadExempt(own, w.NamespaceSelector, conditionOf(w.MatchConditions, policy.ExemptCondition))
	}
	return policy.Exempt{}, fmt.Errorf("none of the webhooks of ValidatingWebhookConfiguration %s selects namespaces", configuration.Name)
}
