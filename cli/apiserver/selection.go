package apiserver

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
)

// selection is which requests a webhook or a policy is for, before its expressions are asked
// (k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go ShouldCallHook and policy/matching/matching.go Matches,
// 0.36.3).
type selection struct {
	rules      []admissionregistrationv1.RuleWithOperations
	namespaces labels.Selector
	// byName: the namespaces are selected by their names alone, so that the answer is certain for an unknown one as well.
	byName bool
}

func newSelection(rules []admissionregistrationv1.RuleWithOperations, namespaces, objects *metav1.LabelSelector, policy admissionregistrationv1.MatchPolicyType) (selection, error) {
	if len(objects.MatchLabels)+len(objects.MatchExpressions) > 0 || policy != admissionregistrationv1.Equivalent {
		return selection{}, fmt.Errorf("an objectSelector and matchPolicy %s are not known here", policy)
	}
	selector, err := metav1.LabelSelectorAsSelector(namespaces)
	if err != nil {
		return selection{}, fmt.Errorf("namespaceSelector: %w", err)
	}
	requirements, _ := selector.Requirements()
	s := selection{rules: rules, namespaces: selector, byName: true}
	for _, r := range requirements {
		s.byName = s.byName && r.Key() == corev1.LabelMetadataName
	}
	return s, nil
}

// matches also reports whether it is sure: an unknown namespace counts as selected where its labels decide.
func (s *selection) matches(r *Request, attributes admission.Attributes) (matches, sure bool) {
	if !s.matchesRules(attributes) {
		return false, true
	}
	if attributes.GetNamespace() == "" || s.namespaces.Empty() { // nothing of cluster scope is exempt by a namespace
		return true, true
	}
	if r.Namespace == nil && !s.byName {
		return true, false
	}
	return s.namespaces.Matches(labels.Set(r.namespace().Labels)), true
}

func (s *selection) matchesRules(attributes admission.Attributes) bool {
	for _, rule := range s.rules {
		matcher := rules.Matcher{Rule: rule, Attr: attributes}
		if matcher.Matches() {
			return true
		}
		for _, version := range rule.APIVersions {
			matcher.Attr = inVersion{attributes, version}
			if matcher.Matches() {
				return true
			}
		}
	}
	return false
}

// inVersion is a request as matchPolicy Equivalent sees it: what is asked of one version is asked of all.
type inVersion struct {
	admission.Attributes
	version string
}

func (a inVersion) GetResource() schema.GroupVersionResource {
	return a.Attributes.GetResource().GroupResource().WithVersion(a.version)
}
