package policy_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

func TestRemoval(t *testing.T) {
	t.Parallel()
	const deny, warn, allow, raise = v1alpha1.RemovalDeny, v1alpha1.RemovalWarn, v1alpha1.RemovalAllow, v1alpha1.GraceRaise
	lax := v1alpha1.RemovalSection{ForceDelete: allow, Protect: v1alpha1.ProtectStateful, EvictionWithoutGrace: raise, AllowedActors: []string{"a", "b", "c"}}
	laxLevel := &policy.Removal{Names: []string{"p"}, ForceDelete: allow, EvictionWithoutGrace: raise, AllowedActors: []string{"a", "b", "c"}}
	with := func(change func(*v1alpha1.RemovalSection)) PolicyOption {
		r := lax
		change(&r)
		return Removal(r)
	}
	elsewhere := InNamespaces("team", "till")
	tests := []struct {
		name      string
		policies  []*v1alpha1.PodPolicy
		namespace policy.Namespace
		want      policy.Removal
	}{
		{name: "no policy", namespace: Shop},
		{name: "a policy without the section", policies: One(PodPolicy("p", Gives("high"))), namespace: Shop},
		{name: "an empty section has the defaults of the CRD", policies: One(PodPolicy("p", Removal(v1alpha1.RemovalSection{}))), namespace: Shop, want: policy.Removal{Names: []string{"p"}, ForceDelete: deny, EvictionWithoutGrace: v1alpha1.GraceDeny}},
		{name: "one policy, as it is", policies: One(PodPolicy("p", Removal(lax))), namespace: Shop, want: policy.Removal{Names: []string{"p"}, ForceDelete: allow, EvictionWithoutGrace: raise, AllowedActors: []string{"a", "b", "c"}}},
		{name: "Deny over Warn over Allow, each by itself", policies: []*v1alpha1.PodPolicy{
			PodPolicy("p", Removal(v1alpha1.RemovalSection{ForceDelete: allow, Protect: v1alpha1.ProtectAll})),
			PodPolicy("q", with(func(r *v1alpha1.RemovalSection) { r.ForceDelete, r.EvictionWithoutGrace = warn, "" })),
			PodPolicy("r", with(func(r *v1alpha1.RemovalSection) { r.ForceDelete, r.AllowedActors = "", []string{"d"} })),
		}, namespace: Shop, want: policy.Removal{Names: []string{"r"}, ForceDelete: deny, EvictionWithoutGrace: raise, AllowedActors: []string{"d"},
			Laxer: &policy.Removal{Names: []string{"q"}, ForceDelete: warn, EvictionWithoutGrace: v1alpha1.GraceDeny, AllowedActors: []string{"a", "b", "c"},
				Laxer: &policy.Removal{Names: []string{"p"}, ForceDelete: allow, EvictionWithoutGrace: v1alpha1.GraceDeny, Protect: policy.Protection{All: true}}}}},
		{name: "an action that is not known here denies", policies: One(PodPolicy("p", Removal(v1alpha1.RemovalSection{ForceDelete: "Ask"}))), namespace: Shop,
			want: policy.Removal{Names: []string{"p"}, ForceDelete: deny, EvictionWithoutGrace: v1alpha1.GraceDeny}},
		{name: "each field from another policy of the same action", policies: []*v1alpha1.PodPolicy{
			PodPolicy("p", Removal(lax)),
			PodPolicy("q", with(func(r *v1alpha1.RemovalSection) { r.Protect = v1alpha1.ProtectAll })),
			PodPolicy("r", with(func(r *v1alpha1.RemovalSection) { r.EvictionWithoutGrace = v1alpha1.GraceDeny })),
			PodPolicy("s", with(func(r *v1alpha1.RemovalSection) { r.AllowedActors = []string{"b", "x"} })),
		}, namespace: Shop, want: policy.Removal{Names: []string{"p", "q", "r", "s"}, ForceDelete: allow, Protect: policy.Protection{All: true}, EvictionWithoutGrace: v1alpha1.GraceDeny, AllowedActors: []string{"b"}}},
		{name: "what is protected adds up in a level, and not between levels", policies: []*v1alpha1.PodPolicy{
			PodPolicy("p", Removal(v1alpha1.RemovalSection{Owners: []v1alpha1.ProtectedOwner{PodSets, {Kind: "Node"}}})),
			PodPolicy("q", Removal(v1alpha1.RemovalSection{Owners: []v1alpha1.ProtectedOwner{{Group: "agones.dev", Kind: "GameServer"}, PodSets}, BlockClaims: v1alpha1.BlockClaimsByAccessMode})),
			PodPolicy("r", Removal(v1alpha1.RemovalSection{ForceDelete: warn, BlockClaims: v1alpha1.BlockClaimsExclusive})),
			PodPolicy("s", Removal(v1alpha1.RemovalSection{ForceDelete: warn, Owners: []v1alpha1.ProtectedOwner{{Group: "batch", Kind: "Job"}}})),
		}, namespace: Shop, want: policy.Removal{Names: []string{"p", "q"}, ForceDelete: deny, EvictionWithoutGrace: v1alpha1.GraceDeny,
			Protect: policy.Protection{Owners: []schema.GroupKind{{Group: "core.strimzi.io", Kind: "StrimziPodSet"}, {Kind: "Node"}, {Group: "agones.dev", Kind: "GameServer"}}},
			Laxer: &policy.Removal{Names: []string{"r", "s"}, ForceDelete: warn, EvictionWithoutGrace: v1alpha1.GraceDeny,
				Protect: policy.Protection{Owners: []schema.GroupKind{{Group: "batch", Kind: "Job"}}, BlockClaims: true}}}},
		{name: "the weight says nothing: limits of light policies hold", policies: []*v1alpha1.PodPolicy{
			PodPolicy("p", Weight(9), Removal(lax)), PodPolicy("q", Weight(-9), Removal(v1alpha1.RemovalSection{})),
		}, namespace: Shop, want: policy.Removal{Names: []string{"q"}, ForceDelete: deny, EvictionWithoutGrace: v1alpha1.GraceDeny, Laxer: laxLevel}},
		{name: "of two without a common actor nobody is allowed", policies: []*v1alpha1.PodPolicy{
			PodPolicy("p", with(func(r *v1alpha1.RemovalSection) { r.AllowedActors = []string{"a"} })), PodPolicy("q", with(func(r *v1alpha1.RemovalSection) { r.AllowedActors = []string{"b"} })),
		}, namespace: Shop, want: policy.Removal{Names: []string{"p", "q"}, ForceDelete: allow, EvictionWithoutGrace: raise}},
		{name: "an actor of one policy is not allowed by one that names none", policies: []*v1alpha1.PodPolicy{
			PodPolicy("p", Removal(lax)), PodPolicy("q", with(func(r *v1alpha1.RemovalSection) { r.AllowedActors = nil })),
		}, namespace: Shop, want: policy.Removal{Names: []string{"p", "q"}, ForceDelete: allow, EvictionWithoutGrace: raise}},
		{name: "another namespace's policy", policies: One(PodPolicy("p", Removal(lax), elsewhere)), namespace: Shop},
		{name: "of two the one that matches", policies: []*v1alpha1.PodPolicy{PodPolicy("p", Removal(v1alpha1.RemovalSection{}), elsewhere), PodPolicy("q", Removal(lax), InNamespaces("team", "shop"))}, namespace: Shop,
			want: policy.Removal{Names: []string{"q"}, ForceDelete: allow, EvictionWithoutGrace: raise, AllowedActors: []string{"a", "b", "c"}}},
		{name: "of an unknown namespace all hold", policies: []*v1alpha1.PodPolicy{PodPolicy("q", Removal(v1alpha1.RemovalSection{}), elsewhere), PodPolicy("p", Removal(lax))}, namespace: Unknown,
			want: policy.Removal{Names: []string{"q"}, ForceDelete: deny, EvictionWithoutGrace: v1alpha1.GraceDeny, Laxer: laxLevel}},
		{name: "kube-system is never guarded", policies: One(PodPolicy("p", Removal(v1alpha1.RemovalSection{}))), namespace: policy.Namespace{Name: "kube-system"}},
		{name: "nor is it when its labels are unknown", policies: One(PodPolicy("p", Removal(v1alpha1.RemovalSection{}))), namespace: policy.Namespace{Name: "kube-system", Unknown: true}},
		{name: "nor Podgrace's own namespace", policies: One(PodPolicy("p", Removal(v1alpha1.RemovalSection{}))), namespace: policy.Namespace{Name: OwnNamespace}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, Compile(t, tt.policies...).Removal(tt.namespace, Exempt), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Without a namespace of its own, as offline, nothing but kube-system is left out: an empty name is nobody's namespace.
func TestRemovalWithoutAnOwnNamespace(t *testing.T) {
	t.Parallel()
	policies := Compile(t, PodPolicy("p", Removal(v1alpha1.RemovalSection{})))
	for name, want := range map[string]int{"": 1, "shop": 1, OwnNamespace: 1, "kube-system": 0} {
		if got := policies.Removal(policy.Namespace{Name: name}, policy.Exempt{}); len(got.Names) != want {
			t.Errorf("namespace %q: %+v", name, got)
		}
	}
}

// Nodes and volume attachments are of no namespace: every policy counts, whatever it selects.
func TestRemovalOfAll(t *testing.T) {
	t.Parallel()
	policies := Compile(t,
		PodPolicy("p", Removal(v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn, AllowedActors: []string{"a", "b"}, EvictionWithoutGrace: v1alpha1.GraceRaise}), InNamespaces("team", "till")),
		PodPolicy("q", Removal(v1alpha1.RemovalSection{Protect: v1alpha1.ProtectAll, AllowedActors: []string{"b", "c"}}), InNamespaces("team", "bank")),
		PodPolicy("r", Removal(v1alpha1.RemovalSection{AllowedActors: []string{"c", "d"}}), InNamespaces("team", "till")),
		PodPolicy("s", Gives("high")),
	)
	want := policy.Removal{Names: []string{"q", "r"}, ForceDelete: v1alpha1.RemovalDeny, Protect: policy.Protection{All: true}, EvictionWithoutGrace: v1alpha1.GraceDeny, AllowedActors: []string{"c"},
		Laxer: &policy.Removal{Names: []string{"p"}, ForceDelete: v1alpha1.RemovalWarn, EvictionWithoutGrace: v1alpha1.GraceRaise, AllowedActors: []string{"a", "b"}}}
	if diff := cmp.Diff(want, policies.RemovalOfAll()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(policy.Removal{}, Compile(t, PodPolicy("s", Gives("high"))).RemovalOfAll()); diff != "" {
		t.Errorf("no section (-want +got):\n%s", diff)
	}
}

// Merging must not write into the policies, which all requests share.
func TestRemovalLeavesThePoliciesAlone(t *testing.T) {
	t.Parallel()
	first, second := PodPolicy("p", Removal(v1alpha1.RemovalSection{AllowedActors: []string{"a", "b"}})), PodPolicy("q", Removal(v1alpha1.RemovalSection{AllowedActors: []string{"b"}}))
	policies := Compile(t, first, second)
	for range 2 {
		policies.Removal(Shop, policy.Exempt{})
		policies.RemovalOfAll()
		if diff := cmp.Diff([]string{"a", "b"}, first.Spec.Removal.AllowedActors); diff != "" {
			t.Fatal(diff)
		}
	}
}

// TestOrderOfRemovalsDoesNotMatter: nor of the actors in a list.
func TestOrderOfRemovalsDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policies := DrawRemovals(t)
		shuffled := make([]*v1alpha1.PodPolicy, 0, len(policies))
		for _, p := range rapid.Permutation(policies).Draw(t, "order") {
			p = p.DeepCopy()
			if r := p.Spec.Removal; r != nil && len(r.AllowedActors) > 0 {
				r.AllowedActors = rapid.Permutation(r.AllowedActors).Draw(t, "actors in another order")
			}
			if r := p.Spec.Removal; r != nil && len(r.Owners) > 0 {
				r.Owners = rapid.Permutation(r.Owners).Draw(t, "owners in another order")
			}
			shuffled = append(shuffled, p)
		}
		a, b := Compile(t, policies...), Compile(t, shuffled...)
		sorted := cmp.Options{cmpopts.SortSlices(func(x, y string) bool { return x < y }), cmpopts.SortSlices(func(x, y schema.GroupKind) bool { return x.String() < y.String() })}
		if diff := cmp.Diff(a.Removal(Shop, policy.Exempt{}), b.Removal(Shop, policy.Exempt{}), sorted, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(a.RemovalOfAll(), b.RemovalOfAll(), sorted, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// chain has the strictest level first.
func chain(levels ...policy.Removal) policy.Removal {
	for i := len(levels) - 1; i > 0; i-- {
		levels[i-1].Laxer = &levels[i]
	}
	return levels[0]
}

func TestNamesAndActorsOfAllLevels(t *testing.T) {
	t.Parallel()
	denies := Level("d", v1alpha1.RemovalDeny, Allowing("a", "b"))
	warns := Level("w", v1alpha1.RemovalWarn, Allowing("b", "c"))
	allows := Level("l", v1alpha1.RemovalAllow, Allowing("x"))
	for name, tt := range map[string]struct {
		policy        policy.Removal
		names, actors []string
	}{
		"none":                      {policy.Removal{}, nil, nil},
		"one level":                 {denies, []string{"d"}, []string{"a", "b"}},
		"those that allow, alone":   {allows, []string{"l"}, []string{"x"}},
		"deny and warn":             {chain(denies, warns), []string{"d", "w"}, []string{"b"}},
		"deny and allow":            {chain(denies, allows), []string{"d", "l"}, []string{"a", "b"}},
		"warn and allow":            {chain(warns, allows), []string{"w", "l"}, []string{"b", "c"}},
		"deny, warn and allow":      {chain(denies, warns, allows), []string{"d", "w", "l"}, []string{"b"}},
		"those that warn name none": {chain(denies, Level("w", v1alpha1.RemovalWarn)), []string{"d", "w"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := slices.Clone(tt.policy.AllowedActors)
			if diff := cmp.Diff(tt.names, tt.policy.AllNames(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.actors, tt.policy.ActorsOfAll(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("actors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tt.policy.AllowedActors); diff != "" {
				t.Errorf("the policy was written to: %s", diff)
			}
		})
	}
}

func TestProtectedBy(t *testing.T) {
	t.Parallel()
	const deny, warn, allow = v1alpha1.RemovalDeny, v1alpha1.RemovalWarn, v1alpha1.RemovalAllow
	stateful, stateless, operated := Pod(OfStatefulSet), Pod(), Pod(OfPodSet)
	podSets := func(p *policy.Removal) { p.Protect.Owners = []schema.GroupKind{podSet} }
	for name, tt := range map[string]struct {
		policy policy.Removal
		pod    *corev1.Pod
		want   []v1alpha1.RemovalAction
	}{
		"no policy":                   {policy.Removal{}, stateful, nil},
		"stateful":                    {chain(Level("d", deny), Level("w", warn)), stateful, []v1alpha1.RemovalAction{deny, warn}},
		"stateless":                   {chain(Level("d", deny), Level("w", warn)), stateless, nil},
		"those that warn protect all": {chain(Level("d", deny), Level("w", warn, AllPods)), stateless, []v1alpha1.RemovalAction{warn}},
		"those that deny protect all": {chain(Level("d", deny, AllPods), Level("w", warn)), stateless, []v1alpha1.RemovalAction{deny}},
		"those that warn name it":     {chain(Level("d", deny), Level("w", warn, podSets)), operated, []v1alpha1.RemovalAction{warn}},
		"those that deny name it":     {chain(Level("d", deny, podSets), Level("w", warn)), operated, []v1alpha1.RemovalAction{deny}},
		"those that allow":            {chain(Level("w", warn), Level("l", allow, AllPods)), stateless, nil},
		"those that allow, alone":     {chain(Level("l", allow, AllPods)), stateful, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.policy.ProtectedBy(tt.pod, nil)); diff != "" {
				t.Error(diff)
			}
			want := ""
			switch {
			case tt.pod == stateful:
				want = "it is a pod of StatefulSet db"
			case tt.pod == operated && tt.want != nil:
				want = "it is a pod of StrimziPodSet kafka"
			}
			if got := tt.policy.Why(tt.pod, nil); got != want {
				t.Errorf("because %q, want %q", got, want)
			}
		})
	}
}
