package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/guard"
)

// Metrics of the decisions. A nil *Metrics counts nothing.
type Metrics struct {
	changes  *prometheus.CounterVec
	warnings prometheus.Counter
	denials  *prometheus.CounterVec
	removals *prometheus.CounterVec
	missed   *prometheus.CounterVec
	refused  *prometheus.CounterVec
	unjudged *prometheus.CounterVec
	excepted *prometheus.CounterVec

	namespaces *byNamespace
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer, policies *PolicyStore, bound Namespaces) *Metrics {
	m := &Metrics{
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_pod_changes_total", Help: "Pods that a section of a policy changed at their creation, by section. Dry runs are not counted.",
		}, []string{"section"}),
		warnings: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "podgrace_pod_warnings_total", Help: "Warnings given to the creators of pods. Dry runs are not counted.",
		}),
		denials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_pod_denials_total", Help: "Pods refused, by reason; a pod that is refused for two reasons counts under both. Dry runs are not counted.",
		}, []string{"reason"}),
		removals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_removals_total", Help: "Removals judged, by road (the kind of request: delete, eviction, status, finalizer, node, out-of-service, volume-attachment), verdict and reason. Dry runs are not counted.",
		}, []string{"road", "verdict", "reason"}),
		missed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_reviews_missed_total", Help: "Admission requests that this replica allowed without judging them, by path: its informers had not synced, or a lookup failed. Requests that never reached a replica are not counted.",
		}, []string{"path"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_reviews_refused_total", Help: "Admission requests that this replica denied without judging them, by path and reason: TooLarge to read, TooDear to judge in the memory and time there is, or Busy with others. Dry runs are counted.",
		}, []string{"path", "reason"}),
		unjudged: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_spread_unjudged_total", Help: "Pods whose hard topology spread constraints were not checked for feasibility, by reason: TooDear to compare with all nodes, or PodsUnknown. Dry runs are not counted.",
		}, []string{"reason"}),
		excepted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_pod_exceptions_total", Help: "Pods for which a PolicyException lifted a limit, by the exception's namespace and the PodPolicy whose limit it lifts. Dry runs are not counted.",
		}, []string{"namespace", "policy"}),
		namespaces: newByNamespace(bound, policies),
	}
	m.begin()
	registry.MustRegister(m.changes, m.warnings, m.denials, m.removals, m.missed, m.refused, m.unjudged, m.excepted, m.namespaces, inForce{policies})
	return m
}

// begin initialises the series that alerts look at to 0, so that the first event is an increase.
func (m *Metrics) begin() {
	for _, path := range []string{PathMutatePods, PathValidatePods, PathValidateWorkloads, PathValidatePodGroups, PathMutateEvictions} {
		m.missed.WithLabelValues(path)
	}
	for _, reason := range []defaulting.Unjudged{defaulting.TooDear, defaulting.PodsUnknown} {
		m.unjudged.WithLabelValues(string(reason))
	}
	for _, reason := range defaulting.Refusals() {
		m.denials.WithLabelValues(reason.Code)
	}
	for _, road := range guard.Roads() {
		m.removals.WithLabelValues(string(road), string(guard.Deny), guard.Unsafe.Code)
	}
}

// inForce reports the generation of each policy that this replica decides by, so that a stale replica can be seen, and the policies of which a part can't be
// read.
type inForce struct{ store *PolicyStore }

var inForceDesc = prometheus.NewDesc("podgrace_pod_policy_in_force_generation",
	"Generation of each PodPolicy that this replica decides by; one from a file has 0.", []string{"policy"}, nil)

var outOfForceDesc = prometheus.NewDesc("podgrace_pod_policy_out_of_force",
	"1 for each PodPolicy of which a part is not in force, because this replica can't read it.", []string{"policy"}, nil)

// Describe is for prometheus.Collector.
func (inForce) Describe(ch chan<- *prometheus.Desc) {
	ch <- inForceDesc
	ch <- outOfForceDesc
}

// Collect is for prometheus.Collector.
func (c inForce) Collect(ch chan<- prometheus.Metric) {
	for _, p := range c.store.Policies() {
		ch <- prometheus.MustNewConstMetric(inForceDesc, prometheus.GaugeValue, float64(p.Generation), p.Name)
	}
	for _, name := range c.store.OutOfForce() {
		ch <- prometheus.MustNewConstMetric(outOfForceDesc, prometheus.GaugeValue, 1, name)
	}
}

func (m *Metrics) removal(req admission.Request, r Removal) {
	if m == nil || req.DryRun != nil && *req.DryRun {
		return
	}
	m.removals.WithLabelValues(string(r.Road), string(r.Verdict), r.Reason.Code).Inc()
	if r.Verdict != guard.Allow {
		m.namespaces.count(req.Namespace, r.By, r.Verdict, r.Reason)
	}
}

func (m *Metrics) miss(path string) {
	if m != nil {
		m.missed.WithLabelValues(path).Inc()
	}
}

func (m *Metrics) refuse(path, reason string) {
	if m != nil {
		m.refused.WithLabelValues(path, reason).Inc()
	}
}

func (m *Metrics) decided(req admission.Request, result defaulting.Result) {
	if m == nil || req.DryRun != nil && *req.DryRun {
		return
	}
	last := ""
	for _, c := range result.Changes { // changes of one section stand together
		if c.Section != last {
			m.changes.WithLabelValues(c.Section).Inc()
		}
		last = c.Section
	}
	if result.Unjudged != "" {
		m.unjudged.WithLabelValues(string(result.Unjudged)).Inc()
	}
	m.warnings.Add(float64(len(result.Warnings)))
	for _, w := range result.Warnings {
		m.namespaces.count(req.Namespace, w.Policy, guard.Warn, w.Reason)
	}
	for _, d := range result.Denials {
		m.denials.WithLabelValues(d.Reason.Code).Inc()
		m.namespaces.count(req.Namespace, d.Policy, guard.Deny, d.Reason)
	}
}

// except counts the exceptions that made a difference to a pod at validation.
func (m *Metrics) except(req admission.Request, result defaulting.Result) {
	if m == nil || req.DryRun != nil && *req.DryRun {
		return
	}
	counted := map[string]bool{}
	for _, l := range result.Exceptions {
		if x := l.Exception; !counted[x.Spec.Policy] {
			counted[x.Spec.Policy] = true
			m.excepted.WithLabelValues(x.Namespace, x.Spec.Policy).Inc()
		}
	}
}
