package docs_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	_ "sigs.k8s.io/controller-runtime/pkg/webhook" // registers its metrics

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing/controller"
	"github.com/podgrace/podgrace/internal/program/version"
	"github.com/podgrace/podgrace/nodeenforcer/status"
	"github.com/podgrace/podgrace/volumelock"
	volumelockcontroller "github.com/podgrace/podgrace/volumelock/controller"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/controllers"
	"github.com/podgrace/podgrace/webhook/intake"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// metric is a row of the table.
type metric struct {
	name, help, kind string
	labels           []string
}

// The types of metrics, as the text format has them.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// registered keeps the collectors that a constructor registers: a Desc does not say its type.
type registered struct{ collectors []prometheus.Collector }

func (r *registered) Register(c prometheus.Collector) error {
	r.collectors = append(r.collectors, c)
	return nil
}

func (r *registered) MustRegister(cs ...prometheus.Collector) {
	r.collectors = append(r.collectors, cs...)
}

func (r *registered) Unregister(prometheus.Collector) bool { return false }

// ofTheWebhook are the collectors of cmd/webhook.
func ofTheWebhook(t *testing.T) []prometheus.Collector {
	t.Helper()
	store, err := webhook.NewPolicyStore(logr.Discard(), &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	var r registered
	webhook.NewMetrics(&r, store, webhook.Namespaces{Most: 100})
	webhook.NewDecisions(logr.Discard(), 0, &r)
	controllers.NewGuardMetric(&r).Set(controllers.GuardArmed)
	controllers.NewRegisteredMetric(&r).Set(map[string]string{"pods.mutate.podgrace.dev": "", "delete.removal.podgrace.dev": ""})
	lookup.NewWatchErrorHandler(&r)
	intake.NewHandshakeLog(&r, logr.Discard())
	version.NewMetric(&r, version.Info{})
	intake.NewServingMetrics(&r, func() bool { return true }, certificateOfSamples)
	return r.collectors
}

// ofTheNodeEnforcer are those of cmd/nodeenforcer.
func ofTheNodeEnforcer() []prometheus.Collector {
	var r registered
	version.NewMetric(&r, version.Info{})
	status.NewMetrics(&r)
	return r.collectors
}

// ofTheFencer are those of cmd/fencer.
func ofTheFencer() []prometheus.Collector {
	var r registered
	version.NewMetric(&r, version.Info{})
	controller.NewMetrics(&r)
	return r.collectors
}

// ofTheVolumeLock are those of cmd/volumelock.
func ofTheVolumeLock() []prometheus.Collector {
	var r registered
	version.NewMetric(&r, version.Info{})
	volumelockcontroller.NewMetrics(&r)
	volumelockcontroller.NewCensusMetric(&r, func() (volumelock.Census, bool) { return censusOfSamples, true })
	return r.collectors
}

// desc is what prometheus.Desc tells by its String alone.
var desc = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "(.*)", unit: "[^"]*", constLabels: \{\}, variableLabels: \{(.*)\}\}$`)

