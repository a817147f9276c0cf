package defaulting

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
)

// Removal returns what guards the pods of a namespace. A section on removal selects by namespace only. Of a namespace that
// is unknown all policies hold: a removal is judged on the safe side.
func (ps Policies) Removal(ns Namespace, ownNamespace string) guard.Policy {
	if ns.Name == neverMatched || ownNamespace != "" && ns.Name == ownNamespace {
		return guard.Policy{}
	}
	return ps.removal(func(policy *Policy) bool { return policy.guards(ns) })
}

// guards says whether the policy's removal section, if it has one, is for the namespace.
func (p *Policy) guards(ns Namespace) bool {
	selected, known := p.selects(ns)
	return selected || !known || p.unread.namespaces
}

// RemovalOfAll returns what guards nodes and volume attachments, which are of no namespace: every policy does.
func (ps Policies) RemovalOfAll() guard.Policy {
	return ps.removal(func(*Policy) bool { return true })
}

// laxFirst are the actions on an unsafe removal.
var laxFirst = []v1alpha1.RemovalAction{v1alpha1.RemovalAllow, v1alpha1.RemovalWarn, v1alpha1.RemovalDeny}

// removal puts the sections of the policies that hold together, those with one action by themselves.
func (ps Policies) removal(holds func(*Policy) bool) guard.Policy {
	levels := map[v1alpha1.RemovalAction]*guard.Policy{}
	for _, policy := range ps {
		if policy.Spec.Removal != nil && holds(policy) {
			tighten(levels, policy)
		}
	}
	strictest := &guard.Policy{}
	for _, action := range laxFirst {
		if level := levels[action]; level != nil {
			if len(strictest.Names) > 0 {
				level.Laxer = strictest
			}
			strictest = level
		}
	}
	return *strictest
}

// tighten adds one policy's section to the level of its action. The zero values of its fields are their defaults.
func tighten(levels map[v1alpha1.RemovalAction]*guard.Policy, policy *Policy) {
	r := policy.Spec.Removal
	action := actionOf(r)
	p := levels[action]
	if p == nil {
		p = &guard.Policy{ForceDelete: action, EvictionWithoutGrace: v1alpha1.GraceRaise, AllowedActors: slices.Clone(r.AllowedActors)}
		levels[action] = p
	}
	p.Names = append(p.Names, policy.Name)
	if r.EvictionWithoutGrace != v1alpha1.GraceRaise {
		p.EvictionWithoutGrace = v1alpha1.GraceDeny
	}
	p.Protect = together(p.Protect, policy.protect)
	p.AllowedActors = slices.DeleteFunc(p.AllowedActors, func(actor string) bool { return !slices.Contains(r.AllowedActors, actor) })
}

// actionOf a section on an unsafe removal. What is not known here denies.
func actionOf(r *v1alpha1.RemovalSection) v1alpha1.RemovalAction {
	if !slices.Contains(laxFirst, r.ForceDelete) {
		return v1alpha1.RemovalDeny
	}
	return r.ForceDelete
}

// protectionOf says which pods a section protects.
func protectionOf(r *v1alpha1.RemovalSection) guard.Protection {
	p := guard.Protection{All: r.Protect == v1alpha1.ProtectAll, BlockClaims: r.BlockClaims == v1alpha1.BlockClaimsExclusive}
	for _, o := range r.Owners {
		p.Owners = append(p.Owners, schema.GroupKind(o))
	}
	return p
}

// together protects what one or the other does. Neither is written to: policies are shared by all requests.
func together(a, b guard.Protection) guard.Protection {
	owners := slices.Clone(a.Owners)
	for _, o := range b.Owners {
		if !slices.Contains(owners, o) {
			owners = append(owners, o)
		}
	}
	return guard.Protection{All: a.All || b.All, Owners: owners, BlockClaims: a.BlockClaims || b.BlockClaims}
}
