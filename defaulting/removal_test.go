package defaulting_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
)

// removes is a section as the API server hands it over; an empty field is one that a file leaves out.
func removes(r v1alpha1.RemovalSection) policyOption {
	return func(s *v1alpha1.PodPolicySpec) { s.Removal = &r }
}

var till = policy.Namespace{Name: "till", Labels: map[string]string{"team": "till"}}

// podSets are an operator's controllers.
var podSets = v1alpha1.ProtectedOwner{Group: "core.strimzi.io", Kind: "StrimziPodSet"}

var unknown = policy.Namespace{Name: "shop", Unknown: true}

func TestRemoval(t *testing.T) {
	t.Parallel()
	const deny, warn, allow, raise = v1alpha1.RemovalDeny, v1alpha1.RemovalWarn, v1alpha1.RemovalAllow, v1alpha1.GraceRaise
	lax := v1alpha1.RemovalSection{ForceDelete: allow, Protect: v1alpha1.ProtectStateful, EvictionWithoutGrace: raise, AllowedActors: []string{"a", "b", "c"}}
	laxLevel := &policy.Removal{Names: []string{"p"}, ForceDelete: allow, EvictionWithoutGrace: raise, AllowedActors: []string{"a", "b", "c"}}
	with := func(change func(*v1alpha1.RemovalSection)) policyOption {
		r := lax
		change(&r)
		return removes(r)
	}
	elsewhere := inNamespaces("team", "till")
	tests := []struct {
		name      string
		policies  []*v1alpha1.PodPolicy
		namespace policy.Namespace
		want      policy.Removal
	}{
		{name: "no policy", namespace: shop},
		{name: "a policy without the section", policies: one(podPolicy("p", gives("high"))), namespace: shop},
		{name: "an empty section has the defaults of the CRD", policies: one(podPolicy("p", removes(v1alpha1.RemovalSection{}))), namespace: shop, want: policy.Removal{Names: []string{"p"}, ForceDelete: deny, EvictionWithoutGrace: v1alpha1.GraceDeny}},
		{name: "one policy, as it is", policies: one(podPolicy("p", removes(lax))), namespace: shop, want: policy.Removal{Names: []string{"p"}, ForceDelete: allow, EvictionWithoutGrace: raise, AllowedActors: []string{"a", "b", "c"}}},
		{name: "Deny over Warn over Allow, each by itself", policies: []*v1alpha1.PodPolicy{
			podPolicy("p", removes(v1alpha1.RemovalSection{ForceDelete: allow, Protect: v1alpha1.ProtectAll})),
			podPolicy("q", with(func(r *v1alpha1.RemovalSection) { r.ForceDelete, r.EvictionWithoutGrace = warn, "" })),
			podPolicy("r", with(func(r *v1alpha1.RemovalSection) { r.ForceDelete, r.AllowedActors = "", []string{"d"} })),
		}, namespace: shop, want: policy.Removal{Names: []string{"r"}, ForceDelete: deny, EvictionWithoutGrace: raise, AllowedActors: []string{"d"},
			Laxer: &policy.Removal{Names: []string{"q"}, ForceDelete: warn, EvictionWithoutGrace: v1alpha1.GraceDeny, AllowedActors: []string{"a", "b", "c"},
				Laxer: &policy.Removal{Names: []string{"p"}, ForceDelete: allow, EvictionWithoutGrace: v1alpha1.GraceDeny, Protect: policy.Protection{All: true}}}}},
		{name: "an action that is not known here denies", policies: one(podPolicy("p", removes(v1alpha1.RemovalSection{ForceDelete: "Ask"}))), namespace: shop,
			want: policy.Removal{Names: []string{"p"}, ForceDelete: deny, EvictionWithoutGrace: v1alpha1.GraceDeny}},
		{name: "each field from another policy of the same action", policies: []*v1alpha1.PodPolicy{
			podPolicy("p", removes(lax)),
			podPolicy("q", with(func(r *v1alpha1.RemovalSection) { r.Protect = v1alpha1.ProtectAll })),
			podPolicy("r", with(func(r *v1alpha1.RemovalSection) { r.EvictionWithoutGrace = v1alpha1.GraceDeny })),
			podPolicy("s", with(func(r *v1alpha1.RemovalSection) { r.AllowedActors = []string{"b", "x"} })),
		}, namespace: shop, want: policy.Removal{Names: []string{"p", "q", "r", "s"}, ForceDelete: allow, Protect: policy.Protection{All: true}, EvictionWithoutGrace: v1alpha1.GraceDeny, AllowedActors: []string{"b"}}},
		{name: "what is protected adds up in a level, and not between levels", policies: []*v1alpha1.PodPolicy{
			podPolicy("p", removes(v1alpha1.RemovalSection{Owners: []v1alpha1.ProtectedOwner{podSets, {Kind: "Node"}}})),
			podPolicy("q", removes(v1alpha1.RemovalSection{Owners: []v1alpha1.ProtectedOwner{{Group: "agones.dev", Kind: "GameServer"}, podSets}, BlockClaims: v1alpha1.BlockClaimsByAccessMode})),
			podPolicy("r", removes(v1alpha1.RemovalSection{ForceDelete: warn, BlockClaims: v1alpha1.BlockClaimsExclusive})),
			podPolicy("s", removes(v1alpha1.RemovalSection{ForceDelete: warn, Owners: []v1alpha1.ProtectedOwner{{Group: "batch", Kind: "Job"}}})),
		}, namespace: shop, want: policy.Removal{Names: []string{"p", "q"}, ForceDelete: deny, EvictionWithoutGrace: v1alpha1.GraceDeny,
			Protect: policy.Protection{Owners: []schema.GroupKind{{Group: "core.strimzi.io", Kind: "StrimziPodSet"}, {Kind: "Node"}, {Group: "agones.dev", Kind: "GameServer"}}},
			Laxer: &policy.Removal{Names: []string{"r", "s"}, ForceDelete: warn, EvictionWithoutGrace: v1alpha1.GraceDeny,
				Protect: policy.Protection{Owners: []schema.GroupKind{{Group: "batch", Kind: "Job"}}, BlockClaims: true}}}},
		{name: "the weight says nothing: limits of light policies hold", policies: []*v1alpha1.PodPolicy{
			podPolicy("p", weight(9), removes(lax)), podPolicy("q", weight(-9), removes(v1alpha1.RemovalSection{})),
		}, namespace: shop, want: policy.Removal{Names: []string{"q"}, ForceDelete: deny, EvictionWithoutGrace: v1alpha1.GraceDeny, Laxer: laxLevel}},
		{name: "of two without a common actor nobody is allowed", policies: []*v1alpha1.PodPolicy{
			podPolicy("p", with(func(r *v1alpha1.RemovalSection) { r.AllowedActors = []string{"a"} })), podPolicy("q", with(func(r *v1alpha1.RemovalSection) { r.AllowedActors = []string{"b"} })),
		}, namespace: shop, want: policy.Removal{Names: []string{"p", "q"}, ForceDelete: allow, EvictionWithoutGrace: raise}},
		{name: "an actor of one policy is not allowed by one that names none", policies: []*v1alpha1.PodPolicy{
			podPolicy("p", removes(lax)), podPolicy("q", with(func(r *v1alpha1.RemovalSection) { r.AllowedActors = nil })),
		}, namespace: shop, want: policy.Removal{Names: []string{"p", "q"}, ForceDelete: allow, EvictionWithoutGrace: raise}},
		{name: "another namespace's policy", policies: one(podPolicy("p", removes(lax), elsewhere)), namespace: shop},
		{name: "of two the one that matches", policies: []*v1alpha1.PodPolicy{podPolicy("p", removes(v1alpha1.RemovalSection{}), elsewhere), podPolicy("q", removes(lax), inNamespaces("team", "shop"))}, namespace: shop,
			want: policy.Removal{Names: []string{"q"}, ForceDelete: allow, EvictionWithoutGrace: raise, AllowedActors: []string{"a", "b", "c"}}},
		{name: "of an unknown namespace all hold", policies: []*v1alpha1.PodPolicy{podPolicy("q", removes(v1alpha1.RemovalSection{}), elsewhere), podPolicy("p", removes(lax))}, namespace: unknown,
			want: policy.Removal{Names: []string{"q"}, ForceDelete: deny, EvictionWithoutGrace: v1alpha1.GraceDeny, Laxer: laxLevel}},
		{name: "kube-system is never guarded", policies: one(podPolicy("p", removes(v1alpha1.RemovalSection{}))), namespace: policy.Namespace{Name: "kube-system"}},
		{name: "nor is it when its labels are unknown", policies: one(podPolicy("p", removes(v1alpha1.RemovalSection{}))), namespace: policy.Namespace{Name: "kube-system", Unknown: true}},
		{name: "nor Podgrace's own namespace", policies: one(podPolicy("p", removes(v1alpha1.RemovalSection{}))), namespace: policy.Namespace{Name: ownNamespace}},
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
	policies := compile(t, podPolicy("p", removes(v1alpha1.RemovalSection{})))
	for name, want := range map[string]int{"": 1, "shop": 1, ownNamespace: 1, "kube-system": 0} {
		if got := policies.Removal(policy.Namespace{Name: name}, ""); len(got.Names) != want {
			t.Errorf("namespace %q: %+v", name, got)
		}
	}
}

// Nodes and volume attachments are of no namespace: every policy counts, whatever it selects.
func TestRemovalOfAll(t *testing.T) {
	t.Parallel()
	policies := compile(t,
		podPolicy("p", removes(v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn, AllowedActors: []string{"a", "b"}, EvictionWithoutGrace: v1alpha1.GraceRaise}), inNamespaces("team", "till")),
		podPolicy("q", removes(v1alpha1.RemovalSection{Protect: v1alpha1.ProtectAll, AllowedActors: []string{"b", "c"}}), inNamespaces("team", "bank")),
		podPolicy("r", removes(v1alpha1.RemovalSection{AllowedActors: []string{"c", "d"}}), inNamespaces("team", "till")),
		podPolicy("s", gives("high")),
	)
	want := policy.Removal{Names: []string{"q", "r"}, ForceDelete: v1alpha1.RemovalDeny, Protect: policy.Protection{All: true}, EvictionWithoutGrace: v1alpha1.GraceDeny, AllowedActors: []string{"c"},
		Laxer: &policy.Removal{Names: []string{"p"}, ForceDelete: v1alpha1.RemovalWarn, EvictionWithoutGrace: v1alpha1.GraceRaise, AllowedActors: []string{"a", "b"}}}
	if diff := cmp.Diff(want, policies.RemovalOfAll()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(policy.Removal{}, compile(t, podPolicy("s", gives("high"))).RemovalOfAll()); diff != "" {
		t.Errorf("no section (-want +got):\n%s", diff)
	}
}

// Merging must not write into the policies, which all requests share.
func TestRemovalLeavesThePoliciesAlone(t *testing.T) {
	t.Parallel()
	first, second := podPolicy("p", removes(v1alpha1.RemovalSection{AllowedActors: []string{"a", "b"}})), podPolicy("q", removes(v1alpha1.RemovalSection{AllowedActors: []string{"b"}}))
	policies := compile(t, first, second)
	for range 2 {
		policies.Removal(shop, "")
		policies.RemovalOfAll()
		if diff := cmp.Diff([]string{"a", "b"}, first.Spec.Removal.AllowedActors); diff != "" {
			t.Fatal(diff)
		}
	}
}

func drawRemoval(t *rapid.T) *v1alpha1.PodPolicy {
	p := podPolicy(pick(t, "name", "a", "b", "c", "d", "e"), weight(rapid.Int32Range(-1, 1).Draw(t, "weight")))
	if rarely(t, "no section") {
		return p
	}
	removes(v1alpha1.RemovalSection{
		ForceDelete:          pick(t, "forceDelete", "", v1alpha1.RemovalDeny, v1alpha1.RemovalWarn, v1alpha1.RemovalWarn, v1alpha1.RemovalAllow),
		Protect:              pick(t, "protect", "", v1alpha1.ProtectStateful, v1alpha1.ProtectAll),
		EvictionWithoutGrace: pick(t, "eviction", "", v1alpha1.GraceDeny, v1alpha1.GraceRaise, v1alpha1.GraceRaise),
		AllowedActors:        rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3, rapid.ID).Draw(t, "actors"),
		Owners:               drawOwners(t),
		BlockClaims:          pick(t, "block claims", "", v1alpha1.BlockClaimsByAccessMode, v1alpha1.BlockClaimsExclusive),
	})(&p.Spec)
	if rarely(t, "selector") {
		inNamespaces("team", pick(t, "team", "shop", "till"))(&p.Spec)
	}
	return p
}

