package policytest

import (
	"flag"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// Run runs a package's tests. Properties try so many cases each where -rapid.checks does not say otherwise, and keep no files of failures: the seed is in the
// output.
func Run(m *testing.M, cases int) int {
	for name, value := range map[string]string{"rapid.checks": strconv.Itoa(cases), "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	return m.Run() // which parses the flags of the command line over these
}

// Chance is true in one of two cases.
func Chance(t *rapid.T, what string) bool { return rapid.Bool().Draw(t, what) }

// Rarely is true in one of ten cases.
func Rarely(t *rapid.T, what string) bool { return rapid.IntRange(0, 9).Draw(t, what) == 9 }

// Pick is one of several.
func Pick[T any](t *rapid.T, what string, from ...T) T { return rapid.SampledFrom(from).Draw(t, what) }

// Shuffled is a list in another order.
func Shuffled[T any](t *rapid.T, what string, list []T) []T {
	if len(list) == 0 {
		return list
	}
	return rapid.Permutation(list).Draw(t, what+" in another order")
}

// DrawRemoval makes a policy with a removal section, or rarely one without.
func DrawRemoval(t *rapid.T) *v1alpha1.PodPolicy {
	p := PodPolicy(Pick(t, "name", "a", "b", "c", "d", "e"), Weight(rapid.Int32Range(-1, 1).Draw(t, "weight")))
	if Rarely(t, "no section") {
		return p
	}
	Removal(v1alpha1.RemovalSection{
		ForceDelete:          Pick(t, "forceDelete", "", v1alpha1.RemovalDeny, v1alpha1.RemovalWarn, v1alpha1.RemovalWarn, v1alpha1.RemovalAllow),
		Protect:              Pick(t, "protect", "", v1alpha1.ProtectStateful, v1alpha1.ProtectAll),
		EvictionWithoutGrace: Pick(t, "eviction", "", v1alpha1.GraceDeny, v1alpha1.GraceRaise, v1alpha1.GraceRaise),
		AllowedActors:        rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3, rapid.ID).Draw(t, "actors"),
		Owners:               DrawOwners(t),
		BlockClaims:          Pick(t, "block claims", "", v1alpha1.BlockClaimsByAccessMode, v1alpha1.BlockClaimsExclusive),
	})(&p.Spec)
	if Rarely(t, "selector") {
		InNamespaces("team", Pick(t, "team", "shop", "till"))(&p.Spec)
	}
	return p
}

// DrawOwners are kinds of controllers that a removal section may protect.
func DrawOwners(t *rapid.T) []v1alpha1.ProtectedOwner {
	kinds := []v1alpha1.ProtectedOwner{PodSets, {Group: "apps", Kind: "ReplicaSet"}, {Group: "batch", Kind: "Job"}}
	return rapid.SliceOfNDistinct(rapid.SampledFrom(kinds), 0, 2, rapid.ID).Draw(t, "owners")
}

// DrawRemovals are up to five policies of different names.
func DrawRemovals(t *rapid.T) []*v1alpha1.PodPolicy {
	return rapid.SliceOfNDistinct(rapid.Custom(DrawRemoval), 0, 5, func(p *v1alpha1.PodPolicy) string { return p.Name }).Draw(t, "policies")
}

// DrawProtection is what policies may protect together.
func DrawProtection(t *rapid.T) policy.Protection {
	p := policy.Protection{All: Chance(t, "protect all"), BlockClaims: Chance(t, "block claims")}
	for _, kind := range []schema.GroupKind{schema.GroupKind(PodSets), {Group: "apps", Kind: "ReplicaSet"}} {
		if rapid.IntRange(0, 3).Draw(t, "owner "+kind.Kind) == 3 {
			p.Owners = append(p.Owners, kind)
		}
	}
	return p
}
