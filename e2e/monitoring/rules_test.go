package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/promql/parser"
	"gotest.tools/v3/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// folder holds the rules, their tests and what to scrape.
const folder = "../../deploy/monitoring"

// promtool runs Prometheus' own program, without its service discoveries of clouds: they are most of what would be compiled.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"tool", "promtool"}, args...)...)
	command.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -tags=remove_all_sd")
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPromtool(t *testing.T) {
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", filepath.Join(folder, "rules.yaml"))
	promtool(t, "check", "config", filepath.Join(folder, "scrape.yaml"))
	promtool(t, "test", "rules", filepath.Join(folder, "rules_test.yaml"))
}

// The queries that docs/logs.md shows are those that are tested.
func TestQueriesOfTheLogsPage(t *testing.T) {
	file := filepath.Join(folder, "queries_test.yaml")
	promtool(t, "test", "rules", file)
	tests := read[struct {
		RuleFiles          []string `json:"rule_files"`
		EvaluationInterval string   `json:"evaluation_interval"`
		Tests              []struct {
			Name, Interval string
			InputSeries    []any `json:"input_series"`
			Expressions    []struct {
				Expr    string
				At      string `json:"eval_time"`
				Samples []any  `json:"exp_samples"`
			} `json:"promql_expr_test"`
		}
	}](t, file)
	var tested, shown []string
	for _, test := range tests.Tests {
		for _, e := range test.Expressions {
			tested = append(tested, e.Expr)
		}
	}
	page, err := os.ReadFile("../../docs/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```promql\n(.*?)\n```").FindAllStringSubmatch(string(page), -1) {
		shown = append(shown, m[1])
	}
	if d := cmp.Diff(shown, tested); d != "" || len(shown) == 0 {
		t.Errorf("(-page +tested):\n%s", d)
	}
}

func read[T any](t *testing.T, file string) (content T) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &content); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return content
}

func rules(t *testing.T) (all []monitoringv1.Rule) {
	t.Helper()
	for _, g := range read[monitoringv1.PrometheusRuleSpec](t, filepath.Join(folder, "rules.yaml")).Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no rules")
	}
	return all
}

// Each alert has a case in which it fires, and one in which it does not.
func TestEachAlertIsTestedBothWays(t *testing.T) {
	type expectation struct {
		Expr       string `json:"expr"`
		EvalTime   any    `json:"eval_time"`
		ExpSamples []any  `json:"exp_samples"`
	}
	cases := read[struct {
		RuleFiles          any `json:"rule_files"`
		EvaluationInterval any `json:"evaluation_interval"`
		Tests              []struct {
			Name        string        `json:"name"`
			Interval    any           `json:"interval"`
			InputSeries []any         `json:"input_series"`
			Expect      []expectation `json:"promql_expr_test"`
		} `json:"tests"`
	}](t, filepath.Join(folder, "rules_test.yaml"))
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, c := range cases.Tests {
		for _, e := range c.Expect {
			into := quiet
			if len(e.ExpSamples) > 0 {
				into = fires
			}
			into[e.Expr] = true
		}
	}
	for _, r := range rules(t) {
		expr := `ALERTS{alertname="` + r.Alert + `", alertstate="firing"}`
		if !fires[expr] || !quiet[expr] {
			t.Errorf("%s: fires in a case: %t, and does not in another: %t", r.Alert, fires[expr], quiet[expr])
		}
		delete(fires, expr)
		delete(quiet, expr)
	}
	for expr := range fires {
		t.Errorf("a case is about %s, which is no rule", expr)
	}
	for expr := range quiet {
		t.Errorf("a case is about %s, which is no rule", expr)
	}
}

// row is a metric of docs/metrics.md, which the code is made into.
var row = regexp.MustCompile("(?m)^\\| `([a-z_:]+)` \\| (?:(?:webhook|API server|kube-state-metrics) \\| )?(counter|gauge|histogram) \\| ([^|]*) \\|")

// documented returns the labels of each metric.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string][]string{"up": {}}
	for _, r := range row.FindAllStringSubmatch(string(page), -1) {
		labels := strings.FieldsFunc(r[3], func(c rune) bool { return strings.ContainsRune("`, ", c) })
		names := []string{r[1]}
		if r[2] == "histogram" {
			names = []string{r[1] + "_bucket", r[1] + "_sum", r[1] + "_count"}
			metrics[r[1]+"_bucket"] = append(slices.Clone(labels), "le")
		}
		for _, name := range names {
			metrics[name] = append(metrics[name], labels...)
		}
	}
	return metrics
}

