package controller

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/fencing/storage"
)

// Metrics of the fencer. A nil *Metrics counts nothing.
type Metrics struct {
	silent   prometheus.Gauge
	fences   *prometheus.GaugeVec
	unlifted *prometheus.GaugeVec
	since    *prometheus.GaugeVec
	rounds   *prometheus.CounterVec
	receipts *prometheus.CounterVec
	calls    *prometheus.CounterVec
	alarms   *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		silent: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "podgrace_fencer_partitioned_nodes", Help: "Nodes that are partitioned (condition podgrace.dev/Partitioned), as the leader has it; 0 on other replicas.",
		}),
		fences: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "podgrace_fencer_fences", Help: "Fences that are not over, by phase, as the leader has it; 0 on other replicas.",
		}, []string{"phase"}),
		unlifted: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "podgrace_fencer_network_fences", Help: "NetworkFences of the fencer that csi-addons does not say are lifted, as the leader could list them last; 0 on other replicas. incident: open, or over (also where its Fence was deleted).",
		}, []string{"incident"}),
		since: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "podgrace_fencer_oldest_network_fence_timestamp_seconds", Help: "When the oldest NetworkFence was made that podgrace_fencer_network_fences counts; 0: there is none.",
		}, []string{"incident"}),
		rounds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_fencer_rounds_total", Help: "Rounds of the leader, by result: ok, or failed where something could not be read or written.",
		}, []string{"result"}),
		receipts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_fence_receipts_total", Help: "FenceReceipts that this replica wrote, by class of evidence.",
		}, []string{"class"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_fence_agent_calls_total", Help: "Calls of fence agents, by what was called (off, power) and result (ok, failed).",
		}, []string{"call", "result"}),
		alarms: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_fence_alarms_total", Help: "What must never happen, by reason: FenceReceiptVoid is a boot that was heard of after a receipt said that it is off.",
		}, []string{"reason"}),
	}
	for _, phase := range phases {
		m.fences.WithLabelValues(string(phase))
	}
	for _, incident := range incidents {
		m.still(incident, storage.Unlifted{})
	}
	m.alarms.WithLabelValues("FenceReceiptVoid")
	for _, result := range []string{"ok", "failed"} {
		m.rounds.WithLabelValues(result)
	}
	registry.MustRegister(m.silent, m.fences, m.unlifted, m.since, m.rounds, m.receipts, m.calls, m.alarms)
	return m
}

var phases = []v1alpha1.FencePhase{v1alpha1.FenceWaiting, v1alpha1.FenceDecided, v1alpha1.FenceActing, v1alpha1.FenceVerified, v1alpha1.FenceReleased}

// The values of the label incident.
const (
	incidentOpen = "open"
	incidentOver = "over"
)

var incidents = []string{incidentOpen, incidentOver}

func (m *Metrics) round(facts fencing.Facts) {
	if m == nil {
		return
	}
	n := 0
	for i := range facts.Nodes {
		if c := facts.Nodes[i].Partitioned; c != nil && c.Status != corev1.ConditionFalse {
			n++
		}
	}
	m.silent.Set(float64(n))
	count := map[v1alpha1.FencePhase]int{}
	for i := range facts.Fences {
		count[facts.Fences[i].Status.Phase]++
	}
	for _, phase := range phases {
		m.fences.WithLabelValues(string(phase)).Set(float64(count[phase]))
	}
	if open, over, known := fencing.Unlifted(facts); known {
		m.still(incidentOpen, open)
		m.still(incidentOver, over)
	}
}

func (m *Metrics) still(incident string, fenced storage.Unlifted) {
	m.unlifted.WithLabelValues(incident).Set(float64(fenced.NetworkFences))
	since := 0.
	if !fenced.Since.IsZero() {
		since = float64(fenced.Since.Unix())
	}
	m.since.WithLabelValues(incident).Set(since)
}

// reset says that this replica leads no more.
func (m *Metrics) reset() {
	if m == nil {
		return
	}
	m.silent.Set(0)
	for _, phase := range phases {
		m.fences.WithLabelValues(string(phase)).Set(0)
	}
	for _, incident := range incidents {
		m.still(incident, storage.Unlifted{})
	}
}

func (m *Metrics) rounded(err error) {
	if m != nil {
		m.rounds.WithLabelValues(result(err)).Inc()
	}
}

func (m *Metrics) receipt(class v1alpha1.EvidenceClass) {
	if m != nil {
		m.receipts.WithLabelValues(string(class)).Inc()
	}
}

func (m *Metrics) call(what string, err error) {
	if m != nil {
		m.calls.WithLabelValues(what, result(err)).Inc()
	}
}

func (m *Metrics) alarm(reason string) {
	if m != nil {
		m.alarms.WithLabelValues(reason).Inc()
	}
}

func result(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}