func drawOwners(t *rapid.T) []v1alpha1.ProtectedOwner {
	kinds := []v1alpha1.ProtectedOwner{podSets, {Group: "apps", Kind: "ReplicaSet"}, {Group: "batch", Kind: "Job"}}
	return rapid.SliceOfNDistinct(rapid.SampledFrom(kinds), 0, 2, rapid.ID).Draw(t, "owners")
}

func drawRemovals(t *rapid.T) []*v1alpha1.PodPolicy {
	return rapid.SliceOfNDistinct(rapid.Custom(drawRemoval), 0, 5, func(p *v1alpha1.PodPolicy) string { return p.Name }).Draw(t, "policies")
}

// drawAsked makes a removal by somebody who may be an allowed actor, and what is known but the policies.
func drawAsked(t *rapid.T) (guard.Request, guard.Facts) {
	own := pod(podOption(bound), pick(t, "owner", ofStatefulSet, ofReplicaSet, ofPodSet))
	own.UID, own.Status.Phase = "u", pick(t, "phase", corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodFailed)
	req := guard.Request{
		Road: pick(t, "road", guard.RoadDelete, guard.RoadEviction, guard.RoadStatus, guard.RoadNode, guard.RoadOutOfService, guard.RoadVolumeAttachment),
		Pod:  own, Phase: corev1.PodFailed, GracePeriodSeconds: pick(t, "grace", new(int64(0)), new(int64(0)), nil),
		VolumeAttachment: &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "node-1"}},
	}
	req.User.Username = pick(t, "user", "x", "x", "y", "jane")
	facts := guard.Facts{Now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), Node: guard.Node{Name: "node-1", State: guard.NodePresent, ConfirmedOff: rarely(t, "off")}}
	if rarely(t, "confirmed") {
		own.Annotations = map[string]string{guard.AnnotationConfirmForceDelete: "u/2026-11-20T12:00:00Z"}
	}
	facts.BoundKnown = !rarely(t, "bound unknown")
	return req, facts
}

