package defaulting

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
)

// Removal returns what guards the pods of a namespace. A section on removal selects by namespace only. Of a namespace that
// is unknown all policies hold: a removal is judged on the safe side.
func (ps Policies) Removal(ns Namespace, ownNamespace string) guard.Policy {
	var p guard.Policy
	if ns.Name == neverMatched || ownNamespace != "" && ns.Name == ownNamespace {
		return p
	}
	for _, policy := range ps {
		if policy.namespaces == nil || ns.Unknown || policy.namespaces.Matches(labels.Set(ns.Labels)) {
			tighten(&p, policy)
		}
	}
	return p
}

// StrictestRemoval returns what guards nodes and volume attachments, which are of no namespace: the strictest of all.
func (ps Policies) StrictestRemoval() guard.Policy {
	var p guard.Policy
	for _, policy := range ps {
		tighten(&p, policy)
	}
	return p
}

// strictness orders the actions on an unsafe removal.
var strictness = []v1alpha1.RemovalAction{v1alpha1.RemovalAllow, v1alpha1.RemovalWarn, v1alpha1.RemovalDeny}

// tighten adds one policy's section. The zero values of its fields are their defaults.
func tighten(p *guard.Policy, policy *Policy) {
	r := policy.Spec.Removal
	if r == nil {
		return
	}
	action := cmp.Or(r.ForceDelete, v1alpha1.RemovalDeny)
	eviction := cmp.Or(r.EvictionWithoutGrace, v1alpha1.GraceDeny)
	if len(p.Names) == 0 {
		*p = guard.Policy{ForceDelete: action, EvictionWithoutGrace: eviction, AllowedActors: slices.Clone(r.AllowedActors)}
	}
	p.Names = append(p.Names, policy.Name)
	if slices.Index(strictness, action) > slices.Index(strictness, p.ForceDelete) {
		p.ForceDelete = action
	}
	if eviction == v1alpha1.GraceDeny {
		p.EvictionWithoutGrace = eviction
	}
	p.ProtectAll = p.ProtectAll || r.Protect == v1alpha1.ProtectAll
	p.AllowedActors = slices.DeleteFunc(p.AllowedActors, func(actor string) bool { return !slices.Contains(r.AllowedActors, actor) })
}
