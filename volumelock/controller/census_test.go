package controller

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"

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

// A driver that was left, and of which nothing is reconciled any more, is told of as it is.
func TestCensusOfUnusedDriver(t *testing.T) {
	c := newCluster(t)
	registry := prometheus.NewRegistry()
	c.Metrics = NewMetrics(registry)
	leads := make(chan struct{})
	close(leads)
	count := c.Census(leads)
	for uid, gated := range map[types.UID]bool{"driver-2": false, "driver-3": true} {
		c.makeDriver(uid, gated)
		if counted, ok := count(); !ok || counted.ByDriver[driver] != 0 || len(counted.ByDriver) != 1 {
			t.Errorf("it counts %+v, %t", counted, ok)
		}
		if told := testutil.ToFloat64(c.Metrics.ungated.WithLabelValues(driver)) == 0; told != gated {
			t.Errorf("gated: %t, and it tells %t", gated, told)
		}
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
