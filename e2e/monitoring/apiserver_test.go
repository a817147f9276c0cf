package monitoring

import (
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/metrics"
	policymetrics "k8s.io/apiserver/pkg/admission/plugin/policy/validating/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// What docs/metrics.md says of the API server's own metrics is what the API server registers.
func TestMetricsOfTheAPIServer(t *testing.T) {
	metrics.Metrics.ObserveWebhook(t.Context(), "x", 0, false, admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", schema.GroupVersionResource{}, "", admission.Create, nil, false, nil), "validating", 200)
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
		if f.GetType() == dto.MetricType_HISTOGRAM {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				told[f.GetName()+part] = append(told[f.GetName()], "le")
			}
		}
	}
	looked := 0
	for name, m := range documented(t) {
		if !strings.HasPrefix(name, "apiserver_") {
			continue
		}
		looked++
		for _, l := range m.labels {
			if !strings.Contains(" "+strings.Join(told[name], " ")+" ", " "+l+" ") {
				t.Errorf("%s has the labels %v, not %s", name, told[name], l)
			}
		}
	}
	if looked == 0 {
		t.Error("docs/metrics.md names none")
	}
}
