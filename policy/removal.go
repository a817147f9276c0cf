package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Removal is what the removal sections of the policies that hold give together. Those with one action make one level, in
// which the strictest of each field holds; this is the strictest level, and Laxer the next one. A level is judged by
// itself, so that a policy that only warns, or allows, lends nothing to one that denies: not what it protects, nor that it
// allows no actors.
type Removal struct {
	// Names of the policies of this level. None: nothing is guarded here, unless it is Unknown.
	Names []string
	// Unknown: which policies hold could not be read, so that everything is guarded.
	Unknown bool
	// ForceDelete of a protected pod: Deny, Warn or Allow.
	ForceDelete v1alpha1.RemovalAction
	// Protect says which pods are protected.
	Protect Protection
	// EvictionWithoutGrace where ForceDelete is Deny: Deny, or Raise to the pod's own grace period.
	EvictionWithoutGrace v1alpha1.GraceAction
	// AllowedActors are users whose removals this level does not judge.
	AllowedActors []string
	// Laxer is what the policies with the next laxer action give together; nil: there are none.
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

// Guards says whether anything is guarded: a policy denies or warns, or which do could not be read.
func (r Removal) Guards() bool {
	return r.Unknown || len(r.Names) > 0 && r.ForceDelete != v1alpha1.RemovalAllow
}

// ActorsOfAll returns the users that every policy allows which denies or warns, or, where none does, every policy.
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

// HoldsNode is ProtectedBy for the removal of a pod's node: pods that no other node would get either, of a DaemonSet or of the node's own
// files, hold it up for nothing where they have nothing to lose by themselves, but a policy protects all pods, or names DaemonSets.
func (r Removal) HoldsNode(pod *corev1.Pod, claims Claims) []v1alpha1.RemovalAction {
	if !ofItsNode(pod) {
		return r.ProtectedBy(pod, claims)
	}
	return r.actions(func(protect Protection) bool {
		return protect.elsewhere().Why(pod, claims) != ""
	})
}

// actions of the levels whose protection is meant, strict to lax.
func (r Removal) actions(meant func(Protection) bool) []v1alpha1.RemovalAction {
	var actions []v1alpha1.RemovalAction
	for level := &r; level != nil; level = level.Laxer {
		if level.guards() && meant(level.Protect) {
			actions = append(actions, level.ForceDelete)
		}
	}
	return actions
}

// guards says whether this level protects anything.
func (r Removal) guards() bool { return len(r.Names) > 0 && r.ForceDelete != v1alpha1.RemovalAllow }

// Why is that of the protection of all levels together, and of a pod that has something to lose also where no policy guards it.
func (r Removal) Why(pod *corev1.Pod, claims Claims) string {
	why := Protection{}.Why(pod, claims)
	for level := &r; level != nil && why == ""; level = level.Laxer {
		if level.guards() {
			why = level.Protect.Why(pod, claims)
		}
	}
	return why
}

// Removal returns what guards the pods of a namespace. A section on removal selects by namespace only. Of a namespace that
// is unknown all policies hold: a removal is judged on the safe side.
func (ps Policies) Removal(ns Namespace, ownNamespace string) Removal {
	if Excluded(ns.Name, ownNamespace) {
		return Removal{}
	}
	return ps.removal(func(policy *Policy) bool { return policy.Guards(ns) })
}

// Guards says whether the policy's removal section, if it has one, is for the namespace.
func (p *Policy) Guards(ns Namespace) bool {
	selected, known := p.selects(ns)
	return selected || !known || p.unread.namespaces
}

// RemovalOfAll returns what guards nodes and volume attachments, which are of no namespace: every policy does.
func (ps Policies) RemovalOfAll() Removal {
	return ps.removal(func(*Policy) bool { return true })
}

// laxFirst are the actions on an unsafe removal.
var laxFirst = []v1alpha1.RemovalAction{v1alpha1.RemovalAllow, v1alpha1.RemovalWarn, v1alpha1.RemovalDeny}

// removal puts the sections of the policies that hold together, those with one action by themselves.
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
	if r.EvictionWithoutGrace != v1alpha1.GraceRaise {
		p.EvictionWithoutGrace = v1alpha1.GraceDeny
	}
	p.Protect = together(p.Protect, policy.Protect)
	p.AllowedActors = slices.DeleteFunc(p.AllowedActors, func(actor string) bool { return !slices.Contains(r.AllowedActors, actor) })
}

// ActionOf is the action of a section on an unsafe removal. What is not known here denies.
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

// together protects what one or the other does. Neither is written to: policies are shared by all requests.
func together(a, b Protection) Protection {
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

// ZeroGraceOf returns what a section does about a grace period of 0. A file has no defaults of the CRD; a newer CRD may know more actions.
func ZeroGraceOf(r *v1alpha1.RemovalSection) v1alpha1.ZeroGraceAction {
	if !slices.Contains(zeroGraceStrictness, r.ZeroGrace) {
		return v1alpha1.ZeroGraceRaise
	}
	return r.ZeroGrace
}

// StricterZeroGrace says whether one action on a grace period of 0 is stricter than another.
func StricterZeroGrace(a, than v1alpha1.ZeroGraceAction) bool {
	return slices.Index(zeroGraceStrictness, a) > slices.Index(zeroGraceStrictness, than)
}
