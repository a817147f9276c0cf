package status

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/repair"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
	"github.com/podgrace/podgrace/policy/enforcement"
)

func TestMetricsOfRounds(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := NewMetrics(registry)
	tree := &plan.Tree{Groups: []plan.Group{{Level: plan.LevelKubepods}, {Level: plan.LevelPod}, {Level: plan.LevelPod}}}
	m.ObserveRound(repair.Round{
		Tree: tree, Full: true, Took: time.Second, Reverts: make([]drift.Revert, 2),
		Written:   []drift.Operation{{File: "cpu.weight", Owner: plan.Kubelet}, {File: "cpu.weight", Owner: plan.Kubelet}},
		Diff:      drift.Difference{Drift: []drift.Drift{{Owner: plan.Kubelet}, {Owner: plan.Kubelet, Why: drift.WhyUsage}}},
		Processes: drift.ProcessDifference{Drift: []drift.Drift{{Owner: plan.Runtime, Why: drift.WhyRival}}},
	}, errors.New("trouble"))
	m.ObserveRound(repair.Round{Tree: tree, Written: []drift.Operation{{File: "io.weight", Owner: plan.Nobody}}}, nil) // a partial one does not see all drift
	want := []string{
		`podgrace_node_cgroups level="container" 0`,
		`podgrace_node_cgroups level="kubepods" 1`,
		`podgrace_node_cgroups level="pod" 2`,
		`podgrace_node_cgroups level="qos" 0`,
		`podgrace_node_cgroups level="reserved" 0`,
		`podgrace_node_drift_files owner="kubelet" reason="" 1`,
		`podgrace_node_drift_files owner="kubelet" reason="BelowUsage" 1`,
		`podgrace_node_drift_files owner="runtime" reason="Rival" 1`,
		`podgrace_node_given_up_files_total 2`,
		`podgrace_node_refused reason="KubeletTooOld" 0`,
		`podgrace_node_refused reason="KubeletUnknown" 0`,
		`podgrace_node_round_failures_total 1`,
		`podgrace_node_round_seconds scope="changed" 1`,
		`podgrace_node_round_seconds scope="full" 1`,
		`podgrace_node_writes_total file="cpu.weight" owner="kubelet" 2`,
		`podgrace_node_writes_total file="io.weight" owner="nobody" 1`,
	}
	got := slices.DeleteFunc(statetest.Gathered(t, registry), func(l string) bool { return strings.HasPrefix(l, "podgrace_node_eviction_steps_total") })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m.ObserveRound(repair.Round{Tree: &plan.Tree{}, Full: true}, nil)
	if lines := statetest.Gathered(t, registry); slices.ContainsFunc(lines, func(l string) bool { return len(l) > 23 && l[:23] == "podgrace_node_drift_fil" }) {
		t.Errorf("drift that is no more is still told: %v", lines)
	}
	var nobody *Metrics
	nobody.ObserveRound(repair.Round{}, nil)
}

// An enforcer that never compares anything, because it does not know its pods, tells that it compared nothing.
func TestMetricsBeforeTheFirstRound(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	NewMetrics(registry)
	lines := statetest.Gathered(t, registry)
	for _, want := range []string{`podgrace_node_round_seconds scope="changed" 0`, `podgrace_node_round_seconds scope="full" 0`} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is not among %v", want, lines)
		}
	}
}

