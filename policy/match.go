package policy

import (
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Request is one pod at creation.
type Request struct {
	// Pod as it was received. It is never changed.
	Pod *corev1.Pod
	// Namespace of the request: the pod's own may still be empty.
	Namespace Namespace
	// User who creates the pod.
	User authenticationv1.UserInfo
	// DryRun says that nothing will be stored.
	DryRun bool
}

// Namespace is what policies may select by.
type Namespace struct {
	Name string
	// Labels of the namespace; meaningless where Unknown.
	Labels map[string]string
	// Exceptions in force in the namespace at this moment (Exceptions.InForce).
	Exceptions Exceptions
	// Unknown says that the namespace could not be looked up. Policies that select by more than its name then match nothing, and
	// the pod's creator is warned.
	Unknown bool
}

// Matching reports whether a policy is for a pod.
type Matching int

const (
	// MatchNo is where the policy is not for the pod.
	MatchNo Matching = iota
	// MatchYes is where it is: its defaults and limits hold.
	MatchYes
	// MatchUncertain is where a match condition failed to evaluate. Such a policy gives no defaults, but its limits hold, because
	// otherwise a pod could be written so that the condition fails.
	MatchUncertain
	// MatchUnread is where the policy's match can't be read (Policy.Matchable). Only its removal section holds.
	MatchUnread
)

// Match reports whether the policy is for the pod, as far as its PriorityClass is not what the policy selects by: which class that is only defaulting knows
// (priority.go there). The error says why it is uncertain. Whether the namespace is exempt is not asked here.
func (p *Policy) Match(e *Evaluation) (Matching, error) {
	m := p.Spec.Match
	if m == nil {
		return MatchYes, nil
	}
	if selected, _ := p.selects(e.Namespace); !selected {
		return MatchNo, nil
	}
	if p.pods != nil && !p.pods.Matches(labels.Set(e.Pod.Labels)) {
		return MatchNo, nil
	}
	if len(m.OwnerKinds) > 0 && !slices.Contains(m.OwnerKinds, ownerKind(e.Pod)) {
		return MatchNo, nil
	}
	if p.conditions != nil {
		return p.conditions.match(e)
	}
	return MatchYes, nil
}

func ownerKind(pod *corev1.Pod) v1alpha1.OwnerKind {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return v1alpha1.OwnerKind(owner.Kind)
	}
	return v1alpha1.OwnerKindNone
}

// selects reports whether the policy is for a namespace. Of one that is unknown its name is known all the same, and with it the label that
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

// Undecided reports whether it is unknown if the policy selects a namespace: the policy selects by labels, and the namespace could not be looked up.
func (p *Policy) Undecided(ns Namespace) bool {
	_, known := p.selects(ns)
	return !known
}

// Undecided reports whether that is unknown of any of the policies.
func (ps Policies) Undecided(ns Namespace) bool {
	return slices.ContainsFunc(ps, func(p *Policy) bool { return p.Undecided(ns) })
}

// SelectsByPriority reports whether the policy selects pods by their PriorityClass or priority.
func (p *Policy) SelectsByPriority() bool {
	m := p.Spec.Match
	return m != nil && (len(m.PriorityClassNames) > 0 || m.Priority != nil)
}

// ForAllOf reports whether the policy is for every pod of a namespace: it selects by namespace alone, or by nothing.
func (p *Policy) ForAllOf(ns Namespace) bool {
	all := func(s labels.Selector) bool { return s == nil || s.Empty() }
	m := p.Spec.Match
	switch {
	case p.unread.match:
		return false
	case m == nil:
		return true
	case !all(p.pods), len(m.OwnerKinds) > 0, p.conditions != nil, p.SelectsByPriority():
		return false
	}
	return all(p.namespaces) || !ns.Unknown && p.namespaces.Matches(labels.Set(ns.Labels))
}
