package defaulting_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// TestUnreadPartsHinderNothingElse: what a pod gets of a policy of which a part can't be read.
func TestUnreadPartsHinderNothingElse(t *testing.T) {
	t.Parallel()
	for name, part := range Unreadable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gives := name == "topology key" // its class, grace period and limit on that
			policies := HalfRead(t, PodPolicy("p", InNamespaces("team", "shop"), Gives("high"), MaxGrace(20), Spreads(Soft(zone)), Removal(v1alpha1.RemovalSection{}), part))
			s := scenario{pod: Pod(OfReplicaSet), facts: facts(classes(high), ownerSelects("app", "web"))}
			r := defaulting.For(policies, s.request(), Exempt).Apply(s.request(), s.facts)
			if got := changed(r, "/spec/priorityClassName") && changed(r, "/spec/terminationGracePeriodSeconds"); got != gives {
				t.Errorf("gives its class and holds its limit: %v, want %v: %v", got, gives, r.Changes)
			}
			if changed(r, "/spec/topologySpreadConstraints") {
				t.Errorf("spreads by what can't be read: %v", r.Changes)
			}
			hasty := scenario{pod: Pod(OfStatefulSet, Grace(0)), facts: facts(classes(high))}
			if r := defaulting.For(policies, hasty.request(), Exempt).Apply(hasty.request(), hasty.facts); !changed(r, "/spec/terminationGracePeriodSeconds") {
				t.Errorf("a StatefulSet's pod keeps a grace period of 0: %v", r.Changes)
			}
		})
	}
}

func changed(r defaulting.Result, path string) bool {
	return slices.ContainsFunc(r.Changes, func(c defaulting.Change) bool { return strings.HasPrefix(c.Path, path) })
}
