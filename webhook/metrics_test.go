package webhook_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/webhook"
)

// counted are the series of a counter, by the value of one of its labels.
func counted(t *testing.T, registry *prometheus.Registry, name, label string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetName() == label {
					counts[l.GetValue()] += m.GetCounter().GetValue()
				}
			}
		}
	}
	return counts
}

// A pod that is refused for two reasons counts once under each, and not in a dry run.
func TestDenialsAreCountedByReason(t *testing.T) {
	e := newEngine(t, cluster(namespace("shop"), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "x"}}), nil,
		podPolicy("p", v1alpha1.PodPolicySpec{Priority: &v1alpha1.PrioritySection{AllowedClassNames: []string{"a"}}, GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(60))}}))
	registry := prometheus.NewRegistry()
	e.Metrics = webhook.NewMetrics(registry, e.Policies.(*webhook.PolicyStore), webhook.Namespaces{Most: 100})
	req := review(pods, `{"metadata":{},"spec":{"priorityClassName":"x","priority":0,"preemptionPolicy":"Never","terminationGracePeriodSeconds":5}}`)
	webhook.Handler(e.ValidatePods).Handle(t.Context(), req)
	dryRun(&req)
	webhook.Handler(e.ValidatePods).Handle(t.Context(), req)
	counts := counted(t, registry, "podgrace_pod_denials_total", "reason")
	for reason, n := range counts {
		if n == 0 {
			delete(counts, reason)
		}
	}
	if diff := cmp.Diff(map[string]float64{"PriorityClassNotAllowed": 1, "GracePeriodOutOfBounds": 1}, counts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The first refusal of whatever reason, on whatever road, is an increase: its series was there before.
func TestSeriesOfAlertsAreThereFromTheStart(t *testing.T) {
	registry := prometheus.NewRegistry()
	webhook.NewMetrics(registry, newEngine(t, cluster(), nil).Policies.(*webhook.PolicyStore), webhook.Namespaces{Most: 100})
	reasons, roads := map[string]float64{}, map[string]float64{}
	for _, r := range defaulting.Refusals() {
		reasons[r.Code] = 0
	}
	for _, r := range guard.Roads() {
		roads[string(r)] = 0
	}
	if diff := cmp.Diff(reasons, counted(t, registry, "podgrace_pod_denials_total", "reason")); diff != "" || len(reasons) < 3 {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(roads, counted(t, registry, "podgrace_removals_total", "road")); diff != "" || len(roads) < 3 {
		t.Errorf("roads (-want +got):\n%s", diff)
	}
}