// The first step of each kind that an alert counts is an increase: its series was there before.
func TestStepsOfAlertsAreThereFromTheStart(t *testing.T) {
	rules, err := os.ReadFile("../../deploy/monitoring/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, named := range regexp.MustCompile(`podgrace_node_eviction_steps_total\{step=~?"([A-Za-z|]+)"`).FindAllSubmatch(rules, -1) {
		for step := range strings.SplitSeq(string(named[1]), "|") {
			for _, kind := range []string{"Hard", "Soft"} {
				want = append(want, fmt.Sprintf(`podgrace_node_eviction_steps_total kind=%q step=%q 0`, kind, step))
			}
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	registry := prometheus.NewPedanticRegistry()
	NewMetrics(registry)
	got := slices.DeleteFunc(statetest.Gathered(t, registry), func(l string) bool { return !strings.HasPrefix(l, "podgrace_node_eviction_steps_total") })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(want) < 4 {
		t.Errorf("only %v are in the rules: this test no longer sees them", want)
	}
}

// A signal of which no threshold is any more is not told any more; one that can't be measured is told as such.
func TestMetricsOfSignals(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := NewMetrics(registry)
	memory, inodes, pids := v1alpha1.SignalMemoryAvailable, v1alpha1.SignalImageFsInodesFree, v1alpha1.SignalPIDAvailable
	short := map[corev1.NodeConditionType]bool{corev1.NodeMemoryPressure: true, corev1.NodePIDPressure: false}
	all := pressure.Thresholds{List: []pressure.Threshold{{Signal: memory, Kind: eviction.Hard}, {Signal: inodes}, {Signal: pids}, {Signal: pids}}}
	stall := pressure.Thresholds{List: all.List[2:], Stall: &pressure.Stall{}}
	for _, step := range []struct {
		thresholds pressure.Thresholds
		signals    pressure.Signals
		verdict    pressure.Verdict
		want       []string
	}{
		{
			all, pressure.Signals{memory: {Available: 5}, inodes: {Available: 6}, pids: {Available: 7}}, pressure.Verdict{Conditions: short},
			[]string{`podgrace_node_eviction_signal_available_bytes signal="memory.available" 5`, `podgrace_node_eviction_signal_available_inodes signal="imagefs.inodesFree" 6`, `podgrace_node_eviction_signal_available_processes signal="pid.available" 7`, `podgrace_node_eviction_signal_known signal="imagefs.inodesFree" 1`, `podgrace_node_eviction_signal_known signal="memory.available" 1`, `podgrace_node_eviction_signal_known signal="pid.available" 1`, `podgrace_node_pressure resource="memory" 1`, `podgrace_node_pressure resource="pid" 0`},
		},
		{
			all, pressure.Signals{pids: {Available: 8}}, pressure.Verdict{Conditions: short, Unknown: []v1alpha1.EvictionSignal{memory, inodes}},
			[]string{`podgrace_node_eviction_signal_available_processes signal="pid.available" 8`, `podgrace_node_eviction_signal_known signal="imagefs.inodesFree" 0`, `podgrace_node_eviction_signal_known signal="memory.available" 0`, `podgrace_node_eviction_signal_known signal="pid.available" 1`, `podgrace_node_pressure resource="memory" 1`, `podgrace_node_pressure resource="pid" 0`},
		},
		{ // memory and inodes have no threshold any more, and the kernel has no PSI
			stall, pressure.Signals{pids: {Available: 8}}, pressure.Verdict{Unknown: []v1alpha1.EvictionSignal{v1alpha1.SignalMemoryStall}},
			[]string{`podgrace_node_eviction_signal_available_processes signal="pid.available" 8`, `podgrace_node_eviction_signal_known signal="memory.stall" 0`, `podgrace_node_eviction_signal_known signal="pid.available" 1`},
		},
		{stall, nil, pressure.Verdict{}, []string{`podgrace_node_eviction_signal_known signal="memory.stall" 1`, `podgrace_node_eviction_signal_known signal="pid.available" 1`}},
		{pressure.Thresholds{}, nil, pressure.Verdict{}, nil}, // a policy without thresholds
	} {
		m.ObserveSignals(step.thresholds, step.signals, step.verdict)
		got := slices.DeleteFunc(statetest.Gathered(t, registry), func(l string) bool {
			return !strings.HasPrefix(l, "podgrace_node_eviction_signal_") && !strings.HasPrefix(l, "podgrace_node_pressure")
		})
		if diff := cmp.Diff(step.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// A threshold that is a share is told in the signal's unit, of the node's capacity; with the threshold, or while nothing is measured, its series ends.
func TestMetricsOfThresholds(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := NewMetrics(registry)
	memory, pids := v1alpha1.SignalMemoryAvailable, v1alpha1.SignalPIDAvailable
	all := pressure.Thresholds{List: []pressure.Threshold{
		{Signal: memory, Kind: eviction.Hard, Value: enforcement.Amount{Quantity: 3}},
		{Signal: memory, Kind: eviction.Soft, Value: enforcement.Amount{Percentage: 0.25}},
		{Signal: pids, Kind: eviction.Hard, Value: enforcement.Amount{Percentage: 0.5}},
	}}
	for _, step := range []struct {
		thresholds pressure.Thresholds
		signals    pressure.Signals
		want       []string
	}{
		{all, pressure.Signals{memory: {Available: 5, Capacity: 16}, pids: {Available: 7, Capacity: 10}}, []string{
			`podgrace_node_eviction_threshold_bytes kind="Hard" signal="memory.available" 3`,
			`podgrace_node_eviction_threshold_bytes kind="Soft" signal="memory.available" 4`,
			`podgrace_node_eviction_threshold_processes kind="Hard" signal="pid.available" 5`,
		}},
		{all, pressure.Signals{pids: {Available: 7, Capacity: 20}}, []string{`podgrace_node_eviction_threshold_processes kind="Hard" signal="pid.available" 10`}},
		{pressure.Thresholds{List: all.List[1:2]}, pressure.Signals{memory: {Capacity: 8}}, []string{`podgrace_node_eviction_threshold_bytes kind="Soft" signal="memory.available" 2`}},
		{pressure.Thresholds{}, nil, nil},
	} {
		m.ObserveSignals(step.thresholds, step.signals, pressure.Verdict{})
		got := slices.DeleteFunc(statetest.Gathered(t, registry), func(l string) bool { return !strings.HasPrefix(l, "podgrace_node_eviction_threshold_") })
		if diff := cmp.Diff(step.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
