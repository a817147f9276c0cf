package policy_test

import (
	"slices"
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// TestUnreadPartsHinderNothingElse: each section holds by itself, and a removal section whose namespaces can't be read holds in all.
func TestUnreadPartsHinderNothingElse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		inForce   string
		guards    []policy.Namespace
		matchable bool
		spreads   bool
	}{
		"operator of the namespaces": {inForce: "not in force, but for removal, which holds in every namespace until the selector can be read", guards: []policy.Namespace{Shop, Till}, spreads: true},
		"value of the namespaces":    {inForce: "not in force, but for removal, which holds in every namespace until the selector can be read", guards: []policy.Namespace{Shop, Till}, spreads: true},
		"values of the namespaces":   {inForce: "not in force, but for removal, which holds in every namespace until the selector can be read", guards: []policy.Namespace{Shop, Till}, spreads: true},
		"labels of the pods":         {inForce: "not in force, but for removal", guards: []policy.Namespace{Shop}, spreads: true},
		"match condition":            {inForce: "not in force, but for removal", guards: []policy.Namespace{Shop}, spreads: true},
		"topology key":               {inForce: "in force, but for topologySpread", guards: []policy.Namespace{Shop}, matchable: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policies := HalfRead(t, PodPolicy("p", InNamespaces("team", "shop"), Gives("high"), MaxGrace(20), Spreads(Soft(zone)), Removal(v1alpha1.RemovalSection{}), Unreadable[name]))
			p := policies[0]
			if got := p.InForce(); got != tt.inForce {
				t.Errorf("in force: %q, want %q", got, tt.inForce)
			}
			if p.Matchable() != tt.matchable || (p.Spread() != nil) != tt.spreads {
				t.Errorf("matchable %v, spreads by %v", p.Matchable(), p.Spread())
			}
			for _, ns := range []policy.Namespace{Shop, Till} {
				want := slices.ContainsFunc(tt.guards, func(n policy.Namespace) bool { return n.Name == ns.Name })
				if got := policies.Removal(ns, Exempt); len(got.Names) == 1 != want {
					t.Errorf("namespace %s is guarded by %v, want %v", ns.Name, got.Names, want)
				}
			}
			if got := policies.RemovalOfAll(); len(got.Names) != 1 {
				t.Error("nodes are not guarded")
			}
		})
	}
	if got := HalfRead(t, PodPolicy("p", Gives("high"), Unreadable["match condition"]))[0].InForce(); got != "not in force" {
		t.Errorf("without removal: %q", got)
	}
}
