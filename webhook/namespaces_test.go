package webhook_test

import (
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/webhook"
)

const perNamespace = "podgrace_namespace_decisions_total"

// Who was refused or warned is counted by namespace and policy, for as many namespaces as are allowed, and for one that exists; the others are
// counted together. What is gone, namespace or policy, goes away, and makes room.
func TestCountedByNamespace(t *testing.T) {
	store, err := webhook.NewPolicyStore(logr.Discard(), guarding())
	if err != nil {
		t.Fatal(err)
	}
	informers := &informertest.FakeInformers{Scheme: webhook.NewScheme()}
	if _, err := store.Watch(t.Context(), informers); err != nil {
		t.Fatal(err)
	}
	informer, err := informers.FakeInformerFor(t.Context(), &v1alpha1.PodPolicy{})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{"shop": true, "web": true, "late": true}
	registry := prometheus.NewRegistry()
	e := guardedEngine(t, silentCluster(dbPod()))
	e.Metrics = webhook.NewMetrics(registry, store, webhook.Namespaces{Most: 2, Exist: func(name string) bool { return there[name] }})
	refuse := func(namespace string, changes ...requestChange) {
		t.Helper()
		changes = append(changes, func(r *admission.Request) { r.Namespace = namespace })
		webhook.Handler(e.ValidateRemoval).Handle(t.Context(), forceDelete(dbPod(), changes...))
	}
	series := func(when string, want map[string]float64) {
		t.Helper()
		got := counted(t, registry, perNamespace, "namespace")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	refuse("unknown") // a request may be of a namespace that the informer does not have yet, or no more
	refuse("shop")
	refuse("shop", dryRun)
	refuse("web")
	refuse("late")
	refuse("shop")
	webhook.Handler(e.ValidateRemoval).Handle(t.Context(), removal("DELETE", "nodes", "", "n1", old(silentNode())))
	series("at the bound", map[string]float64{"shop": 2, "web": 1, webhook.OtherNamespaces: 2, "": 1})

	delete(there, "web")
	refuse("late")
	series("deleted after the last scrape", map[string]float64{"shop": 2, webhook.OtherNamespaces: 3, "": 1})
	refuse("late")
	series("there is room", map[string]float64{"shop": 2, "late": 1, webhook.OtherNamespaces: 3, "": 1})

	want := map[string]float64{"guarded": 7}
	if diff := cmp.Diff(want, counted(t, registry, perNamespace, "policy")); diff != "" {
		t.Errorf("by policy (-want +got):\n%s", diff)
	}
	informer.Delete(guarding())
	series("the policy is deleted", map[string]float64{})
}

// However many namespaces a tenant makes, with a refusal in each, there are so many series, and the same whoever came later.
func TestNamespacesAreBounded(t *testing.T) {
	registry := prometheus.NewRegistry()
	e := newEngine(t, cluster(), nil, podPolicy("p", v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(60))}}))
	e.Metrics = webhook.NewMetrics(registry, e.Policies.(*webhook.PolicyStore), webhook.Namespaces{Most: 10})
	for i := range 1000 {
		req := review(pods, plainPod)
		req.Namespace = fmt.Sprint("hostile-", i)
		webhook.Handler(e.ValidatePods).Handle(t.Context(), req)
	}
	got := counted(t, registry, perNamespace, "namespace")
	if len(got) != 11 || got[webhook.OtherNamespaces] != 990*2 && got[webhook.OtherNamespaces] != 990 || got["hostile-9"] == 0 {
		t.Errorf("got %v", got)
	}
	off := prometheus.NewRegistry()
	e.Metrics = webhook.NewMetrics(off, e.Policies.(*webhook.PolicyStore), webhook.Namespaces{})
	webhook.Handler(e.ValidatePods).Handle(t.Context(), review(pods, plainPod))
	for namespace := range counted(t, off, perNamespace, "namespace") {
		if namespace != webhook.OtherNamespaces {
			t.Errorf("with a bound of 0 %q has series", namespace)
		}
	}
}
