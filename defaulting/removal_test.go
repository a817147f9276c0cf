package defaulting_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/guard"
)

// removes is a section as the API server hands it over; an empty field is one that a file leaves out.
func removes(r v1alpha1.RemovalSection) policyOption {
	return func(s *v1alpha1.PodPolicySpec) { s.Removal = &r }
}

var unknown = defaulting.Namespace{Name: "shop", Unknown: true}

func TestRemoval(t *testing.T) {
	t.Parallel()
	const deny, warn, allow, raise = v1alpha1.RemovalDeny, v1alpha1.RemovalWarn, v1alpha1.RemovalAllow, v1alpha1.GraceRaise
	lax := v1alpha1.RemovalSection{ForceDelete: allow, Protect: v1alpha1.ProtectStateful, EvictionWithoutGrace: raise, AllowedActors: []string{"a", "b", "c"}}
	with := func(change func(*v1alpha1.RemovalSection)) policyOption {
		r := lax
		change(&r)
		return removes(r)
	}
	elsewhere := inNamespaces("team", "till")
	tests := []struct {
		name      string
		policies  []*v1alpha1.PodPolicy
		namespace defaulting.Namespace
		want      guard.Policy
	}{
		{name: "no policy", namespace: shop},
		{name: "a policy without the section", policies: one(policy("p", gives("high"))), namespace: shop},
		{name: "an empty section has the defaults of the CRD", policies: one(policy("p", removes(v1alpha1.RemovalSection{}))), namespace: shop, want: guard.Policy{Names: []string{"p"}, ForceDelete: deny, EvictionWithoutGrace: v1alpha1.GraceDeny}},
		{name: "one policy, as it is", policies: one(policy("p", removes(lax))), namespace: shop, want: guard.Policy{Names: []string{"p"}, ForceDelete: allow, EvictionWithoutGrace: raise, AllowedActors: []string{"a", "b", "c"}}},
		{name: "Deny over Warn over Allow", policies: []*v1alpha1.PodPolicy{
			policy("p", removes(lax)), policy("q", with(func(r *v1alpha1.RemovalSection) { r.ForceDelete = warn })),
		}, namespace: shop, want: guard.Policy{Names: []string{"p", "q"}, ForceDelete: warn, EvictionWithoutGrace: raise, AllowedActors: []string{"a", "b", "c"}}},
		{name: "each field from another policy", policies: []*v1alpha1.PodPolicy{
			policy("p", with(func(r *v1alpha1.RemovalSection) { r.ForceDelete = deny })),
			policy("q", with(func(r *v1alpha1.RemovalSection) { r.Protect = v1alpha1.ProtectAll })),
			policy("r", with(func(r *v1alpha1.RemovalSection) { r.EvictionWithoutGrace = v1alpha1.GraceDeny })),
			policy("s", with(func(r *v1alpha1.RemovalSection) { r.AllowedActors = []string{"b", "x"} })),
		}, namespace: shop, want: guard.Policy{Names: []string{"p", "q", "r", "s"}, ForceDelete: deny, ProtectAll: true, EvictionWithoutGrace: v1alpha1.GraceDeny, AllowedActors: []string{"b"}}},
		{name: "the weight says nothing: limits of light policies hold", policies: []*v1alpha1.PodPolicy{
			policy("p", weight(9), removes(lax)), policy("q", weight(-9), removes(v1alpha1.RemovalSection{})),
		}, namespace: shop, want: guard.Policy{Names: []string{"p", "q"}, ForceDelete: deny, EvictionWithoutGrace: v1alpha1.GraceDeny}},
		{name: "of two without a common actor nobody is allowed", policies: []*v1alpha1.PodPolicy{
			policy("p", with(func(r *v1alpha1.RemovalSection) { r.AllowedActors = []string{"a"} })), policy("q", with(func(r *v1alpha1.RemovalSection) { r.AllowedActors = []string{"b"} })),
		}, namespace: shop, want: guard.Policy{Names: []string{"p", "q"}, ForceDelete: allow, EvictionWithoutGrace: raise}},
		{name: "an actor of one policy is not allowed by one that names none", policies: []*v1alpha1.PodPolicy{
			policy("p", removes(lax)), policy("q", with(func(r *v1alpha1.RemovalSection) { r.AllowedActors = nil })),
		}, namespace: shop, want: guard.Policy{Names: []string{"p", "q"}, ForceDelete: allow, EvictionWithoutGrace: raise}},
		{name: "another namespace's policy", policies: one(policy("p", removes(lax), elsewhere)), namespace: shop},
		{name: "of two the one that matches", policies: []*v1alpha1.PodPolicy{policy("p", removes(v1alpha1.RemovalSection{}), elsewhere), policy("q", removes(lax), inNamespaces("team", "shop"))}, namespace: shop,
			want: guard.Policy{Names: []string{"q"}, ForceDelete: allow, EvictionWithoutGrace: raise, AllowedActors: []string{"a", "b", "c"}}},
		{name: "of an unknown namespace all hold", policies: []*v1alpha1.PodPolicy{policy("p", removes(v1alpha1.RemovalSection{}), elsewhere), policy("q", removes(lax))}, namespace: unknown,
			want: guard.Policy{Names: []string{"p", "q"}, ForceDelete: deny, EvictionWithoutGrace: v1alpha1.GraceDeny}},
		{name: "kube-system is never guarded", policies: one(policy("p", removes(v1alpha1.RemovalSection{}))), namespace: defaulting.Namespace{Name: "kube-system"}},
		{name: "nor is it when its labels are unknown", policies: one(policy("p", removes(v1alpha1.RemovalSection{}))), namespace: defaulting.Namespace{Name: "kube-system", Unknown: true}},
		{name: "nor Podgrace's own namespace", policies: one(policy("p", removes(v1alpha1.RemovalSection{}))), namespace: defaulting.Namespace{Name: ownNamespace}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, compile(t, tt.policies...).Removal(tt.namespace, ownNamespace), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Without a namespace of its own, as offline, nothing but kube-system is left out: an empty name is nobody's namespace.
func TestRemovalWithoutAnOwnNamespace(t *testing.T) {
	t.Parallel()
	policies := compile(t, policy("p", removes(v1alpha1.RemovalSection{})))
	for name, want := range map[string]int{"": 1, "shop": 1, ownNamespace: 1, "kube-system": 0} {
		if got := policies.Removal(defaulting.Namespace{Name: name}, ""); len(got.Names) != want {
			t.Errorf("namespace %q: %+v", name, got)
		}
	}
}

// Nodes and volume attachments are of no namespace: every policy counts, whatever it selects.
func TestStrictestRemoval(t *testing.T) {
	t.Parallel()
	policies := compile(t,
		policy("p", removes(v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn, AllowedActors: []string{"a", "b"}, EvictionWithoutGrace: v1alpha1.GraceRaise}), inNamespaces("team", "till")),
		policy("q", removes(v1alpha1.RemovalSection{Protect: v1alpha1.ProtectAll, AllowedActors: []string{"b", "c"}}), inNamespaces("team", "bank")),
		policy("r", gives("high")),
	)
	want := guard.Policy{Names: []string{"p", "q"}, ForceDelete: v1alpha1.RemovalDeny, ProtectAll: true, EvictionWithoutGrace: v1alpha1.GraceDeny, AllowedActors: []string{"b"}}
	if diff := cmp.Diff(want, policies.StrictestRemoval()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(guard.Policy{}, compile(t, policy("r", gives("high"))).StrictestRemoval()); diff != "" {
		t.Errorf("no section (-want +got):\n%s", diff)
	}
}

// Merging must not write into the policies, which all requests share.
func TestRemovalLeavesThePoliciesAlone(t *testing.T) {
	t.Parallel()
	first, second := policy("p", removes(v1alpha1.RemovalSection{AllowedActors: []string{"a", "b"}})), policy("q", removes(v1alpha1.RemovalSection{AllowedActors: []string{"b"}}))
	policies := compile(t, first, second)
	for range 2 {
		policies.Removal(shop, "")
		policies.StrictestRemoval()
		if diff := cmp.Diff([]string{"a", "b"}, first.Spec.Removal.AllowedActors); diff != "" {
			t.Fatal(diff)
		}
	}
}

func drawRemoval(t *rapid.T) *v1alpha1.PodPolicy {
	p := policy(pick(t, "name", "a", "b", "c", "d", "e"), weight(rapid.Int32Range(-1, 1).Draw(t, "weight")))
	if rarely(t, "no section") {
		return p
	}
	removes(v1alpha1.RemovalSection{
		ForceDelete:          pick(t, "forceDelete", "", v1alpha1.RemovalDeny, v1alpha1.RemovalWarn, v1alpha1.RemovalAllow, v1alpha1.RemovalAllow),
		Protect:              pick(t, "protect", "", v1alpha1.ProtectStateful, v1alpha1.ProtectAll),
		EvictionWithoutGrace: pick(t, "eviction", "", v1alpha1.GraceDeny, v1alpha1.GraceRaise, v1alpha1.GraceRaise),
		AllowedActors:        rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3, rapid.ID).Draw(t, "actors"),
	})(&p.Spec)
	if rarely(t, "selector") {
		inNamespaces("team", pick(t, "team", "shop", "till"))(&p.Spec)
	}
	return p
}

func drawRemovals(t *rapid.T) []*v1alpha1.PodPolicy {
	return rapid.SliceOfNDistinct(rapid.Custom(drawRemoval), 0, 5, func(p *v1alpha1.PodPolicy) string { return p.Name }).Draw(t, "policies")
}

// looser says in which field b is looser than a; empty: in none.
func looser(a, b guard.Policy) string {
	order := []v1alpha1.RemovalAction{v1alpha1.RemovalAllow, v1alpha1.RemovalWarn, v1alpha1.RemovalDeny}
	switch {
	case len(a.Names) == 0: // nothing was guarded
		return ""
	case len(b.Names) < len(a.Names):
		return "names"
	case slices.Index(order, b.ForceDelete) < slices.Index(order, a.ForceDelete):
		return "forceDelete"
	case a.ProtectAll && !b.ProtectAll:
		return "protect"
	case a.EvictionWithoutGrace == v1alpha1.GraceDeny && b.EvictionWithoutGrace != v1alpha1.GraceDeny:
		return "evictionWithoutGrace"
	case slices.ContainsFunc(b.AllowedActors, func(actor string) bool { return !slices.Contains(a.AllowedActors, actor) }):
		return "allowedActors"
	}
	return ""
}

// TestAddingAPolicyNeverLoosensRemoval, wherever it stands in the order; nor does not knowing the namespace.
func TestAddingAPolicyNeverLoosensRemoval(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policies, added := drawRemovals(t), drawRemoval(t)
		added.Name = "added-" + added.Name
		if chance(t, "first by name") {
			added.Name = "A"
		}
		before, after := compile(t, policies...), compile(t, append(slices.Clone(policies), added)...)
		for what, pair := range map[string][2]guard.Policy{
			"a known namespace":    {before.Removal(shop, ""), after.Removal(shop, "")},
			"an unknown namespace": {before.Removal(unknown, ""), after.Removal(unknown, "")},
			"the strictest":        {before.StrictestRemoval(), after.StrictestRemoval()},
			"known, then unknown":  {before.Removal(shop, ""), before.Removal(unknown, "")},
			"one, then all":        {before.Removal(shop, ""), before.StrictestRemoval()},
		} {
			if field := looser(pair[0], pair[1]); field != "" {
				t.Fatalf("%s: %s is looser: %+v, then %+v", what, field, pair[0], pair[1])
			}
		}
	})
}

// TestOrderOfRemovalsDoesNotMatter: nor of the actors in a list.
func TestOrderOfRemovalsDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policies := drawRemovals(t)
		shuffled := make([]*v1alpha1.PodPolicy, 0, len(policies))
		for _, p := range rapid.Permutation(policies).Draw(t, "order") {
			p = p.DeepCopy()
			if r := p.Spec.Removal; r != nil && len(r.AllowedActors) > 0 {
				r.AllowedActors = rapid.Permutation(r.AllowedActors).Draw(t, "actors in another order")
			}
			shuffled = append(shuffled, p)
		}
		a, b := compile(t, policies...), compile(t, shuffled...)
		sorted := cmpopts.SortSlices(func(x, y string) bool { return x < y })
		if diff := cmp.Diff(a.Removal(shop, ""), b.Removal(shop, ""), sorted, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(a.StrictestRemoval(), b.StrictestRemoval(), sorted, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}
