package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// A counter is the kernel's, also where the enforcer started later, and never goes back; what is not counted has no series.
func TestObserveStatistics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := &Metrics{counters: newCounters(registry)}
	memory := func(usage, killed int64) *cgroup.MemoryStatistics {
		return &cgroup.MemoryStatistics{Memory: cgroup.Memory{Usage: usage, InactiveFile: 1}, Events: cgroup.MemoryEvents{OOMKills: killed}}
	}
	for _, counted := range []map[string]cgroup.Statistics{
		{"kubepods": {Memory: memory(11, 5), CPU: &cgroup.CPUStatistics{Usage: 2 * time.Second}}, "besteffort": {Memory: memory(3, 0)}},
		{"kubepods": {Memory: memory(21, 7), CPU: &cgroup.CPUStatistics{Usage: 3 * time.Second}, PIDs: &cgroup.PIDStatistics{Current: 4}, MemoryPressure: &cgroup.Pressure{Some: cgroup.Stall{Total: time.Second}}, IO: &cgroup.IOStatistics{WriteBytes: 9}}},
		{"kubepods": {Memory: memory(31, 1), CPU: &cgroup.CPUStatistics{Usage: time.Second}, PIDs: &cgroup.PIDStatistics{Current: 5}}},
	} {
		m.ObserveStatistics(counted)
	}
	(*Metrics)(nil).ObserveStatistics(nil)
	var got []string
	for _, line := range statetest.Gathered(t, registry) {
		if line[len(line)-2:] != " 0" {
			got = append(got, line)
		}
	}
	want := []string{
		`podgrace_node_cpu_seconds_total cgroup="kubepods" 4`,
		`podgrace_node_io_bytes_total cgroup="kubepods" operation="write" 9`,
		`podgrace_node_memory_events_total cgroup="kubepods" event="oom_kill" 8`,
		`podgrace_node_memory_working_set_bytes cgroup="kubepods" 30`,
		`podgrace_node_processes cgroup="kubepods" 5`,
		`podgrace_node_stall_seconds_total cgroup="kubepods" kind="some" resource="memory" 1`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
