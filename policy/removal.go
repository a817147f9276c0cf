package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Removal is what policies say about removals: the removal sections of all that hold for a namespace, combined. Those with the same action (forceDelete) are
// combined into one level, in which the strictest value of each field holds; this is the strictest level, and Laxer the next one. A level is judged by
// itself: a policy that only warns, or allows, adds nothing to one that denies, neither to what that protects nor to whom it lets remove pods.
type Removal struct {
	// Names of the policies of this level. None: no policy has a removal section, or it is Unknown which do.
	Names []string
	// Unknown: the policies could not be read, so that everything is guarded.
	Unknown bool
	// ForceDelete of a protected pod: Deny, Warn or Allow.
	ForceDelete v1alpha1.RemovalAction
	// Protect says which pods are protected.
	Protect Protection
	// EvictionWithoutGrace where ForceDelete is Deny: Deny, or Raise to the pod's own grace period.
	EvictionWithoutGrace v1alpha1.GraceAction
	// AllowedActors are users whose removals this level allows, whatever they remove.
	AllowedActors []string
	// Unread says by which parts of its policies that can't be read this level is as strict as it can be, and how: one sentence each.
	Unread []string
	// Laxer is the level of the next laxer action (Deny, Warn, Allow); nil: there is none.
	Laxer *Removal
}

// AllNames returns the names of the policies of all levels, those of the strictest first.
func (r Removal) AllNames() []string {
	names := slices.Clone(r.Names)
	for level := r.Laxer; level != nil; level = level.Laxer {
		names = append(names, level.Names...)
	}
	return names
}

// Guards reports whether removals are judged at all: a policy denies or warns, or the policies could not be read.
func (r Removal) Guards() bool {
	return r.Unknown || len(r.Names) > 0 && r.ForceDelete != v1alpha1.RemovalAllow
}

// Denies reports whether unsafe removals are refused: a policy denies, or the policies could not be read.
func (r Removal) Denies() bool {
	return r.Unknown || len(r.Names) > 0 && r.ForceDelete == v1alpha1.RemovalDeny
}

// ActorsOfDenying returns the users that all policies that deny allow by name; none if no policy denies.
func (r Removal) ActorsOfDenying() []string {
	if !r.Denies() {
		return nil
	}
	return slices.Clone(r.AllowedActors)
}

// ActorsOfAll returns the users that all policies that deny or warn allow by name; where none denies or warns, those that all others allow.
func (r Removal) ActorsOfAll() []string {
	actors := slices.Clone(r.AllowedActors)
	for level := r.Laxer; level != nil && level.ForceDelete != v1alpha1.RemovalAllow; level = level.Laxer {
		actors = slices.DeleteFunc(actors, func(actor string) bool { return !slices.Contains(level.AllowedActors, actor) })
	}
	return actors
}

// ProtectedBy returns the actions of the policies that protect the pod, strict to lax. One with the action Allow protects
// nothing.
func (r Removal) ProtectedBy(pod *corev1.Pod, claims Claims) []v1alpha1.RemovalAction {
	return r.actions(func(protect Protection) bool { return protect.All || protect.Why(pod, claims) != "" })
}

// HoldsNode is ProtectedBy for the removal of the pod's node. Pods of a DaemonSet and static pods are replaced on no other node, so that they hold up a node's
// removal only where they have something to lose themselves (a claim, for instance), and not because a policy protects all pods or names DaemonSets.
func (r Removal) HoldsNode(pod *corev1.Pod, claims Claims) []v1alpha1.RemovalAction {
	if !ofItsNode(pod) {
		return r.ProtectedBy(pod, claims)
	}
	return r.actions(func(protect Protection) bool {
		return protect.withoutDaemonSets().Why(pod, claims) != ""
	})
}

// actions are those of the levels that protect a pod, strict to lax.
func (r Removal) actions(protecting func(Protection) bool) []v1alpha1.RemovalAction {
	var actions []v1alpha1.RemovalAction
	for level := &r; level != nil; level = level.Laxer {
		if level.protects() && protecting(level.Protect) {
			actions = append(actions, level.ForceDelete)
		}
	}
	return actions
}

// protects reports whether this level protects pods: it denies or warns.
func (r Removal) protects() bool { return len(r.Names) > 0 && r.ForceDelete != v1alpha1.RemovalAllow }

// Why says why the pod is protected: Protection.Why of the levels together. A pod that has something to lose has a reason also where no policy guards it.
func (r Removal) Why(pod *corev1.Pod, claims Claims) string {
	why := Protection{}.Why(pod, claims)
	for level := &r; level != nil && why == ""; level = level.Laxer {
		if level.protects() {
			why = level.Protect.Why(pod, claims)
		}
	}
	return why
}