// Every metric that a rule names exists, with every label that the rule selects or groups by.
func TestRulesNameWhatExists(t *testing.T) {
	metrics := documented(t)
	scraped := []string{"job", "instance"}
	for _, r := range rules(t) {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr.String())
		if err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		known, selectors := slices.Clone(scraped), parser.ExtractSelectors(expr)
		if len(selectors) == 0 {
			t.Errorf("%s looks at no metric", r.Alert)
		}
		for _, selector := range selectors {
			name := ""
			for _, m := range selector {
				if m.Name == "__name__" {
					name = m.Value
				}
			}
			labels, exists := metrics[name]
			if !exists {
				t.Errorf("%s: metric %s is not in docs/metrics.md", r.Alert, name)
			}
			known = append(known, labels...)
			for _, m := range selector {
				if m.Name != "__name__" && !slices.Contains(slices.Concat(labels, scraped), m.Name) {
					t.Errorf("%s: %s has no label %s", r.Alert, name, m.Name)
				}
			}
		}
		for _, label := range grouped(expr) {
			if !slices.Contains(known, label) {
				t.Errorf("%s groups by %s, which none of its metrics has", r.Alert, label)
			}
		}
	}
}

func grouped(expr parser.Expr) (labels []string) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if a, ok := node.(*parser.AggregateExpr); ok {
			labels = append(labels, a.Grouping...)
		}
		return nil
	})
	return labels
}

var templated = regexp.MustCompile(`\$labels\.(\w+)`)

// An annotation names only labels that the alert has, and the runbook's heading is there.
func TestAnnotations(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics := documented(t)
	for _, r := range rules(t) {
		for _, key := range []string{"summary", "description", "runbook_url"} {
			if r.Annotations[key] == "" {
				t.Errorf("%s has no %s", r.Alert, key)
			}
		}
		if want := "https://github.com/podgrace/podgrace/blob/main/docs/operations.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: the runbook is %s, want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		if !strings.Contains(string(page), "\n### "+r.Alert+"\n") {
			t.Errorf("docs/operations.md has no heading %q", "### "+r.Alert)
		}
		if r.Labels["severity"] != "critical" && r.Labels["severity"] != "warning" {
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		}
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr.String())
		if err != nil {
			t.Fatal(err)
		}
		has := labelsOf(expr, metrics)
		for _, text := range r.Annotations {
			for _, label := range templated.FindAllStringSubmatch(text, -1) {
				if !slices.Contains(has, label[1]) {
					t.Errorf("%s tells its label %s, and has only %v", r.Alert, label[1], has)
				}
			}
		}
	}
}

// labelsOf are the labels that an expression leaves: those of its first aggregation, else those of its metrics.
func labelsOf(expr parser.Expr, metrics map[string][]string) []string {
	if labels := grouped(expr); len(labels) > 0 {
		return labels
	}
	labels := []string{"job", "instance"}
	for _, selector := range parser.ExtractSelectors(expr) {
		for _, m := range selector {
			if m.Name == "__name__" {
				labels = append(labels, metrics[m.Value]...)
			}
		}
	}
	return labels
}

// The PrometheusRule has the same rules; go test -update writes it.
func TestPrometheusRuleIsFresh(t *testing.T) {
	const file = "../../deploy/components/monitoring/prometheusrule.yaml"
	const head = "# The rules of deploy/monitoring/rules.yaml (go test -C e2e/monitoring . -update writes this file).\n"
	want := monitoringv1.PrometheusRule{
		TypeMeta: metav1.TypeMeta{APIVersion: monitoringv1.SchemeGroupVersion.String(), Kind: monitoringv1.PrometheusRuleKind},
		ObjectMeta: metav1.ObjectMeta{
			Name: "podgrace", Namespace: "podgrace-system", Labels: map[string]string{"app.kubernetes.io/part-of": "podgrace"},
		},
		Spec: read[monitoringv1.PrometheusRuleSpec](t, filepath.Join(folder, "rules.yaml")),
	}
	text, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, head+string(text), filepath.Join("..", file))
}

// The operator's own types take what we give it, and it selects what is there: labels and ports as the Deployment and the DaemonSet have.
func TestPodMonitors(t *testing.T) {
	text, err := os.ReadFile("../../deploy/components/monitoring/podmonitors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var jobs []string
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var m monitoringv1.PodMonitor
		if err := yaml.UnmarshalStrict([]byte(document), &m); err != nil {
			t.Fatal(err)
		}
		if m.Kind != monitoringv1.PodMonitorsKind || len(m.Spec.PodMetricsEndpoints) != 1 || *m.Spec.PodMetricsEndpoints[0].Port != "metrics" || m.Spec.JobLabel != "app.kubernetes.io/name" {
			t.Errorf("got %+v", m)
		}
		jobs = append(jobs, m.Spec.Selector.MatchLabels["app.kubernetes.io/name"])
	}
	if diff := cmp.Diff([]string{"podgrace-webhook", "podgrace-fencer", "podgrace-nodeenforcer"}, jobs); diff != "" {
		t.Error(diff)
	}
}
