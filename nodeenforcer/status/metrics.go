package status

import (
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/repair"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

// unit of what is left of a signal. A metric has one, so that its values can be compared.
type unit string

const (
	inBytes     unit = "bytes"
	inInodes    unit = "inodes"
	inProcesses unit = "processes"
)

func unitOf(signal v1alpha1.EvictionSignal) unit {
	switch signal {
	case v1alpha1.SignalNodeFsInodesFree, v1alpha1.SignalImageFsInodesFree:
		return inInodes
	case v1alpha1.SignalPIDAvailable:
		return inProcesses
	}
	return inBytes
}

// Metrics of the enforcer. A nil *Metrics counts nothing.
type Metrics struct {
	rounds    *prometheus.HistogramVec
	writes    *prometheus.CounterVec
	failures  prometheus.Counter
	drift     *prometheus.GaugeVec
	givenUp   prometheus.Counter
	groups    *prometheus.GaugeVec
	refused   *prometheus.GaugeVec
	pressure  *prometheus.GaugeVec
	available map[unit]*prometheus.GaugeVec
	bounds    map[unit]map[eviction.Kind]*prometheus.GaugeVec
	known     *prometheus.GaugeVec
	steps     *prometheus.CounterVec
	latency   *prometheus.HistogramVec
	would     *prometheus.CounterVec
	*counters

	// The series as last set, by label. Only the evictor uses them.
	left  map[unit]map[string]float64
	bound map[unit]map[eviction.Kind]map[string]float64
	sees  map[string]float64
	short map[string]float64
}

// Scopes of a round.
const (
	scopeFull    = "full"
	scopeChanged = "changed"
)

// alerted are the steps that an alert counts from the first one on (deploy/monitoring/rules.yaml). The others get a series with their
// first step, since there are many on each node.
func alerted() []terminate.Step {
	return []terminate.Step{
		terminate.StepGone, terminate.StepLate, terminate.StepBlind, terminate.StepGaveUp, terminate.StepNotSignalled, terminate.StepNotKilled,
	}
}

func kinds() []eviction.Kind { return []eviction.Kind{eviction.Soft, eviction.Hard} }

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		rounds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "podgrace_node_round_seconds", Help: "Duration of reconciling the node's cgroups with their plan, by scope: full (all cgroups), or changed (only those whose plan changed).",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"scope"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_node_writes_total", Help: "Writes of cgroup files and of processes' oom_score_adj, by file and by the file's regular owner (nobody, kubelet, runtime).",
		}, []string{"file", "owner"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "podgrace_node_round_failures_total", Help: "Reconciliations in which something could not be read or written.",
		}),
		drift: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "podgrace_node_drift_files", Help: "Cgroup files that differed from their plan in the last full reconciliation, by regular owner and by the reason for which they were not written (empty if they were).",
		}, []string{"owner", "reason"}),
		givenUp: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "podgrace_node_given_up_files_total", Help: "Cgroup files given up because another writer kept reverting them.",
		}),
		groups: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "podgrace_node_cgroups", Help: "Cgroups in the plan, by level.",
		}, []string{"level"}),
		refused: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "podgrace_node_refused", Help: "1 while the node is not enforced, by reason: KubeletTooOld (it is older than Podgrace works with: nothing is planned or evicted) or KubeletUnknown (it has not told its configuration: nothing is written); else 0.",
		}, []string{"reason"}),
		pressure: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "podgrace_node_pressure", Help: "1 while the node is under pressure by the NodePolicy's thresholds, by resource.",
		}, []string{"resource"}),
		available: map[unit]*prometheus.GaugeVec{}, left: map[unit]map[string]float64{},
		bounds: map[unit]map[eviction.Kind]*prometheus.GaugeVec{}, bound: map[unit]map[eviction.Kind]map[string]float64{},
		known: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "podgrace_node_eviction_signal_known", Help: "1 for each signal with a threshold that is measured, 0 for one that can't be: no pod is evicted for it.",
		}, []string{"signal"}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_node_eviction_steps_total", Help: "Steps of evictions, by kind (Soft or Hard) and step. An eviction has several; step Gone counts the pods that were stopped.",
		}, []string{"kind", "step"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "podgrace_node_eviction_seconds", Help: "Time from the decision to evict a pod to each step of its eviction.",
			Buckets: prometheus.ExponentialBuckets(0.005, 3, 10),
		}, []string{"kind", "step"}),
	}
	m.would = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "podgrace_node_would_evict_total", Help: "Pods that would have been evicted, if the NodePolicy's eviction were not in mode Observe, by signal. A pod is counted once while thresholds are met.",
	}, []string{"signal"})
	registry.MustRegister(m.rounds, m.writes, m.failures, m.drift, m.givenUp, m.groups, m.refused, m.pressure, m.known, m.steps, m.latency, m.would)
	for _, u := range []unit{inBytes, inInodes, inProcesses} {
		m.available[u] = prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "podgrace_node_eviction_signal_available_" + string(u), Help: "What is available of each signal with a threshold, in " + string(u) + ".",
		}, []string{"signal"})
		bounds := prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "podgrace_node_eviction_threshold_" + string(u), Help: "The NodePolicy's thresholds for this node, by kind (Soft or Hard) and signal, in " + string(u) + ": pods are evicted while less is available.",
		}, []string{"kind", "signal"})
		registry.MustRegister(m.available[u], bounds)
		m.bounds[u], m.bound[u] = map[eviction.Kind]*prometheus.GaugeVec{}, map[eviction.Kind]map[string]float64{}
		for _, kind := range kinds() {
			m.bounds[u][kind] = bounds.MustCurryWith(prometheus.Labels{"kind": kind.Label()})
		}
	}
	m.counters = newCounters(registry)
	m.begin()
	return m
}