// Removal returns what the policies say about removals in a namespace. A removal section selects by namespace only. Where the namespace is unknown all
// policies hold: a removal is judged on the safe side.
func (ps Policies) Removal(ns Namespace, exempt Exempt) Removal {
	if exempt.Has(ns.Name) {
		return Removal{}
	}
	return ps.removal(func(policy *Policy) bool { return policy.Guards(ns) })
}

// Guards reports whether the policy's removal section, if it has one, holds in the namespace: also where it is unknown whether the policy selects it.
func (p *Policy) Guards(ns Namespace) bool {
	selected, known := p.selects(ns)
	return selected || !known || p.unread.namespaces
}

// RemovalOfAll returns what the policies of all namespaces say together, by which the removal of Nodes and VolumeAttachments is judged.
func (ps Policies) RemovalOfAll() Removal {
	return ps.removal(func(*Policy) bool { return true })
}

// laxFirst are the actions on an unsafe removal, from lax to strict.
var laxFirst = []v1alpha1.RemovalAction{v1alpha1.RemovalAllow, v1alpha1.RemovalWarn, v1alpha1.RemovalDeny}

// removal combines the removal sections of the policies that hold, those with the same action by themselves.
func (ps Policies) removal(holds func(*Policy) bool) Removal {
	levels := map[v1alpha1.RemovalAction]*Removal{}
	for _, policy := range ps {
		if policy.Spec.Removal != nil && holds(policy) {
			tighten(levels, policy)
		}
	}
	strictest := &Removal{}
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
func tighten(levels map[v1alpha1.RemovalAction]*Removal, policy *Policy) {
	r := policy.Spec.Removal
	action := ActionOf(r)
	p := levels[action]
	if p == nil {
		p = &Removal{ForceDelete: action, EvictionWithoutGrace: v1alpha1.GraceRaise, AllowedActors: slices.Clone(r.AllowedActors)}
		levels[action] = p
	}
	p.Names = append(p.Names, policy.Name)
	p.Unread = append(p.Unread, policy.strictBy()...)
	if r.EvictionWithoutGrace != v1alpha1.GraceRaise {
		p.EvictionWithoutGrace = v1alpha1.GraceDeny
	}
	p.Protect = union(p.Protect, policy.Protect)
	p.AllowedActors = slices.DeleteFunc(p.AllowedActors, func(actor string) bool { return !slices.Contains(r.AllowedActors, actor) })
}

// ActionOf is a section's action on an unsafe removal. An action that this version does not know counts as Deny.
func ActionOf(r *v1alpha1.RemovalSection) v1alpha1.RemovalAction {
	if !slices.Contains(laxFirst, r.ForceDelete) {
		return v1alpha1.RemovalDeny
	}
	return r.ForceDelete
}

// protectionOf says which pods a section protects.
func protectionOf(r *v1alpha1.RemovalSection) Protection {
	p := Protection{All: r.Protect == v1alpha1.ProtectAll, BlockClaims: r.BlockClaims == v1alpha1.BlockClaimsExclusive}
	for _, o := range r.Owners {
		p.Owners = append(p.Owners, schema.GroupKind(o))
	}
	return p
}

// union protects what one or the other does. Neither is changed: policies are shared by all requests.
func union(a, b Protection) Protection {
	owners := slices.Clone(a.Owners)
	for _, o := range b.Owners {
		if !slices.Contains(owners, o) {
			owners = append(owners, o)
		}
	}
	return Protection{All: a.All || b.All, Owners: owners, BlockClaims: a.BlockClaims || b.BlockClaims}
}

// zeroGraceStrictness orders the actions on a grace period of 0 at a pod's creation.
var zeroGraceStrictness = []v1alpha1.ZeroGraceAction{v1alpha1.ZeroGraceWarn, v1alpha1.ZeroGraceRaise, v1alpha1.ZeroGraceDeny}

// ZeroGraceOf is a section's action on a grace period of 0 at a pod's creation. An empty one (files do not get the CRD's defaults) and one that this version does
// not know count as Raise.
func ZeroGraceOf(r *v1alpha1.RemovalSection) v1alpha1.ZeroGraceAction {
	if !slices.Contains(zeroGraceStrictness, r.ZeroGrace) {
		return v1alpha1.ZeroGraceRaise
	}
	return r.ZeroGrace
}

// StricterZeroGrace reports whether one action on a grace period of 0 is stricter than another.
func StricterZeroGrace(a, than v1alpha1.ZeroGraceAction) bool {
	return slices.Index(zeroGraceStrictness, a) > slices.Index(zeroGraceStrictness, than)
}
