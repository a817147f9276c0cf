package status

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// counters are what the kernel counts of all pods and of the QoS classes, as metrics. Of pods and containers the kubelet's own metrics tell.
type counters struct {
	workingSet, processes      *prometheus.GaugeVec
	events, stalls, cpu, bytes *prometheus.CounterVec
	gauges                     [2]map[string]float64 // the series as last set, by label
	last                       map[[3]string]float64 // the kernel's counters, by metric and labels
}

func newCounters(registry prometheus.Registerer) *counters {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"cgroup"})
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"cgroup"}, labels...))
	}
	c := &counters{
		workingSet: gauge("podgrace_node_memory_working_set_bytes", "Memory in use without inactive page cache, by cgroup (kubepods, burstable, besteffort)."),
		processes:  gauge("podgrace_node_processes", "Processes and threads, by cgroup."),
		events:     counter("podgrace_node_memory_events_total", "What the kernel counts of memory, by cgroup and event: low (reclaimed although protected), high (throttled at memory.high), max (at the limit), oom, oom_kill (processes killed). With cgroup v1 max and oom_kill.", "event"),
		stalls:     counter("podgrace_node_stall_seconds_total", "Time that tasks waited for a resource (PSI), by cgroup, resource (cpu, io, memory) and kind (some, full). With cgroup v2.", "resource", "kind"),
		cpu:        counter("podgrace_node_cpu_seconds_total", "CPU time used, by cgroup."),
		bytes:      counter("podgrace_node_io_bytes_total", "Bytes read from and written to block devices, by cgroup and operation (read, write).", "operation"),
		last:       map[[3]string]float64{},
	}
	registry.MustRegister(c.workingSet, c.processes, c.events, c.stalls, c.cpu, c.bytes)
	return c
}

// ObserveStatistics records what the kernel counted, by the label of the cgroup.
func (m *Metrics) ObserveStatistics(counted map[string]cgroup.Statistics) {
	if m == nil {
		return
	}
	c := m.counters
	workingSet, processes := map[string]float64{}, map[string]float64{}
	for at, s := range counted {
		if s.Memory != nil {
			workingSet[at] = float64(s.Memory.WorkingSet())
			c.memory(at, s.Memory.Events)
		}
		if s.PIDs != nil {
			processes[at] = float64(s.PIDs.Current)
		}
		if s.CPU != nil {
			c.add(c.cpu, "cpu", s.CPU.Usage.Seconds(), at)
		}
		if s.IO != nil {
			c.add(c.bytes, "io", float64(s.IO.ReadBytes), at, "read")
			c.add(c.bytes, "io", float64(s.IO.WriteBytes), at, "write")
		}
		c.stall(at, "cpu", s.CPUPressure)
		c.stall(at, "memory", s.MemoryPressure)
		c.stall(at, "io", s.IOPressure)
	}
	c.gauges = [2]map[string]float64{tell(c.workingSet, c.gauges[0], workingSet), tell(c.processes, c.gauges[1], processes)}
}

func (c *counters) memory(at string, e cgroup.MemoryEvents) {
	for event, n := range map[string]int64{"low": e.Low, "high": e.High, "max": e.Max, "oom": e.OOM, "oom_kill": e.OOMKills} {
		c.add(c.events, "memory", float64(n), at, event)
	}
}

func (c *counters) stall(at, resource string, p *cgroup.Pressure) {
	if p == nil {
		return
	}
	for kind, total := range map[string]time.Duration{"some": p.Some.Total, "full": p.Full.Total} {
		c.add(c.stalls, "stall "+resource, total.Seconds(), at, resource, kind)
	}
}

// add brings a counter to the kernel's. One that went back belongs to a cgroup that was recreated.
func (c *counters) add(to *prometheus.CounterVec, metric string, now float64, labels ...string) {
	key := [3]string{metric, labels[0], labels[len(labels)-1]}
	grown := now - c.last[key]
	if grown < 0 {
		grown = now
	}
	c.last[key] = now
	to.WithLabelValues(labels...).Add(grown)
}