// begin creates series at the start, so that the first event is an increase, and zero events differ from a missing series.
func (m *Metrics) begin() {
	m.rounds.WithLabelValues(scopeFull)
	m.rounds.WithLabelValues(scopeChanged)
	m.ObserveRefused(false, false)
	for _, kind := range kinds() {
		for _, step := range alerted() {
			m.steps.WithLabelValues(kind.Label(), string(step))
		}
	}
}

// ObserveRound records a round: its duration, writes, files given up and failure; of a full round also the drift.
func (m *Metrics) ObserveRound(r repair.Round, err error) {
	if m == nil {
		return
	}
	scope := scopeChanged
	if r.Full {
		scope = scopeFull
	}
	m.rounds.WithLabelValues(scope).Observe(r.Took.Seconds())
	for _, op := range r.Written {
		m.writes.WithLabelValues(op.File, string(op.Owner)).Inc()
	}
	m.givenUp.Add(float64(len(r.Reverts)))
	if err != nil {
		m.failures.Inc()
	}
	if !r.Full {
		return
	}
	m.drift.Reset()
	for _, d := range slices.Concat(r.Diff.Drift, r.Processes.Drift) {
		m.drift.WithLabelValues(string(d.Owner), string(d.Why)).Inc()
	}
	for _, level := range []plan.Level{plan.LevelReserved, plan.LevelKubepods, plan.LevelQOS, plan.LevelPod, plan.LevelContainer} {
		m.groups.WithLabelValues(string(level)).Set(float64(r.Tree.Count(level)))
	}
}

// ObserveRefused records why the node is not enforced: its kubelet is too old, or has not told its configuration.
func (m *Metrics) ObserveRefused(tooOld, unknown bool) {
	if m == nil {
		return
	}
	for reason, is := range map[string]bool{"KubeletTooOld": tooOld, "KubeletUnknown": unknown} {
		value := 0.0
		if is {
			value = 1
		}
		m.refused.WithLabelValues(reason).Set(value)
	}
}

