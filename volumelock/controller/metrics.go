package controller

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podgrace/podgrace/volumelock"
)

// Metrics of the volume lock. A nil *Metrics counts nothing.
type Metrics struct {
	taken, conflicts prometheus.Counter
	released, alarms *prometheus.CounterVec
	ungated          *prometheus.GaugeVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		taken: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "podgrace_volumelock_taken_total", Help: "VolumeLocks that this replica made for a node.",
		}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "podgrace_volumelock_conflicts_total", Help: "Writes that the API server refused because somebody else was faster: what is so is read again.",
		}),
		released: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_volumelock_released_total", Help: "VolumeLocks that this replica deleted, by evidence: Kubelet, Receipt, StorageRevoked, Confirmed.",
		}, []string{"evidence"}),
		alarms: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_volumelock_alarms_total", Help: "What must not be, by reason, each time that it is looked at: a volume attached to a node that does not hold it (SecondHolder), or without a VolumeLock (Retaken); a VolumeLock that somebody else wrote (NotOurs); a Node that went while it held a volume (NoNode), or was made anew (NodeMadeAnew); a driver that is not gated any more (Conflict).",
		}, []string{"reason"}),
	}
	m.ungated = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "podgrace_volumelock_driver_conflict", Help: "Whether a driver can't be gated (1): its CSIDriver says attachRequired: false, so that kubelets mount its volumes without asking, also those that are locked; or it was not adopted, so that none of them is attached or released. 0: it is gated.",
	}, []string{"driver"})
	for _, e := range volumelock.Evidences() {
		m.released.WithLabelValues(string(e))
	}
	for _, r := range volumelock.AlarmReasons() {
		m.alarms.WithLabelValues(r.Code)
	}
	m.alarms.WithLabelValues("Conflict")
	registry.MustRegister(m.taken, m.conflicts, m.released, m.alarms, m.ungated)
	return m
}

func (m *Metrics) take() {
	if m != nil {
		m.taken.Inc()
	}
}

func (m *Metrics) conflict() {
	if m != nil {
		m.conflicts.Inc()
	}
}

func (m *Metrics) free(by volumelock.Evidence) {
	if m != nil {
		m.released.WithLabelValues(string(by)).Inc()
	}
}

func (m *Metrics) alarm(reason string) {
	if m != nil {
		m.alarms.WithLabelValues(reason).Inc()
	}
}

func (m *Metrics) gate(driver string, gated bool) {
	switch {
	case m == nil:
	case gated:
		m.ungated.WithLabelValues(driver).Set(0)
	default:
		m.ungated.WithLabelValues(driver).Set(1)
	}
}