// describe returns what collectors can tell, by name.
func describe(t *testing.T, collectors []prometheus.Collector) []metric {
	t.Helper()
	var all []metric
	for _, c := range collectors {
		for _, d := range described(c) {
			part := desc.FindStringSubmatch(d.String())
			if part == nil {
				t.Fatalf("%s is not as expected", d)
			}
			m := metric{name: part[1], help: part[2], kind: kindOf(c)}
			if part[3] != "" {
				m.labels = strings.Split(part[3], ",")
			}
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	return all
}

func described(c prometheus.Collector) (all []*prometheus.Desc) {
	ch := make(chan *prometheus.Desc)
	go func() { c.Describe(ch); close(ch) }()
	for d := range ch {
		all = append(all, d)
	}
	return all
}

// kindOf returns the type, of a counter also where a collector of ours has one in it. Other collectors of our own give gauges (TestCollectorsOfOurOwn).
func kindOf(c prometheus.Collector) string {
	switch c.(type) {
	case prometheus.Gauge: // which has a Counter's methods as well
		return gauge
	case interface {
		WithLabelValues(values ...string) prometheus.Counter
	}, prometheus.Counter:
		return counter
	case *prometheus.HistogramVec, prometheus.Histogram:
		return histogram
	}
	return gauge
}

// unit is the last word of a name by Prometheus' rules, or what the help says.
func (m metric) unit() string {
	base := strings.TrimSuffix(m.name, "_total")
	for _, u := range []string{"seconds", "bytes", "inodes", "processes"} {
		if strings.HasSuffix(base, "_timestamp_"+u) {
			return u + " since 1970"
		}
		if strings.HasSuffix(base, "_"+u) {
			return u
		}
	}
	return ""
}

// others are metrics that our alerts and pages name and that others' code registers: controller-runtime's in the webhook,
// client-go's in both, the API server's own, and those of kube-state-metrics (its docs/metrics/workload, all of them stable).
var others = []struct {
	metric
	by string
}{
	{metric{"controller_runtime_webhook_latency_seconds", "How long an answer took, by the path that the API server called.", histogram, []string{"webhook"}}, "webhook"},
	{metric{"controller_runtime_webhook_requests_total", "Requests of the API server, by path and HTTP status: a refusal is a 200 too.", counter, []string{"webhook", "code"}}, "webhook"},
	{metric{"controller_runtime_reconcile_errors_total", "Failures of the leader's controllers, also the volume lock's, each of which is tried again.", counter, []string{"controller"}}, "webhook"},
	{metric{"leader_election_master_status", "1 for the replica that leads, with the name podgrace-webhook, or podgrace-volumelock.", gauge, []string{"name"}}, "webhook"},
	{metric{"apiserver_admission_webhook_fail_open_count", "Requests that were let through unasked, because the webhook could not be reached in time.", counter, []string{"name", "type"}}, "API server"},
	{metric{"apiserver_validating_admission_policy_check_total", "Requests by what ValidatingAdmissionPolicies did with them, `limits.podgrace.dev` among them.", counter, []string{"enforcement_action", "error_type", "policy", "policy_binding"}}, "API server"},
	{metric{"apiserver_admission_webhook_admission_duration_seconds", "How long a call took as the API server sees it, also one that got no answer.", histogram, []string{"name", "type", "operation", "rejected"}}, "API server"},
	{metric{"apiserver_admission_webhook_rejection_count", "Requests that were refused; error_type calling_webhook_error: because the webhook could not be reached in time.", counter, []string{"name", "type", "operation", "error_type", "rejection_code"}}, "API server"},
	{metric{"kube_daemonset_status_desired_number_scheduled", "Nodes that should run a pod of the DaemonSet.", gauge, []string{"namespace", "daemonset"}}, "kube-state-metrics"},
	{metric{"kube_daemonset_status_number_ready", "Nodes that run one that is ready.", gauge, []string{"namespace", "daemonset"}}, "kube-state-metrics"},
	{metric{"kube_deployment_spec_replicas", "Replicas that the Deployment should have.", gauge, []string{"namespace", "deployment"}}, "kube-state-metrics"},
	{metric{"kube_deployment_status_replicas_available", "Replicas that are available.", gauge, []string{"namespace", "deployment"}}, "kube-state-metrics"},
}

func metricsPage(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`# Metrics

This page is made from the code (` + "`go test ./docs -update`" + ` writes it). Names and labels are kept: a change of one is told in the [changelog](../CHANGELOG.md).
[Alerts](operations.md#alerts) are made of these.

## The webhook

Port 8080 of each replica. Counters are each replica's own: sum over them.

`)
	table(&b, describe(t, ofTheWebhook(t)))
	b.WriteString("\n## The node enforcer\n\nPort 10347 (`nodeEnforcer.ports.metrics` of the chart), on the node's loopback unless `--metrics-bind-address` says otherwise (the component `monitoring` does).\n\n")
	table(&b, describe(t, ofTheNodeEnforcer()))
	b.WriteString("\n## The fencer\n\nPort 8080 of each replica. The leader tells what is; counters are each replica's own.\n\n")
	table(&b, describe(t, ofTheFencer()))
	b.WriteString("\n## The volume lock\n\nPort 8080 of each replica. The leader tells what is; counters are each replica's own.\n\n")
	table(&b, describe(t, ofTheVolumeLock()))
	b.WriteString("\n## Others' that the alerts use\n\n| metric | of | type | labels | meaning |\n|---|---|---|---|---|\n")
	for _, o := range others {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", o.name, o.by, o.kind, code(o.labels), o.help)
	}
	b.WriteString("\nAll programs also tell what every program in Go and of Kubernetes tells: `go_*`, `process_*` and `rest_client_requests_total`.\n")
	return b.String()
}

func table(b *strings.Builder, all []metric) {
	b.WriteString("| metric | type | labels | unit | meaning |\n|---|---|---|---|---|\n")
	for _, m := range all {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", m.name, m.kind, code(m.labels), m.unit(), m.help)
	}
}

func code(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "`" + w + "`"
	}
	return strings.Join(quoted, ", ")
}

