package nodeenforcer

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// gathered are the metrics of a round, as name{labels} value; of a histogram the number of observations.
func gathered(t *testing.T, registry *prometheus.Registry) (lines []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			line := f.GetName()
			for _, l := range m.GetLabel() {
				line += fmt.Sprintf(" %s=%q", l.GetName(), l.GetValue())
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			lines = append(lines, fmt.Sprint(line, " ", value))
		}
	}
	slices.Sort(lines)
	return lines
}

func TestMetricsOfRounds(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := NewMetrics(registry)
	tree := &plan.Tree{Groups: []plan.Group{{Level: plan.LevelKubepods}, {Level: plan.LevelPod}, {Level: plan.LevelPod}}}
	m.round(Round{
		Tree: tree, Full: true, Took: time.Second, Reverts: make([]plan.Revert, 2),
		Written:   []plan.Operation{{File: "cpu.weight", Owner: plan.Kubelet}, {File: "cpu.weight", Owner: plan.Kubelet}},
		Diff:      plan.Difference{Drift: []plan.Drift{{Owner: plan.Kubelet}, {Owner: plan.Kubelet, Why: plan.WhyUsage}}},
		Processes: plan.ProcessDifference{Drift: []plan.Drift{{Owner: plan.Runtime, Why: plan.WhyRival}}},
	}, errors.New("trouble"))
	m.round(Round{Tree: tree, Written: []plan.Operation{{File: "io.weight", Owner: plan.Nobody}}}, nil) // a partial one does not see all drift
	want := []string{
		`podgrace_node_cgroups level="container" 0`,
		`podgrace_node_cgroups level="kubepods" 1`,
		`podgrace_node_cgroups level="pod" 2`,
		`podgrace_node_cgroups level="qos" 0`,
		`podgrace_node_drift_files owner="kubelet" reason="" 1`,
		`podgrace_node_drift_files owner="kubelet" reason="BelowUsage" 1`,
		`podgrace_node_drift_files owner="runtime" reason="Rival" 1`,
		`podgrace_node_given_up_files_total 2`,
		`podgrace_node_round_failures_total 1`,
		`podgrace_node_round_seconds scope="changed" 1`,
		`podgrace_node_round_seconds scope="full" 1`,
		`podgrace_node_writes_total file="cpu.weight" owner="kubelet" 2`,
		`podgrace_node_writes_total file="io.weight" owner="nobody" 1`,
	}
	if diff := cmp.Diff(want, gathered(t, registry)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m.round(Round{Tree: &plan.Tree{}, Full: true}, nil)
	if lines := gathered(t, registry); slices.ContainsFunc(lines, func(l string) bool { return len(l) > 23 && l[:23] == "podgrace_node_drift_fil" }) {
		t.Errorf("drift that is no more is still told: %v", lines)
	}
	var nobody *Metrics
	nobody.round(Round{}, nil)
}