// WouldEvict counts a pod that would be evicted for a signal.
func (m *Metrics) WouldEvict(signal v1alpha1.EvictionSignal) {
	if m != nil {
		m.would.WithLabelValues(string(signal)).Inc()
	}
}

// ObserveSignals records what is available of each signal, its thresholds, which signals can't be measured, and which resources are under pressure. Series of
// signals that have no threshold any more are deleted.
func (m *Metrics) ObserveSignals(thresholds pressure.Thresholds, signals pressure.Signals, verdict pressure.Verdict) {
	if m == nil {
		return
	}
	for u, gauge := range m.available {
		left := map[string]float64{}
		for signal, sample := range signals {
			if unitOf(signal) == u {
				left[string(signal)] = float64(sample.Available)
			}
		}
		m.left[u] = tell(gauge, m.left[u], left)
		for _, kind := range kinds() {
			m.bound[u][kind] = tell(m.bounds[u][kind], m.bound[u][kind], boundsOf(u, kind, thresholds, signals))
		}
	}
	m.sees = tell(m.known, m.sees, sees(thresholds, verdict))
	short := map[string]float64{}
	for condition, holds := range verdict.Conditions {
		value := 0.0
		if holds {
			value = 1
		}
		short[strings.ToLower(strings.TrimSuffix(string(condition), "Pressure"))] = value
	}
	m.short = tell(m.pressure, m.short, short)
}

// boundsOf are the thresholds of a kind, by signal. One that is a share is of what was measured: without that it is not known.
func boundsOf(u unit, kind eviction.Kind, thresholds pressure.Thresholds, signals pressure.Signals) map[string]float64 {
	bounds := map[string]float64{}
	for _, t := range thresholds.List {
		sample, measured := signals[t.Signal]
		if t.Kind == kind && unitOf(t.Signal) == u && measured {
			bounds[string(t.Signal)] = float64(t.Value.Of(sample.Capacity))
		}
	}
	return bounds
}

// sees has 1 for each signal with a threshold that is measured, and 0 for one that can't be.
func sees(thresholds pressure.Thresholds, verdict pressure.Verdict) map[string]float64 {
	known := map[string]float64{}
	for _, t := range thresholds.List {
		known[string(t.Signal)] = 1
	}
	if thresholds.Stall != nil {
		known[string(v1alpha1.SignalMemoryStall)] = 1
	}
	for _, signal := range verdict.Unknown {
		known[string(signal)] = 0
	}
	return known
}

// tell sets one series for each label, and deletes those that were set before and are not among them. A series that stays is never
// missing in between. It returns what it set.
func tell(g *prometheus.GaugeVec, told, values map[string]float64) map[string]float64 {
	for label := range told {
		if _, ok := values[label]; !ok {
			g.DeleteLabelValues(label)
		}
	}
	for label, value := range values {
		g.WithLabelValues(label).Set(value)
	}
	return values
}

func (m *Metrics) evicting(r terminate.Record) {
	if m == nil {
		return
	}
	m.steps.WithLabelValues(r.Kind.Label(), string(r.Step)).Inc()
	m.latency.WithLabelValues(r.Kind.Label(), string(r.Step)).Observe(r.After.Seconds())
}

// NewRecorder records each step of an eviction in the metrics and the log.
func NewRecorder(m *Metrics, log logr.Logger) terminate.Recorder { return recorder{m, log} }

type recorder struct {
	metrics *Metrics
	log     logr.Logger
}

// Record is for terminate.Recorder.
func (r recorder) Record(pod terminate.Ref, step terminate.Record) {
	r.metrics.evicting(step)
	log := r.log.WithValues("pod", pod.String(), "step", step.Step, "kind", step.Kind.Label(), "afterMilliseconds", step.After.Milliseconds(), "container", step.Container, "try", step.Try)
	if step.Err != nil {
		log = log.WithValues("err", step.Err.Error())
	}
	log.Info("eviction step", "message", step.Message)
}