func TestMetricsPageIsFresh(t *testing.T) { fresh(t, "metrics.md", metricsPage(t)) }

// inBoth is the one metric that all programs have.
const inBoth = "podgrace_build_info"

// Prometheus' own rules for names: base units, _total for counters only, help for all.
func TestMetricNames(t *testing.T) {
	var text strings.Builder
	seen := map[string]bool{}
	for _, m := range slices.Concat(describe(t, ofTheWebhook(t)), describe(t, ofTheNodeEnforcer()), describe(t, ofTheFencer()), describe(t, ofTheVolumeLock())) {
		if seen[m.name] {
			if m.name != inBoth {
				t.Errorf("%s is there twice", m.name)
			}
			continue
		}
		seen[m.name] = true
		if !strings.HasPrefix(m.name, "podgrace_") {
			t.Errorf("%s does not begin with podgrace_", m.name)
		}
		exposition(&text, m)
	}
	if len(seen) == 0 {
		t.Fatal("no metrics")
	}
	problems, err := promlint.New(strings.NewReader(text.String())).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// exposition writes a sample of the metric in the text format.
func exposition(b *strings.Builder, m metric) {
	var labels []string
	for _, l := range m.labels {
		labels = append(labels, l+`="x"`)
	}
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
	with := strings.Join(labels, ",")
	if m.kind != histogram {
		fmt.Fprintf(b, "%s{%s} 1\n", m.name, with)
		return
	}
	fmt.Fprintf(b, "%[1]s_bucket{%[2]s} 1\n%[1]s_sum{%[3]s} 1\n%[1]s_count{%[3]s} 1\n", m.name, strings.Join(append(labels, `le="+Inf"`), ","), with)
}

// kindOf takes what it does not know for gauges: so it must be.
func TestCollectorsOfOurOwn(t *testing.T) {
	gathered := 0
	for _, c := range slices.Concat(ofTheWebhook(t), ofTheNodeEnforcer(), ofTheFencer(), ofTheVolumeLock()) {
		if kindOf(c) != gauge {
			continue
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(c)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			gathered++
			if kind := strings.ToLower(f.GetType().String()); kind != gauge {
				t.Errorf("%s is a %s", f.GetName(), kind)
			}
		}
	}
	if gathered < 2 {
		t.Errorf("only %d were looked at", gathered)
	}
}

// Others' metrics are there, with their labels: the registry refuses another description of the same name. The API server's are
// looked at where its libraries are (e2e/monitoring); kube-state-metrics is no library of ours.
func TestOthersMetricsExist(t *testing.T) {
	for _, o := range others {
		if o.by != "webhook" {
			continue
		}
		err := controllermetrics.Registry.Register(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: o.name, Help: "not the help of this metric"}, o.labels))
		if err == nil || !strings.Contains(err.Error(), "fully-qualified name") {
			t.Errorf("%s is not registered: %v", o.name, err)
		}
	}
}
