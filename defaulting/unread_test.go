package defaulting_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
)

// What a person types wrong, as the API server stored it before the schema refused it.
var unreadable = map[string]policyOption{
	"operator of the namespaces": func(s *v1alpha1.PodPolicySpec) {
		match(s).NamespaceSelector = &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "team", Operator: "in", Values: []string{"shop"}}}}
	},
	"value of the namespaces": inNamespaces("team", "shop team"),
	"values of the namespaces": func(s *v1alpha1.PodPolicySpec) {
		match(s).NamespaceSelector = &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpIn}}}
	},
	"labels of the pods": forPods("app", "a b"),
	"match condition":    where("object.metadata."),
	"topology key":       spreads(soft("zone name")),
}

// halfRead compiles a policy of which a part can't be read.
func halfRead(t interface {
	Helper()
	Fatalf(string, ...any)
}, p *v1alpha1.PodPolicy) policy.Policies {
	t.Helper()
	c, err := policy.Compile(p)
	if err == nil || c == nil {
		t.Fatalf("got %v, %v: want an error, and what holds all the same", c, err)
	}
	return policy.Policies{c}
}

// TestUnreadPartsHinderNothingElse: each section holds by itself, and a removal section whose namespaces can't be read holds in all.
func TestUnreadPartsHinderNothingElse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		inForce string
		guards  []policy.Namespace
		gives   bool // its class, grace period and limit on that

	}{
		"operator of the namespaces": {inForce: "not in force, but for removal, which holds in every namespace until the selector can be read", guards: []policy.Namespace{shop, till}},
		"value of the namespaces":    {inForce: "not in force, but for removal, which holds in every namespace until the selector can be read", guards: []policy.Namespace{shop, till}},
		"values of the namespaces":   {inForce: "not in force, but for removal, which holds in every namespace until the selector can be read", guards: []policy.Namespace{shop, till}},
		"labels of the pods":         {inForce: "not in force, but for removal", guards: []policy.Namespace{shop}},
		"match condition":            {inForce: "not in force, but for removal", guards: []policy.Namespace{shop}},
		"topology key":               {inForce: "in force, but for topologySpread", guards: []policy.Namespace{shop}, gives: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := podPolicy("p", inNamespaces("team", "shop"), gives("high"), maxGrace(20), spreads(soft(zone)), removes(v1alpha1.RemovalSection{}), unreadable[name])
			policies := halfRead(t, p)
			if got := policies[0].InForce(); got != tt.inForce {
				t.Errorf("in force: %q, want %q", got, tt.inForce)
			}
			for _, ns := range []policy.Namespace{shop, till} {
				want := slices.ContainsFunc(tt.guards, func(n policy.Namespace) bool { return n.Name == ns.Name })
				if got := policies.Removal(ns, ownNamespace); len(got.Names) == 1 != want {
					t.Errorf("namespace %s is guarded by %v, want %v", ns.Name, got.Names, want)
				}
			}
			if got := policies.RemovalOfAll(); len(got.Names) != 1 {
				t.Error("nodes are not guarded")
			}
			s := scenario{pod: pod(ofReplicaSet), facts: facts(classes(high), ownerSelects("app", "web"))}
			r := defaulting.For(policies, s.request(), ownNamespace).Apply(s.request(), s.facts)
			if got := changed(r, "/spec/priorityClassName") && changed(r, "/spec/terminationGracePeriodSeconds"); got != tt.gives {
				t.Errorf("gives its class and holds its limit: %v, want %v: %v", got, tt.gives, r.Changes)
			}
			if changed(r, "/spec/topologySpreadConstraints") {
				t.Errorf("spreads by what can't be read: %v", r.Changes)
			}
			hasty := scenario{pod: pod(ofStatefulSet, grace(0)), facts: facts(classes(high))}
			if r := defaulting.For(policies, hasty.request(), ownNamespace).Apply(hasty.request(), hasty.facts); !changed(r, "/spec/terminationGracePeriodSeconds") {
				t.Errorf("a StatefulSet's pod keeps a grace period of 0: %v", r.Changes)
			}
		})
	}
	if got := halfRead(t, podPolicy("p", gives("high"), unreadable["match condition"]))[0].InForce(); got != "not in force" {
		t.Errorf("without removal: %q", got)
	}
}

func changed(r defaulting.Result, path string) bool {
	return slices.ContainsFunc(r.Changes, func(c defaulting.Change) bool { return strings.HasPrefix(c.Path, path) })
}

// TestAnUnreadPartNeverLoosensRemoval, whichever it is.
func TestAnUnreadPartNeverLoosensRemoval(t *testing.T) {
	t.Parallel()
	differ := 0
	rapid.Check(t, func(t *rapid.T) {
		policies := drawRemovals(t)
		if len(policies) == 0 {
			return
		}
		wrong := slices.Clone(policies)
		i := rapid.IntRange(0, len(policies)-1).Draw(t, "which")
		wrong[i] = policies[i].DeepCopy()
		unreadable[pick(t, "part", "operator of the namespaces", "value of the namespaces", "values of the namespaces", "labels of the pods", "match condition", "topology key")](&wrong[i].Spec)
		all := compile(t, slices.Delete(slices.Clone(wrong), i, i+1)...)
		after := policy.Sort(append(all, halfRead(t, wrong[i])...))
		before := compile(t, policies...)
		req, facts := drawAsked(t)
		for _, ns := range []policy.Namespace{shop, till, unknown} {
			was, is := outcome(before, ns, req, facts), outcome(after, ns, req, facts)
			if is < was {
				t.Fatalf("namespace %s: laxer: %d, then %d", ns.Name, was, is)
			}
			if is > was {
				differ++
			}
		}
	})
	if differ == 0 {
		t.Error("no case in which a policy that can't be read held where it did not before")
	}
}
