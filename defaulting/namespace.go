package defaulting

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// selects says whether the policy is for a namespace. Of one that is unknown its name is known all the same, and with it the label that
// the API server gives to each (pkg/apis/core/v1/defaults.go SetDefaults_Namespace, 1.36.3): a selector over nothing else can be decided.
func (p *Policy) selects(ns Namespace) (selected, known bool) {
	if p.namespaces == nil || p.namespaces.Empty() {
		return true, true
	}
	set := labels.Set(ns.Labels)
	if ns.Unknown {
		requirements, _ := p.namespaces.Requirements()
		if slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return r.Key() != corev1.LabelMetadataName }) {
			return false, false
		}
		set = labels.Set{corev1.LabelMetadataName: ns.Name}
	}
	return p.namespaces.Matches(set), true
}

// Undecided says whether it can't be told that the policy is for a namespace, or that it is not: the namespace could not be looked up.
func (p *Policy) Undecided(ns Namespace) bool {
	_, known := p.selects(ns)
	return !known
}

// Undecided says so of any of the policies.
func (ps Policies) Undecided(ns Namespace) bool {
	return slices.ContainsFunc(ps, func(p *Policy) bool { return p.Undecided(ns) })
}
