package webhook

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
)

// Namespaces bounds what is counted by namespace: tenants make namespaces, and each series takes memory here and in Prometheus.
type Namespaces struct {
	// Most is how many have series of their own.
	Most int
	// Exist reports whether a namespace is there. nil: all are.
	Exist func(name string) bool
}

// OtherNamespaces is the label's value for all namespaces beyond the bound; none can have that name.
const OtherNamespaces = "_other"

// byNamespace counts refusals and warnings by namespace and policy. A namespace gets series of its own with its first, while there are fewer than the bound;
// they go away with it, at the next scrape. The others are counted together, and so is one that does not exist, or not yet. A policy's series go away with
// the policy.
//
// It is a counter beside those by reason and road, which stay sums that never fall, and of which each series is there from the start: the first
// refusal of a namespace is no increase of a series that was not there, so that alerts are of those.
type byNamespace struct {
	Namespaces
	*prometheus.CounterVec
	policies *PolicyStore

	mu    sync.Mutex
	own   map[string]bool // namespaces with series of their own
	named map[string]bool // policies that have series
}

func newByNamespace(bound Namespaces, policies *PolicyStore) *byNamespace {
	return &byNamespace{
		Namespaces: bound, policies: policies, own: map[string]bool{}, named: map[string]bool{},
		CounterVec: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_namespace_decisions_total",
			Help: "Refusals (verdict Deny) of and warnings (Warn) about pods that are created and removals, by the namespace of the request (empty: that of a Node or VolumeAttachment, which has none), the PodPolicy that they follow from (the heaviest of several; empty: none) and reason. Namespaces beyond --metrics-namespaces are counted together as _other. The series of a namespace or a policy go away with it. Dry runs are not counted.",
		}, []string{"namespace", "policy", "verdict", "reason"}),
	}
}

func (b *byNamespace) count(namespace, by string, verdict guard.Verdict, reason policy.Reason) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if namespace != "" && !b.own[namespace] {
		if len(b.own) < b.Most && b.exists(namespace) {
			b.own[namespace] = true
		} else {
			namespace = OtherNamespaces
		}
	}
	if by != "" {
		b.named[by] = true
	}
	b.WithLabelValues(namespace, by, string(verdict), reason.Code).Inc()
}

func (b *byNamespace) exists(namespace string) bool { return b.Exist == nil || b.Exist(namespace) }

// Collect is for prometheus.Collector.
func (b *byNamespace) Collect(ch chan<- prometheus.Metric) {
	b.forget()
	b.CounterVec.Collect(ch)
}

// forget drops the series of namespaces and policies that are gone.
func (b *byNamespace) forget() {
	inForce := map[string]bool{}
	for _, p := range b.policies.Policies() {
		inForce[p.Name] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for namespace := range b.own {
		if !b.exists(namespace) {
			delete(b.own, namespace)
			b.DeletePartialMatch(prometheus.Labels{"namespace": namespace})
		}
	}
	for name := range b.named {
		if !inForce[name] {
			delete(b.named, name)
			b.DeletePartialMatch(prometheus.Labels{"policy": name})
		}
	}
}
