package deploy_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policyfile"
)

// The first policy is one by the CustomResourceDefinition's own rules, and has nothing but a guard that warns, for namespaces that
// ask for it: every other section would change pods.
func TestFirstPolicyChangesNothing(t *testing.T) {
	policies, err := policyfile.Load("policies/first.yaml")
	if err != nil || len(policies) != 1 {
		t.Fatalf("got %d policies, %v", len(policies), err)
	}
	p := policies[0].Spec
	if p.Match == nil || p.Match.NamespaceSelector == nil || p.Match.NamespaceSelector.MatchLabels["podgrace.dev/guard"] != "warn" {
		t.Errorf("it selects %+v", p.Match)
	}
	if p.Priority != nil || p.TopologySpread != nil || p.GracePeriod != nil || p.Node != nil {
		t.Errorf("it changes pods: %+v", p)
	}
	if p.Removal == nil || p.Removal.ForceDelete != v1alpha1.RemovalWarn {
		t.Errorf("it refuses removals: %+v", p.Removal)
	}
}

func TestFirstNodePolicyObserves(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("policies", "first.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, o := range objects(t, text) {
		if o.GetKind() != "NodePolicy" {
			continue
		}
		found++
		if spec := as[v1alpha1.NodePolicy](t, o).Spec; spec.Mode != v1alpha1.NodeModeObserve || spec.Eviction != nil {
			t.Errorf("it does more than to observe: %+v", spec)
		}
	}
	if found != 1 {
		t.Errorf("%d NodePolicies", found)
	}
}
