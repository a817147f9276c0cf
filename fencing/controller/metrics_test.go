package controller

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/fencing/storage"
)

// What stays fenced is told by the leader, as it was listed last, and by no other replica.
func TestNetworkFencesAreCounted(t *testing.T) {
	m := NewMetrics(prometheus.NewPedanticRegistry())
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	later := at.Add(time.Hour)
	type counted struct{ open, openSince, over, overSince int64 }
	want := func(when string, want counted) {
		t.Helper()
		value := func(g *prometheus.GaugeVec, incident string) int64 {
			return int64(testutil.ToFloat64(g.WithLabelValues(incident)))
		}
		got := counted{value(m.unlifted, "open"), value(m.since, "open"), value(m.unlifted, "over"), value(m.since, "over")}
		if got != want || testutil.CollectAndCount(m.unlifted) != 2 || testutil.CollectAndCount(m.since) != 2 {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	want("before the first round", counted{})
	boot := func(id string) *v1alpha1.BootReference {
		return &v1alpha1.BootReference{Name: "n1", UID: "u", BootID: id}
	}
	facts := fencing.Facts{Known: fencing.Known{Fences: true, Storage: true}}
	facts.Fences = []v1alpha1.Fence{{Spec: v1alpha1.FenceSpec{Node: *boot("b2")}, Status: v1alpha1.FenceStatus{Phase: v1alpha1.FenceReleased}}}
	facts.StorageFences = []storage.Fence{{Boot: boot("b1"), Fenced: true, Created: at}, {Boot: boot("b2"), Fenced: true, Created: later}}
	m.round(facts)
	want("a round", counted{1, later.Unix(), 1, at.Unix()})
	m.round(fencing.Facts{})
	want("they can't be listed", counted{1, later.Unix(), 1, at.Unix()})
	m.round(fencing.Facts{Known: facts.Known})
	want("none is there", counted{})
	m.round(facts)
	m.reset()
	want("another replica leads", counted{})
}
