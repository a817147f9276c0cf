package docs_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
	"github.com/podgrace/podgrace/volumelock"
	"github.com/podgrace/podgrace/webhook"
)

// certificateOfSamples is one, so that its expiry is told.
func certificateOfSamples(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &tls.Certificate{Certificate: [][]byte{{}}, Leaf: &x509.Certificate{NotAfter: time.Unix(2_000_000_000, 0)}}, nil
}

// censusOfSamples is of volumes of each standing, and of one that waits.
var censusOfSamples = volumelock.Census{
	Locks: map[volumelock.Standing]int{volumelock.StandingHeld: 5, volumelock.StandingReleasing: 2, volumelock.StandingNodeGone: 1}, ByDriver: map[string]int{"nfs.csi.k8s.io": 8}, OldestRelease: time.Unix(1_000, 0), Waiting: 1, OldestWaiting: time.Unix(2_000, 0),
}

// happened is what occurs in the samples, by metric, as values of its labels: what the programs expose from their start on is there without.
var happened = map[string][][]string{
	"podgrace_pod_changes_total":                             {{"priority"}, {"gracePeriod"}, {"node"}},
	"podgrace_pod_exceptions_total":                          {{"shop", "stateful"}},
	"podgrace_pod_warnings_total":                            {{}},
	"podgrace_pod_denials_total":                             {{defaulting.Refusals()[0].Code}},
	"podgrace_removals_total":                                {{string(guard.RoadDelete), string(guard.Deny), guard.Unsafe.Code}, {string(guard.RoadEviction), string(guard.Warn), guard.Unsafe.Code}, {string(guard.RoadNode), string(guard.Allow), guard.Confirmed.Code}},
	"podgrace_namespace_decisions_total":                     {{"shop", "stateful", string(guard.Deny), guard.Unsafe.Code}, {"till", "web", string(guard.Warn), guard.Unsafe.Code}},
	"podgrace_reviews_missed_total":                          {{webhook.PathMutatePods}},
	"podgrace_reviews_refused_total":                         {{webhook.PathMutatePods, "Busy"}},
	"podgrace_spread_unjudged_total":                         {{string(defaulting.TooDear)}},
	"podgrace_webhook_watch_failures_total":                  {{"*v1.Pod"}},
	"podgrace_webhook_handshake_failures_total":              {{}},
	"podgrace_node_cgroups":                                  {{"kubepods"}, {"pod"}, {"container"}},
	"podgrace_node_cpu_seconds_total":                        {{"kubepods"}, {"besteffort"}},
	"podgrace_node_drift_files":                              {{"kubelet", ""}, {"kubelet", "BelowUsage"}},
	"podgrace_node_eviction_seconds":                         {{"Soft", string(terminate.StepGone)}, {"Hard", string(terminate.StepGone)}},
	"podgrace_node_eviction_signal_available_bytes":          {{"memory.available"}, {"nodefs.available"}},
	"podgrace_node_eviction_signal_available_inodes":         {{"nodefs.inodesFree"}},
	"podgrace_node_eviction_signal_available_processes":      {{"pid.available"}},
	"podgrace_node_eviction_threshold_bytes":                 {{"Hard", "memory.available"}, {"Soft", "memory.available"}, {"Hard", "nodefs.available"}},
	"podgrace_node_eviction_threshold_inodes":                {{"Hard", "nodefs.inodesFree"}},
	"podgrace_node_eviction_threshold_processes":             {{"Hard", "pid.available"}},
	"podgrace_node_eviction_signal_known":                    {{"memory.available"}, {"nodefs.available"}},
	"podgrace_node_eviction_steps_total":                     {{"Soft", string(terminate.StepGone)}, {"Hard", string(terminate.StepLate)}},
	"podgrace_node_given_up_files_total":                     {{}},
	"podgrace_node_io_bytes_total":                           {{"kubepods", "read"}, {"kubepods", "write"}},
	"podgrace_node_memory_events_total":                      {{"kubepods", "oom_kill"}},
	"podgrace_node_memory_working_set_bytes":                 {{"kubepods"}, {"burstable"}},
	"podgrace_node_pressure":                                 {{"memory"}, {"disk"}, {"pid"}},
	"podgrace_node_processes":                                {{"kubepods"}},
	"podgrace_node_round_failures_total":                     {{}},
	"podgrace_node_round_seconds":                            {{"full"}, {"changed"}},
	"podgrace_node_stall_seconds_total":                      {{"kubepods", "memory", "some"}},
	"podgrace_node_writes_total":                             {{"cpu.weight", "kubelet"}},
	"podgrace_node_would_evict_total":                        {{"memory.available"}},
	"podgrace_fence_agent_calls_total":                       {{"off", "ok"}, {"power", "failed"}},
	"podgrace_fence_alarms_total":                            {{"FenceReceiptVoid"}},
	"podgrace_fence_receipts_total":                          {{string(v1alpha1.EvidencePoweredOff)}},
	"podgrace_fencer_fences":                                 {{"Acting"}},
	"podgrace_fencer_network_fences":                         {{"open"}},
	"podgrace_fencer_oldest_network_fence_timestamp_seconds": {{"open"}},
	"podgrace_fencer_partitioned_nodes":                      {{}},
	"podgrace_fencer_rounds_total":                           {{"ok"}, {"failed"}},
	"podgrace_volumelock_driver_conflict":                    {{"nfs.csi.k8s.io"}},
	"podgrace_volumelock_taken_total":                        {{}},
	"podgrace_volumelock_conflicts_total":                    {{}},
	"podgrace_volumelock_released_total":                     {{string(volumelock.ByKubelet)}},
	"podgrace_volumelock_alarms_total":                       {{volumelock.AlarmReasons()[0].Code}},
}

