package webhook_test

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/webhook"
)

func namesOf(store *webhook.PolicyStore) []string {
	names := []string{}
	for _, p := range store.Policies() {
		names = append(names, p.Name)
	}
	return names
}

// The store follows what the informer tells: an edit takes effect, one that does not compile takes the policy out of
// force, a deletion (a missed one, too) removes it. The order is that of the weights.
func TestPolicyStoreFollowsTheInformer(t *testing.T) {
	informers := &informertest.FakeInformers{Scheme: webhook.NewScheme()}
	store, err := webhook.NewPolicyStore(logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Watch(t.Context(), informers); err != nil {
		t.Fatal(err)
	}
	informer, err := informers.FakeInformerFor(t.Context(), &v1alpha1.PodPolicy{})
	if err != nil {
		t.Fatal(err)
	}
	light, heavy := podPolicy("light", v1alpha1.PodPolicySpec{Weight: 1}), podPolicy("heavy", v1alpha1.PodPolicySpec{Weight: 2})
	check := func(step string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, namesOf(store), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", step, diff)
		}
	}
	informer.Add(light)
	informer.Add(heavy)
	check("added", "heavy", "light")
	lighter := heavy.DeepCopy()
	lighter.Spec.Weight, lighter.Generation = 0, 2
	informer.Update(heavy, lighter)
	check("edited", "light", "heavy")

	registry := prometheus.NewRegistry()
	webhook.NewMetrics(registry, store, webhook.Namespaces{Most: 100})
	const metric = `
# HELP podgrace_pod_policy_in_force_generation Generation of each PodPolicy that this replica decides by; one from a file has 0.
# TYPE podgrace_pod_policy_in_force_generation gauge
podgrace_pod_policy_in_force_generation{policy="heavy"} 2
podgrace_pod_policy_in_force_generation{policy="light"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(metric), "podgrace_pod_policy_in_force_generation"); err != nil {
		t.Error(err)
	}

	broken := lighter.DeepCopy()
	broken.Spec.Match = &v1alpha1.PodMatch{PodSelector: &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}}
	informer.Update(lighter, broken)
	check("broken: what can be read of it holds", "light", "heavy")
	const outOfForce = `
# HELP podgrace_pod_policy_out_of_force 1 for each PodPolicy of which a part is not in force, because this replica can't read it.
# TYPE podgrace_pod_policy_out_of_force gauge
podgrace_pod_policy_out_of_force{policy="heavy"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(outOfForce), "podgrace_pod_policy_out_of_force"); err != nil {
		t.Error(err)
	}
	informer.Update(broken, lighter)
	check("mended", "light", "heavy")
	if still := store.OutOfForce(); len(still) > 0 {
		t.Errorf("mended, and out of force: %v", still)
	}
	informer.Update(lighter, broken)
	informer.Delete(broken)
	if still := store.OutOfForce(); len(still) > 0 {
		t.Errorf("deleted, and out of force: %v", still)
	}
	informer.Delete(light)
	check("deleted")
}
