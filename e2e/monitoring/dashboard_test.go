package monitoring

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	grafana "github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"gotest.tools/v3/golden"
	"sigs.k8s.io/yaml"
)

// The ConfigMap has the dashboard as the code makes it; go test -update writes it.
func TestDashboardIsFresh(t *testing.T) {
	text, err := dashboard(documented(t), appVersion(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 900_000 {
		t.Errorf("the dashboard has %d bytes: a ConfigMap takes 1 MiB", len(text))
	}
	configMap, err := yaml.Marshal(object{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": object{"name": "podgrace-dashboard", "namespace": "podgrace-system", "labels": object{"app.kubernetes.io/part-of": "podgrace", "grafana_dashboard": "1"}},
		"data":     object{"podgrace.json": string(text)},
	})
	if err != nil {
		t.Fatal(err)
	}
	const head = "# Made by e2e/monitoring/dashboard.go (go test -C e2e/monitoring . -update writes this file).\n"
	golden.Assert(t, head+string(configMap), filepath.Join("..", "../../deploy/components/dashboard/configmap.yaml"))
}

func queries() map[string]query {
	all := map[string]query{}
	for _, s := range rows() {
		for _, p := range s.panels {
			for i, q := range p.queries {
				all[fmt.Sprintf("%s / %s / %d", s.title, p.title, i)] = q
			}
		}
	}
	return all
}

var braced = regexp.MustCompile(`\{\{(\w+)\}\}`)

// Every query is PromQL, names metrics and labels that exist, keeps to the chosen clusters, and is called by labels that its series have.
func TestDashboardNamesWhatExists(t *testing.T) {
	metrics := documented(t)
	for what, q := range queries() {
		expr := concrete(q.expr)
		if namesWhatExists(t, what, expr, metrics) == 0 {
			t.Errorf("%s looks at no metric", what)
		}
		has := labelsOf(parse(t, what, expr), metrics)
		for _, label := range braced.FindAllStringSubmatch(q.legend, -1) {
			if !slices.Contains(has, label[1]) && label[1] != clusterLabel {
				t.Errorf("%s is called by %s, and has only %v", what, label[1], has)
			}
		}
		for _, selector := range regexp.MustCompile(`\b(podgrace|apiserver|kube|controller_runtime|leader_election|up)[a-z_:0-9]*\{[^}]*\}`).FindAllString(expr, -1) {
			if !strings.Contains(selector, `cluster=~"$cluster"`) && !strings.Contains(selector, objective) {
				t.Errorf("%s: %s is of all clusters", what, selector)
			}
		}
	}
}

// Whatever the programs tell is on the dashboard.
func TestDashboardShowsEveryMetric(t *testing.T) {
	shown := map[string]bool{}
	for _, q := range queries() {
		for _, name := range namesIn(q.expr) {
			shown[name] = true
		}
	}
	for name := range documented(t) {
		base := regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(name, "")
		if strings.HasPrefix(name, "podgrace_") && !strings.Contains(name, ":") && !shown[name] && !shown[base+"_bucket"] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// Grafana's own schema, as its Foundation SDK has it for Go, takes the model, and knows each key of it, those of panels and queries too.
func TestDashboardKeepsGrafanasSchema(t *testing.T) {
	text, err := dashboard(documented(t), appVersion(t))
	if err != nil {
		t.Fatal(err)
	}
	plugins.RegisterDefaultPlugins()
	var d grafana.Dashboard //nolint:staticcheck // dashboardv2 is of Grafana 12 and later; every version reads this model
	// It returns an error without any problem in it where all is well (v0.0.22).
	var problems cog.BuildErrors
	if err := d.UnmarshalJSONStrict(text); err != nil && (!errors.As(err, &problems) || len(problems) > 0) {
		t.Fatal(err)
	}
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
	if len(d.Panels) < 40 {
		t.Errorf("it sees %d panels", len(d.Panels))
	}
}

// model is what we look at of the dashboard.
type model struct {
	Templating struct{ List []map[string]any }
	Panels     []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ H, W, X, Y int }
		Targets                  []struct {
			RefID          string
			Datasource     map[string]string
			Instant, Range bool
		}
		FieldConfig struct {
			Defaults struct {
				Thresholds struct{ Steps []struct{ Value *float64 } }
			}
		}
	}
}

// What no schema says: ids and references are each one's own, panels do not overlap, variables exist. Grafana itself, which would draw it, is not here.
func TestDashboardModel(t *testing.T) {
	text, err := dashboard(documented(t), appVersion(t))
	if err != nil {
		t.Fatal(err)
	}
	var m model
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	variables := map[string]bool{"__rate_interval": true}
	for _, v := range m.Templating.List {
		variables[v["name"].(string)] = true
	}
	for _, v := range regexp.MustCompile(`\$\{?(\w+)`).FindAllSubmatch(text, -1) {
		if !variables[string(v[1])] && string(v[1]) != "__all" {
			t.Errorf("there is no variable %s", v[1])
		}
	}
	ids, taken, below := map[int]bool{}, map[[2]int]string{}, 0
	for _, p := range m.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: the id %d is there twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		if !slices.Contains([]string{"row", lines, stat, bars, state}, p.Type) || p.Title == "" {
			t.Errorf("panel %d %q is a %q", p.ID, p.Title, p.Type)
		}
		at := p.GridPos
		if at.W < 1 || at.H < 1 || at.X+at.W > columns || at.Y < below && p.Type == "row" {
			t.Errorf("%s is at %+v", p.Title, at)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s is over %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		below = max(below, at.Y+at.H)
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("%s says nothing, or asks nothing", p.Title)
		}
		references := map[string]bool{}
		for _, target := range p.Targets {
			if references[target.RefID] || target.Instant == target.Range || target.Datasource["uid"] != "${datasource}" {
				t.Errorf("%s: target %+v", p.Title, target)
			}
			references[target.RefID] = true
		}
		for i, step := range p.FieldConfig.Defaults.Thresholds.Steps {
			if (i == 0) != (step.Value == nil) || i > 1 && *step.Value <= *p.FieldConfig.Defaults.Thresholds.Steps[i-1].Value {
				t.Errorf("%s: thresholds do not rise", p.Title)
			}
		}
		if word := regexp.MustCompile(`\b` + clusterLabel + `\b`); word.MatchString(p.Title) || word.MatchString(p.Description) {
			t.Errorf("%s: the chart would replace the word %s", p.Title, clusterLabel)
		}
	}
	if len(m.Panels) < 40 {
		t.Errorf("only %d panels", len(m.Panels))
	}
}

// othersSamples are what other programs tell, by the labels of docs/metrics.md. Counters grow by their value each minute.
const othersSamples = `
up{job="podgrace-webhook",instance="webhook"} 1
up{job="podgrace-nodeenforcer",instance="nodeenforcer"} 1
controller_runtime_webhook_latency_seconds_bucket{job="podgrace-webhook",webhook="/mutate-pods",le="0.1"} 9
controller_runtime_webhook_latency_seconds_bucket{job="podgrace-webhook",webhook="/mutate-pods",le="+Inf"} 10
controller_runtime_webhook_latency_seconds_count{job="podgrace-webhook",webhook="/mutate-pods"} 10
controller_runtime_webhook_requests_total{job="podgrace-webhook",webhook="/mutate-pods",code="200"} 10
controller_runtime_webhook_requests_total{job="podgrace-webhook",webhook="/mutate-pods",code="500"} 1
controller_runtime_reconcile_errors_total{job="podgrace-webhook",controller="cabundle"} 1
leader_election_master_status{name="podgrace-webhook",instance="webhook"} 1
controller_runtime_reconcile_errors_total{job="podgrace-volumelock",controller="volumelock"} 1
leader_election_master_status{name="podgrace-volumelock",instance="volumelock"} 1
apiserver_admission_webhook_admission_duration_seconds_bucket{name="pods.mutate.podgrace.dev",type="admit",operation="CREATE",rejected="false",le="0.1"} 9
apiserver_admission_webhook_admission_duration_seconds_bucket{name="pods.mutate.podgrace.dev",type="admit",operation="CREATE",rejected="false",le="+Inf"} 10
apiserver_admission_webhook_admission_duration_seconds_count{name="pods.mutate.podgrace.dev",type="admit",operation="CREATE",rejected="false"} 10
apiserver_admission_webhook_fail_open_count{name="pods.mutate.podgrace.dev",type="admit"} 1
apiserver_admission_webhook_rejection_count{name="delete.removal.podgrace.dev",type="validating",operation="DELETE",error_type="calling_webhook_error",rejection_code="0"} 1
apiserver_validating_admission_policy_check_total{policy="limits.podgrace.dev",policy_binding="limits.podgrace.dev",enforcement_action="deny",error_type="no_error"} 1
kube_deployment_spec_replicas{namespace="podgrace-system",deployment="podgrace-webhook"} 2
kube_deployment_status_replicas_available{namespace="podgrace-system",deployment="podgrace-webhook"} 2
kube_daemonset_status_desired_number_scheduled{namespace="podgrace-node",daemonset="podgrace-nodeenforcer"} 3
kube_daemonset_status_number_ready{namespace="podgrace-node",daemonset="podgrace-nodeenforcer"} 3
`

// recorded are series for promqltest: what each program exposes (testdata, written by the tests of docs), as if it had been scraped each minute.
func recorded(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("load 1m\n")
	add := func(text, scraped string) {
		for line := range strings.Lines(strings.TrimSpace(text)) {
			series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
			series = strings.Replace(series, "{", "{"+scraped+",", 1)
			name, _, _ := strings.Cut(series, "{")
			values := value + "+0x60"
			if regexp.MustCompile("_(total|bucket|sum|count)$").MatchString(name) {
				values = "0+" + value + "x60"
			}
			fmt.Fprintf(&b, "  %s} %s\n", strings.ReplaceAll(series, ",}", "}"), values)
		}
	}
	for _, program := range []string{"webhook", "nodeenforcer", "fencer", "volumelock"} {
		text, err := os.ReadFile(filepath.Join("testdata", program+".prom"))
		if err != nil {
			t.Fatal(err)
		}
		add(string(text), fmt.Sprintf(`cluster="one",job="podgrace-%s",instance=%q`, program, program))
	}
	add(othersSamples, `cluster="one"`)
	return strings.ReplaceAll(b.String(), ",}", "}")
}

// evaluate returns the series that an expression gives an hour after the first sample.
func evaluate(t *testing.T, engine *promql.Engine, from storage.Queryable, what, expr string) promql.Vector {
	t.Helper()
	q, err := engine.NewInstantQuery(t.Context(), from, nil, expr, time.Unix(3600, 0))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer q.Close()
	result := q.Exec(t.Context())
	if result.Err != nil {
		t.Fatalf("%s: %v", what, result.Err)
	}
	vector, err := result.Vector()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return slices.Clone(vector)
}

// On what the programs really expose, and what of it rules record, no panel is empty, and choosing another cluster empties all.
func TestDashboardShowsWhatIsRecorded(t *testing.T) {
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, 1_000_000)
	series := recorded(t)
	var records strings.Builder
	for _, r := range allRules(t) {
		if r.Record != objective && !strings.HasSuffix(r.Record, ":5m") {
			continue // an alert, or the mean of a record over a longer time
		}
		recorded := evaluate(t, engine, promqltest.LoadedStorage(t, series+records.String()), named(r), r.Expr.String())
		if len(recorded) == 0 {
			t.Errorf("nothing is recorded of %s", named(r))
		}
		for _, s := range recorded {
			of := ""
			if c := s.Metric.Get(clusterLabel); c != "" {
				of = fmt.Sprintf(",cluster=%q", c)
			}
			for _, window := range []string{"5m", "30m", "1h", "6h", "3d"} {
				fmt.Fprintf(&records, "  %s{slo=%q%s} %g+0x60\n", strings.Replace(r.Record, ":5m", ":"+window, 1), r.Labels["slo"], of, s.F)
				if r.Record == objective {
					break
				}
			}
		}
	}
	all := promqltest.LoadedStorage(t, series+records.String())
	for _, what := range slices.Sorted(maps.Keys(queries())) {
		q := queries()[what]
		choose := func(cluster string) string {
			return strings.NewReplacer("$cluster", cluster, "$namespace", ".*", "$node", ".*").Replace(concrete(q.expr))
		}
		if len(evaluate(t, engine, all, what, choose("one|two"))) == 0 {
			t.Errorf("%s is empty", what)
		}
		if rest := evaluate(t, engine, all, what, choose("two")); len(rest) > 0 {
			t.Errorf("%s shows %v of a cluster that was not chosen", what, rest)
		}
	}
}
