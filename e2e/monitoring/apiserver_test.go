package monitoring

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/admission/metrics"
	policymetrics "k8s.io/apiserver/pkg/admission/plugin/policy/validating/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// What docs/metrics.md says of the API server's own metrics is what the API server registers.
func TestMetricsOfTheAPIServer(t *testing.T) {
	metrics.Metrics.ObserveWebhookFailOpen(t.Context(), "x", "admit")
	metrics.Metrics.ObserveWebhookRejection(t.Context(), "x", "validating", "DELETE", metrics.WebhookRejectionCallingWebhookError, 0)
	policymetrics.Metrics.ObserveRejection(t.Context(), 0, "x", "y", policymetrics.ValidationNoError)
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	told := map[string][]string{}
	for _, f := range families {
		for _, l := range f.GetMetric()[0].GetLabel() {
			told[f.GetName()] = append(told[f.GetName()], l.GetName())
		}
	}
	looked := 0
	for name, labels := range documented(t) {
		if !strings.HasPrefix(name, "apiserver_") {
			continue
		}
		looked++
		for _, l := range labels {
			if !strings.Contains(" "+strings.Join(told[name], " ")+" ", " "+l+" ") {
				t.Errorf("%s has the labels %v, not %s", name, told[name], l)
			}
		}
	}
	if looked == 0 {
		t.Error("docs/metrics.md names none")
	}
}
