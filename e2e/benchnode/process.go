package main

import (
	"context"

	"github.com/podgrace/podgrace/e2e/measure"
	"github.com/podgrace/podgrace/e2e/podgrace"
)

// look reads what the program has done and used so far.
func look(ctx context.Context, e *podgrace.Enforcer) (s steady, err error) {
	text, err := measure.Metrics(ctx, e.MetricsURL+"/metrics")
	if err != nil {
		return s, err
	}
	if s.cpu, err = measure.CPU(e.PID); err != nil {
		return s, err
	}
	if s.memory, err = measure.MemoryOf(e.PID); err != nil {
		return s, err
	}
	for series, into := range map[string]*float64{
		"podgrace_node_writes_total": &s.writes, "podgrace_node_round_failures_total": &s.failures, "podgrace_node_cgroups": &s.cgroups, "podgrace_node_drift_files": &s.drift,
		`podgrace_node_round_seconds_count{scope="full"}`: &s.full, `podgrace_node_round_seconds_count{scope="changed"}`: &s.partial, "go_memstats_heap_inuse_bytes": &s.heap,
	} {
		if *into, err = measure.Sum(text, series); err != nil {
			return s, err
		}
	}
	return s, nil
}
