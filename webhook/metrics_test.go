package webhook_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
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
		policy("p", v1alpha1.PodPolicySpec{Priority: &v1alpha1.PrioritySection{AllowedClassNames: []string{"a"}}, GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(60))}}))
	registry := prometheus.NewRegistry()
	e.Metrics = webhook.NewMetrics(registry, e.Policies.(*webhook.PolicyStore))
	req := review(pods, `{"metadata":{},"spec":{"priorityClassName":"x","priority":0,"preemptionPolicy":"Never","terminationGracePeriodSeconds":5}}`)
	e.ValidatePods(t.Context(), req)
	dryRun(&req)
	e.ValidatePods(t.Context(), req)
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
	webhook.NewMetrics(registry, newEngine(t, cluster(), nil).Policies.(*webhook.PolicyStore))
	for _, tc := range []struct{ metric, label, folder, pattern string }{
		{"podgrace_pod_denials_total", "reason", "../defaulting", `\.deny\("(\w+)"`},
		{"podgrace_removals_total", "road", "../guard", `\bRoad\w+ +Road = "([\w-]+)"`},
	} {
		want := map[string]float64{}
		for _, name := range inSource(t, tc.folder, regexp.MustCompile(tc.pattern)) {
			want[name] = 0
		}
		if len(want) < 3 {
			t.Errorf("only %v are in %s: this test no longer sees them", want, tc.folder)
		}
		if diff := cmp.Diff(want, counted(t, registry, tc.metric, tc.label)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.metric, diff)
		}
	}
}

// inSource returns the names that a pattern captures in the sources of a package, without its tests.
func inSource(t *testing.T, folder string, pattern *regexp.Regexp) (found []string) {
	t.Helper()
	files, err := filepath.Glob(folder + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range pattern.FindAllStringSubmatch(string(source), -1) {
			found = append(found, match[1])
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