// How a removal can end, from lax to strict.
const (
	isAllowed = iota
	isWarned
	isRaised
	isRefused
)

// outcome is what becomes of a removal under the policies: a node's pod is in the namespace till.
func outcome(policies policy.Policies, namespace policy.Namespace, req guard.Request, facts guard.Facts) int {
	switch facts.Policy = policies.Removal(namespace, ""); req.Road {
	case guard.RoadNode, guard.RoadOutOfService, guard.RoadVolumeAttachment:
		facts.Policy = policies.RemovalOfAll()
	}
	facts.Bound = map[v1alpha1.RemovalAction][]*corev1.Pod{}
	for _, action := range policies.Removal(till, "").ProtectedBy(req.Pod, nil) {
		facts.Bound[action] = append(facts.Bound[action], req.Pod)
	}
	d := guard.Decide(req, facts)
	switch {
	case d.Verdict == guard.Deny && d.Reason == guard.Unsafe && req.Road == guard.RoadEviction && facts.Policy.EvictionWithoutGrace == v1alpha1.GraceRaise:
		return isRaised
	case d.Verdict == guard.Deny:
		return isRefused
	case d.Verdict == guard.Warn:
		return isWarned
	}
	return isAllowed
}

// TestAddingAPolicyNeverLoosensRemoval, wherever it stands in the order; nor does not knowing the namespace. One that warns
// or allows refuses and raises nothing, and leaves what is refused and what is raised; one that allows changes nothing.
func TestAddingAPolicyNeverLoosensRemoval(t *testing.T) {
	t.Parallel()
	stricter := map[v1alpha1.RemovalAction]int{}
	rapid.Check(t, func(t *rapid.T) {
		policies, added := drawRemovals(t), drawRemoval(t)
		added.Name = "added-" + added.Name
		if chance(t, "first by name") {
			added.Name = "A"
		}
		before, after := compile(t, policies...), compile(t, append(slices.Clone(policies), added)...)
		req, facts := drawAsked(t)
		for what, namespace := range map[string]policy.Namespace{"known": shop, "unknown": unknown} {
			was, is := outcome(before, namespace, req, facts), outcome(after, namespace, req, facts)
			if is < was {
				t.Fatalf("%s namespace: laxer: %d, then %d", what, was, is)
			}
			if added.Spec.Removal == nil {
				continue
			}
			action := added.Spec.Removal.ForceDelete
			switch {
			case action == v1alpha1.RemovalWarn && is > max(was, isWarned), action == v1alpha1.RemovalAllow && is != was:
				t.Fatalf("%s namespace: forceDelete: %s made %d of %d", what, action, is, was)
			case is > was:
				stricter[action]++
			}
		}
		if was, is := outcome(before, shop, req, facts), outcome(before, unknown, req, facts); is < was {
			t.Fatalf("not to know the namespace is laxer: %d, then %d", was, is)
		}
	})
	if stricter[v1alpha1.RemovalDeny] < 20 || stricter[v1alpha1.RemovalWarn] < 20 { // some 100 and 140 as a rule
		t.Errorf("too few cases in which a policy made a difference: %v", stricter)
	}
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
			if r := p.Spec.Removal; r != nil && len(r.Owners) > 0 {
				r.Owners = rapid.Permutation(r.Owners).Draw(t, "owners in another order")
			}
			shuffled = append(shuffled, p)
		}
		a, b := compile(t, policies...), compile(t, shuffled...)
		sorted := cmp.Options{cmpopts.SortSlices(func(x, y string) bool { return x < y }), cmpopts.SortSlices(func(x, y schema.GroupKind) bool { return x.String() < y.String() })}
		if diff := cmp.Diff(a.Removal(shop, ""), b.Removal(shop, ""), sorted, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(a.RemovalOfAll(), b.RemovalOfAll(), sorted, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}
