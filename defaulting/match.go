package defaulting

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// matching says whether a policy is for a pod.
type matching int

const (
	matchNo matching = iota
	matchYes
	// matchUncertain: a match condition failed to evaluate. Such a policy gives no defaults, but its limits hold, because
	// otherwise a pod could be written so that the condition fails.
	matchUncertain
	// matchUnread: which pods it is for can't be read. Its removal section holds.
	matchUnread
)

// neverMatched are namespaces that no policy is for, besides Podgrace's own: the webhooks never select them, so that a
// cluster can always start, and offline the answer must be the same.
const neverMatched = "kube-system"

// NeverMatched are the namespaces that no policy is for, where Podgrace runs in ownNamespace.
func NeverMatched(ownNamespace string) []string { return []string{neverMatched, ownNamespace} }

// match says whether the policy is for the pod, but for the class that it may select by (rank.go). The error says why it is uncertain.
func (p *Policy) match(req *asked) (matching, error) {
	m := p.Spec.Match
	if m == nil {
		return matchYes, nil
	}
	if selected, _ := p.selects(req.Namespace); !selected {
		return matchNo, nil
	}
	if p.pods != nil && !p.pods.Matches(labels.Set(req.Pod.Labels)) {
		return matchNo, nil
	}
	if len(m.OwnerKinds) > 0 && !slices.Contains(m.OwnerKinds, ownerKind(req)) {
		return matchNo, nil
	}
	if p.conditions != nil {
		return p.conditions.match(req)
	}
	return matchYes, nil
}

func ownerKind(req *asked) v1alpha1.OwnerKind {
	if owner := controllerOf(req.Pod); owner != nil {
		return v1alpha1.OwnerKind(owner.Kind)
	}
	return v1alpha1.OwnerKindNone
}