// samples are what a program's own collectors expose once each of these has happened.
func samples(t *testing.T, collectors []prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	for _, c := range collectors {
		for _, m := range describe(t, []prometheus.Collector{c}) {
			for _, labels := range happened[m.name] {
				occur(t, c, m, labels)
			}
		}
		registry.MustRegister(c)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			expose(&b, f.GetName(), m)
		}
	}
	return b.String()
}

// occur counts, sets or observes.
func occur(t *testing.T, c prometheus.Collector, m metric, labels []string) {
	t.Helper()
	switch c := c.(type) {
	case interface {
		WithLabelValues(values ...string) prometheus.Counter
	}:
		c.WithLabelValues(labels...).Add(3)
	case *prometheus.GaugeVec:
		c.WithLabelValues(labels...).Set(2)
	case *prometheus.HistogramVec:
		c.WithLabelValues(labels...).Observe(0.02)
	case prometheus.Gauge:
		c.Set(2)
	case prometheus.Counter:
		c.Add(3)
	default:
		t.Errorf("%s can't occur: it is a %T", m.name, c)
	}
}

// expose writes a metric in the text format.
func expose(b *strings.Builder, name string, m *dto.Metric) {
	labels := func(more ...string) string {
		var all []string
		for _, l := range m.GetLabel() {
			all = append(all, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
		}
		return "{" + strings.Join(append(all, more...), ",") + "}"
	}
	switch {
	case m.Counter != nil:
		fmt.Fprintf(b, "%s%s %g\n", name, labels(), m.GetCounter().GetValue())
	case m.Gauge != nil:
		fmt.Fprintf(b, "%s%s %.15g\n", name, labels(), m.GetGauge().GetValue())
	default:
		h := m.GetHistogram()
		for _, bucket := range h.GetBucket() {
			fmt.Fprintf(b, "%s_bucket%s %d\n", name, labels(fmt.Sprintf(`le="%g"`, bucket.GetUpperBound())), bucket.GetCumulativeCount())
		}
		fmt.Fprintf(b, "%s_bucket%s %d\n", name, labels(`le="+Inf"`), h.GetSampleCount())
		fmt.Fprintf(b, "%s_sum%s %g\n%s_count%s %d\n", name, labels(), h.GetSampleSum(), name, labels(), h.GetSampleCount())
	}
}

// What the programs expose is recorded for the tests of e2e/monitoring, which hold rules and dashboard against it. Every metric is in it.
func TestSamplesAreFresh(t *testing.T) {
	const folder = "../e2e/monitoring/testdata/"
	for name, collectors := range map[string][]prometheus.Collector{"webhook": ofTheWebhook(t), "nodeenforcer": ofTheNodeEnforcer(), "fencer": ofTheFencer(), "volumelock": ofTheVolumeLock()} {
		text := samples(t, collectors)
		for _, m := range describe(t, collectors) {
			// Of a policy that can't be read; there is none.
			if m.name != "podgrace_pod_policy_out_of_force" && !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
				return strings.HasPrefix(line, m.name+"{") || strings.HasPrefix(line, m.name+"_count{")
			}) {
				t.Errorf("%s: no sample of %s", name, m.name)
			}
		}
		fresh(t, folder+name+".prom", text)
	}
}
