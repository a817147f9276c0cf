package controller

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/podgrace/podgrace/volumelock"
)

// A replica counts once it leads, and before that tells of nothing.
func TestCensus(t *testing.T) {
	c := newCluster(t)
	leads := make(chan struct{})
	registry := prometheus.NewRegistry()
	NewCensusMetric(registry, c.Census(leads))
	gathered := func() map[string]float64 {
		t.Helper()
		families, err := registry.Gather()
		c.must(err)
		values := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				values[f.GetName()+stateOf(m)] = m.GetGauge().GetValue()
			}
		}
		return values
	}
	c.attach("a")
	if got := gathered(); len(got) != 6 || got["podgrace_volumelock_waiting_attachments"] != 0 {
		t.Errorf("before it leads: %v", got)
	}
	close(leads)
	if got := gathered(); got["podgrace_volumelock_waiting_attachments"] != 1 || got["podgrace_volumelock_oldest_waiting_attachment_timestamp_seconds"] != float64(began.Unix()-60) {
		t.Errorf("while one waits: %v", got)
	}
	c.reports("a", inUse)
	c.settle()
	if got := gathered(); got["podgrace_volumelock_waiting_attachments"] != 0 || got["podgrace_volumelock_locks"+string(volumelock.StandingHeld)] != 1 {
		t.Errorf("once it is attached: %v", got)
	}
}

func stateOf(m *dto.Metric) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == "state" {
			return l.GetValue()
		}
	}
	return ""
}
