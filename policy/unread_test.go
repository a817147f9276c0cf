package policy_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// noLimits is what a policy whose match can't be read says of the rest.
const noLimits = ": its defaults and limits on pods do not hold"

// TestUnreadPartsHinderNothingElse: each section holds by itself, and a removal section whose namespaces can't be read holds in all.
func TestUnreadPartsHinderNothingElse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		inForce   string
		guards    []policy.Namespace
		matchable bool
		spreads   bool
	}{
		"operator of the namespaces": {inForce: "not in force, but for removal, which holds in every namespace until the selector can be read" + noLimits, guards: []policy.Namespace{Shop, Till}, spreads: true},
		"value of the namespaces":    {inForce: "not in force, but for removal, which holds in every namespace until the selector can be read" + noLimits, guards: []policy.Namespace{Shop, Till}, spreads: true},
		"values of the namespaces":   {inForce: "not in force, but for removal, which holds in every namespace until the selector can be read" + noLimits, guards: []policy.Namespace{Shop, Till}, spreads: true},
		"labels of the pods":         {inForce: "not in force, but for removal" + noLimits, guards: []policy.Namespace{Shop}, spreads: true},
		"match condition":            {inForce: "not in force, but for removal" + noLimits, guards: []policy.Namespace{Shop}, spreads: true},
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
			got := policies.RemovalOfAll()
			if len(got.Names) != 1 {
				t.Error("nodes are not guarded")
			}
			if everywhere := len(got.Unread) == 1 && got.Unread[0] == "until spec.match.namespaceSelector of p can be read, it holds in every namespace"; everywhere != (len(tt.guards) == 2) {
				t.Errorf("why it is so strict: %q", got.Unread)
			}
		})
	}
	if got := HalfRead(t, PodPolicy("p", Gives("high"), Unreadable["match condition"]))[0].InForce(); got != "not in force"+noLimits {
		t.Errorf("without removal: %q", got)
	}
}

// unreadSentences are what a refusal says of these; no others are stricter.
var unreadSentences = map[string][]string{
	"of removal":              {"until spec.removal.roads of p can be read, it protects all pods and lets nobody through by name"},
	"all of removal":          {"until spec.removal of p can be read, it protects all pods and lets nobody through by name"},
	"of match and of removal": {"until spec.removal.roads of p can be read, it protects all pods and lets nobody through by name"},
	"of its namespaces":       {"until spec.match.namespaceSelector.names of p can be read, it holds in every namespace"},
}

// Of a policy with a field that was written and is not read, removal sections are as strict as their action can be, and a match that is not whole holds for no defaults and limits. What does
// not hold then is said.
func TestFieldsThatAreNotRead(t *testing.T) {
	t.Parallel()
	const strictly = ", and until that can be read its removal section protects all pods and lets nobody through by name, with action "
	warns := Removal(v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn, AllowedActors: []string{"repair"}, EvictionWithoutGrace: v1alpha1.GraceRaise})
	for name, tt := range map[string]struct {
		fields    string
		inForce   string
		matchable bool
		elsewhere bool                   // it guards namespaces that it does not select
		action    v1alpha1.RemovalAction // empty: no removal section
		strict    bool
		options   []PolicyOption
	}{
		"of no section":            {`"f:newSection":{}`, "in force, but for spec.newSection", true, false, v1alpha1.RemovalWarn, false, []PolicyOption{warns}},
		"of the grace period":      {`"f:gracePeriod":{"f:newLimit":{}}`, "in force, but for spec.gracePeriod.newLimit", true, false, v1alpha1.RemovalWarn, false, []PolicyOption{warns}},
		"of removal":               {`"f:removal":{"f:roads":{}}`, "in force, but for spec.removal.roads" + strictly + "Warn", true, false, v1alpha1.RemovalWarn, true, []PolicyOption{warns}},
		"all of removal":           {`"f:removal":{"f:forceDelete":{}}`, "in force, but for spec.removal" + strictly + "Deny", true, false, v1alpha1.RemovalDeny, true, nil},
		"of match":                 {`"f:match":{"f:nodes":{}}`, "not in force, but for removal" + noLimits, false, false, v1alpha1.RemovalWarn, false, []PolicyOption{warns}},
		"of match and of removal":  {`"f:match":{"f:nodes":{}},"f:removal":{"f:roads":{}}`, "not in force, but for removal" + noLimits + "; spec.match.nodes, spec.removal.roads: until that can be read its removal section protects all pods and lets nobody through by name, with action Warn", false, false, v1alpha1.RemovalWarn, true, []PolicyOption{warns}},
		"of match, and no removal": {`"f:match":{"f:nodes":{}}`, "not in force" + noLimits, false, false, "", false, nil},
		"of its namespaces":        {`"f:match":{"f:namespaceSelector":{"f:names":{}}}`, "not in force, but for removal, which holds in every namespace until the selector can be read" + noLimits, false, true, v1alpha1.RemovalWarn, false, []PolicyOption{warns}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := PodPolicy("p", append([]PolicyOption{InNamespaces("team", "shop"), MaxGrace(20)}, tt.options...)...)
			stored.ManagedFields = []metav1.ManagedFieldsEntry{{APIVersion: v1alpha1.GroupVersion.String(), FieldsV1: metav1.NewFieldsV1(`{"f:spec":{` + tt.fields + `}}`)}}
			before := stored.DeepCopy()
			policies := HalfRead(t, stored)
			if p := policies[0]; p.InForce() != tt.inForce || p.Matchable() != tt.matchable {
				t.Errorf("in force: %q, matchable: %v", p.InForce(), p.Matchable())
			}
			if policy.HasRemoval(stored) != (tt.action != "") {
				t.Error("whether it has a removal section")
			}
			got := policies.Removal(Shop, Exempt)
			if diff := cmp.Diff(unreadSentences[name], got.Unread); diff != "" {
				t.Errorf("why it is so strict: %s", diff)
			}
			strict := got.Protect.All && got.Protect.BlockClaims && len(got.AllowedActors) == 0 && got.EvictionWithoutGrace == v1alpha1.GraceDeny
			if got.ForceDelete != tt.action || strict != tt.strict {
				t.Errorf("removals are judged by %+v", got)
			}
			if elsewhere := len(policies.Removal(Till, Exempt).Names) > 0; elsewhere != tt.elsewhere {
				t.Errorf("it guards another namespace: %v", elsewhere)
			}
			if !equality.Semantic.DeepEqual(before, stored) {
				t.Error("the object that it was read from was changed")
			}
		})
	}
}
