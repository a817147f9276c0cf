package monitoring

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
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
	for _, file := range testFiles {
		promtool(t, "test", "rules", filepath.Join(folder, file))
	}
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
	if d := gocmp.Diff(shown, tested); d != "" || len(shown) == 0 {
		t.Errorf("(-page +tested):\n%s", d)
	}
	// What is tested so holds for the dashboard's panels by namespace, which are made by the same function.
	for i, want := range []string{
		decided("namespace, policy", `verdict="Warn", reason="Unsafe"`, "7d") + " > 0",
		"topk(10, " + decided("namespace, policy, reason", `verdict="Deny"`, "1d") + " > 0)",
	} {
		if d := gocmp.Diff(parse(t, "dashboard", want).String(), parse(t, "page", tested[i]).String()); d != "" {
			t.Errorf("(-dashboard +page):\n%s", d)
		}
	}
}

// testFiles are the cases of rules.yaml for promtool, in folder.
var testFiles = []string{"rules_test.yaml", "slo_test.yaml"}

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

// allRules are alerts and recording rules.
func allRules(t *testing.T) (all []monitoringv1.Rule) {
	t.Helper()
	for _, g := range read[monitoringv1.PrometheusRuleSpec](t, filepath.Join(folder, "rules.yaml")).Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// rules are the alerts.
func rules(t *testing.T) (all []monitoringv1.Rule) {
	t.Helper()
	for _, r := range allRules(t) {
		if r.Alert != "" {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		t.Fatal("no rules")
	}
	return all
}

// named is what a rule is called.
func named(r monitoringv1.Rule) string { return cmp.Or(r.Alert, r.Record+" "+r.Labels["slo"]) }

func parse(t *testing.T, what, text string) parser.Expr {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return expr
}

// ruleCases is a file of cases for promtool.
type ruleCases struct {
	RuleFiles          []string   `json:"rule_files"`
	EvaluationInterval string     `json:"evaluation_interval"`
	Tests              []ruleCase `json:"tests"`
}

type ruleCase struct {
	Name        string   `json:"name"`
	Interval    string   `json:"interval"`
	InputSeries []series `json:"input_series"`
	Expect      []expect `json:"promql_expr_test"`
}

type series struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

type expect struct {
	Expr       string   `json:"expr"`
	EvalTime   string   `json:"eval_time"`
	ExpSamples []sample `json:"exp_samples"`
}

type sample struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

// alert is what the case is about.
func (c ruleCase) alert() string { return strings.SplitN(c.Name, ":", 2)[0] }

func (c ruleCase) fires() bool {
	return slices.ContainsFunc(c.Expect, func(e expect) bool { return len(e.ExpSamples) > 0 })
}

// Each alert has a case in which it fires, and one in which it does not.
func TestEachAlertIsTestedBothWays(t *testing.T) {
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, file := range testFiles {
		for _, c := range read[ruleCases](t, filepath.Join(folder, file)).Tests {
			for _, e := range c.Expect {
				into := quiet
				if len(e.ExpSamples) > 0 {
					into = fires
				}
				into[e.Expr] = true
			}
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

// One ruler evaluates the rules over two clusters. Each case is put beside one of the same alert that ends the other way, each as a cluster of its
// own: of either cluster the alert says what it says where that is alone.
func TestTwoClusters(t *testing.T) {
	abs, err := filepath.Abs(filepath.Join(folder, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range testFiles {
		cases := read[ruleCases](t, filepath.Join(folder, file))
		merged := ruleCases{RuleFiles: []string{abs}, EvaluationInterval: cases.EvaluationInterval}
		for _, c := range cases.Tests {
			// Cases that name clusters themselves are such already.
			if slices.ContainsFunc(c.InputSeries, func(s series) bool { return strings.Contains(s.Series, "cluster=") }) {
				continue
			}
			i := slices.IndexFunc(cases.Tests, func(o ruleCase) bool {
				return o.alert() == c.alert() && o.fires() != c.fires() && o.Interval == c.Interval &&
					!slices.ContainsFunc(o.InputSeries, func(s series) bool { return strings.Contains(s.Series, "cluster=") })
			})
			if i < 0 {
				t.Errorf("%s: no case that ends the other way", c.Name)
				continue
			}
			both := ruleCase{Name: c.Name + " / " + cases.Tests[i].Name, Interval: c.Interval}
			for cluster, of := range map[string]ruleCase{"one": c, "two": cases.Tests[i]} {
				label := `cluster="` + cluster + `", `
				for _, s := range of.InputSeries {
					both.InputSeries = append(both.InputSeries, series{strings.Replace(s.Series, "{", "{"+label, 1), s.Values})
				}
				for _, e := range of.Expect {
					e.Expr = strings.Replace(e.Expr, "{", "{"+label, 1)
					e.ExpSamples = slices.Clone(e.ExpSamples)
					for i := range e.ExpSamples {
						e.ExpSamples[i].Labels = strings.Replace(e.ExpSamples[i].Labels, "{", "{"+label, 1)
					}
					both.Expect = append(both.Expect, e)
				}
			}
			merged.Tests = append(merged.Tests, both)
		}
		text, err := yaml.Marshal(merged)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), file)
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		promtool(t, "test", "rules", name)
	}
}

// Every aggregation and every match keeps the cluster, and the word is nothing but that label: the chart writes another one in its place.
func TestRulesKeepTheCluster(t *testing.T) {
	word := regexp.MustCompile(`\b` + clusterLabel + `\b`)
	for _, r := range allRules(t) {
		text := r.Expr.String()
		kept := 0
		parser.Inspect(parse(t, named(r), text), func(node parser.Node, _ []parser.Node) error {
			switch n := node.(type) {
			case *parser.AggregateExpr:
				if n.Without || !slices.Contains(n.Grouping, clusterLabel) {
					t.Errorf("%s: %s does not keep the label %s", named(r), n, clusterLabel)
				}
				kept++
			case *parser.BinaryExpr:
				if n.VectorMatching == nil || !n.VectorMatching.On {
					break
				}
				if slices.Contains(n.VectorMatching.MatchingLabels, clusterLabel) {
					kept++
				} else if !strings.Contains(n.RHS.String(), "podgrace_slo:objective") { // which is one for all
					t.Errorf("%s: %s matches series of different clusters", named(r), n)
				}
			case *parser.VectorSelector:
				for _, m := range n.LabelMatchers {
					if m.Name == clusterLabel {
						kept++
					}
				}
			case *parser.Call:
				if n.Func.Name == "absent" && r.Alert != "PodgraceWebhookDown" {
					t.Errorf("%s: of one cluster among many nothing is absent", named(r))
				}
			}
			return nil
		})
		if words := len(word.FindAllString(text, -1)); words != kept {
			t.Errorf("%s: the word %s is there %d times, and %d times it is the label", named(r), clusterLabel, words, kept)
		}
	}
}

// thresholdAtEnd is what the chart replaces by an alert's threshold.
var thresholdAtEnd = regexp.MustCompile(`[<>] ([0-9.]+)\s*$`)

// Where an expression ends by comparing with a number, that number alone decides: the comparison is all of the expression.
func TestThresholds(t *testing.T) {
	found := 0
	for _, r := range rules(t) {
		text := r.Expr.String()
		if !thresholdAtEnd.MatchString(text) {
			continue
		}
		found++
		all, ok := parse(t, r.Alert, text).(*parser.BinaryExpr)
		if !ok || !all.Op.IsComparisonOperator() {
			t.Errorf("%s ends by a number, which is not its threshold", r.Alert)
			continue
		}
		if _, ok := all.RHS.(*parser.NumberLiteral); !ok {
			t.Errorf("%s: its threshold is %s", r.Alert, all.RHS)
		}
	}
	if found < 15 {
		t.Errorf("only %d alerts have a threshold", found)
	}
}

// row is a metric of docs/metrics.md, which the code is made into.
var row = regexp.MustCompile("(?m)^\\| `([a-z_:]+)` \\| (?:(?:webhook|API server|kube-state-metrics) \\| )?(counter|gauge|histogram) \\| ([^|]*) \\|(?: (?:[a-z0-9 ]*) \\|)? ([^|]*) \\|$")

// documented returns each metric by its name.
func documented(t *testing.T) map[string]metric {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string]metric{"up": {help: "1 where Prometheus reaches the program."}}
	for _, r := range row.FindAllStringSubmatch(string(page), -1) {
		m := metric{strings.FieldsFunc(r[3], func(c rune) bool { return strings.ContainsRune("`, ", c) }), r[4]}
		if r[2] != "histogram" {
			metrics[r[1]] = m
			continue
		}
		for _, part := range []string{"_sum", "_count"} {
			metrics[r[1]+part] = m
		}
		metrics[r[1]+"_bucket"] = metric{append(slices.Clone(m.labels), "le"), m.help}
	}
	if n := strings.Count(string(page), "\n| `"); n < 40 || len(row.FindAllString(string(page), -1)) != n {
		t.Fatalf("of %d rows of docs/metrics.md %d are understood", n, len(row.FindAllString(string(page), -1)))
	}
	for _, r := range allRules(t) {
		if r.Record != "" {
			metrics[r.Record] = metric{labels: []string{"slo"}, help: "Of the service level objectives, made by the rules."}
		}
	}
	return metrics
}

// objective is the record of what is promised, by slo.
const objective = "podgrace_slo:objective"

// Every metric that a rule names exists, with every label that the rule selects or groups by.
func TestRulesNameWhatExists(t *testing.T) {
	metrics := documented(t)
	for _, r := range allRules(t) {
		if namesWhatExists(t, named(r), r.Expr.String(), metrics) == 0 && r.Record != objective {
			t.Errorf("%s looks at no metric", named(r))
		}
	}
}

// namesWhatExists fails where an expression names a metric or a label that there is not, and returns how many metrics it names.
func namesWhatExists(t *testing.T, what, text string, metrics map[string]metric) int {
	t.Helper()
	scraped := []string{"job", "instance", clusterLabel}
	expr := parse(t, what, text)
	known, selectors := slices.Clone(scraped), parser.ExtractSelectors(expr)
	for _, selector := range selectors {
		name := ""
		for _, m := range selector {
			if m.Name == "__name__" {
				name = m.Value
			}
		}
		of, exists := metrics[name]
		if !exists {
			t.Errorf("%s: metric %s is not in docs/metrics.md", what, name)
		}
		known = append(known, of.labels...)
		for _, m := range selector {
			if m.Name != "__name__" && !slices.Contains(slices.Concat(of.labels, scraped), m.Name) {
				t.Errorf("%s: %s has no label %s", what, name, m.Name)
			}
		}
	}
	for _, label := range grouped(expr) {
		if !slices.Contains(known, label) {
			t.Errorf("%s groups by %s, which none of its metrics has", what, label)
		}
	}
	return len(selectors)
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

// appVersion is the version that the chart installs: runbooks are that version's.
func appVersion(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/chart/podgrace/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^appVersion: (\S+)$`).FindSubmatch(text)
	if version == nil {
		t.Fatal("the chart has no appVersion")
	}
	return string(version[1])
}

var templated = regexp.MustCompile(`\$labels\.(\w+)`)

// An annotation names only labels that the alert has, and the runbook's heading is there.
func TestAnnotations(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics := documented(t)
	base := "https://github.com/podgrace/podgrace/blob/" + appVersion(t) + "/docs/operations.md#"
	for _, r := range rules(t) {
		for _, key := range []string{"summary", "description", "runbook_url"} {
			if r.Annotations[key] == "" {
				t.Errorf("%s has no %s", r.Alert, key)
			}
		}
		if want := base + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: the runbook is %s, want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		if !strings.Contains(string(page), "\n### "+r.Alert+"\n") {
			t.Errorf("docs/operations.md has no heading %q", "### "+r.Alert)
		}
		if r.Labels["severity"] != "critical" && r.Labels["severity"] != "warning" {
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		}
		has := labelsOf(parse(t, r.Alert, r.Expr.String()), metrics)
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
func labelsOf(expr parser.Expr, metrics map[string]metric) []string {
	if labels := grouped(expr); len(labels) > 0 {
		return labels
	}
	labels := []string{"job", "instance"}
	for _, selector := range parser.ExtractSelectors(expr) {
		for _, m := range selector {
			if m.Name == "__name__" {
				labels = append(labels, metrics[m.Value].labels...)
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
		if m.Kind != monitoringv1.PodMonitorsKind || len(m.Spec.PodMetricsEndpoints) != 1 || *m.Spec.PodMetricsEndpoints[0].Port != "metrics" || !m.Spec.PodMetricsEndpoints[0].HonorLabels || m.Spec.JobLabel != "app.kubernetes.io/name" {
			t.Errorf("got %+v", m)
		}
		jobs = append(jobs, m.Spec.Selector.MatchLabels["app.kubernetes.io/name"])
	}
	if diff := gocmp.Diff([]string{"podgrace-webhook", "podgrace-fencer", "podgrace-volumelock", "podgrace-nodeenforcer"}, jobs); diff != "" {
		t.Error(diff)
	}
}
