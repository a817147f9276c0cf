package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/cluster"
)

func rulesOf(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", rulesFile))
	if err != nil {
		t.Fatal(err)
	}
	all, err := readRules(text)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What rules name is kept of what is scraped; what other rules record is not looked for. Drills are of alerts that there are.
func TestRulesAreRead(t *testing.T) {
	rules := rulesOf(t)
	names := named(rules)
	for name, want := range map[string]bool{
		"podgrace_webhook_ready": true, "apiserver_admission_webhook_rejection_count": true, "leader_election_master_status": true, "controller_runtime_webhook_latency_seconds_bucket": true,
		"podgrace_slo": false, "podgrace_slo:bad:5m": false, "up": false, "cluster": false,
	} {
		if names[name] != want {
			t.Errorf("%s: %t", name, names[name])
		}
	}
	for _, d := range plan.Drills() {
		for alert, at := range d.Fires {
			if !slices.ContainsFunc(rules, func(r rule) bool { return r.Alert == alert }) {
				t.Errorf("%s: there is no alert %s", d.Name, alert)
			}
			if at >= d.Ticks {
				t.Errorf("%s is over when %s is to fire", d.Name, alert)
			}
		}
	}
}

const metricsOfA = "# TYPE podgrace_webhook_ready gauge\npodgrace_webhook_ready 1\npodgrace_other 4\npodgrace_removals_total{verdict=\"Deny\"} 3\n"

var ofA, ofB = `job="podgrace-webhook",instance="a"`, `job="podgrace-webhook",instance="b"`

// A series of a target that does not answer ends at once, as Prometheus has it; one that begins later was not there before.
func TestRecording(t *testing.T) {
	r := newRecording([]rule{{Expr: "podgrace_webhook_ready + podgrace_removals_total + podgrace_webhook_certificate_expiration_timestamp_seconds + apiserver_x"}})
	for _, ticks := range [][]target{
		{{ofA, metricsOfA}, {ofB, ""}, {`job="apiserver"`, "apiserver_x{name=\"a.podgrace.dev\"} 1\napiserver_x{name=\"other\"} 1\n"}},
		{{ofA, ""}, {ofB, metricsOfA}, {`job="apiserver"`, ""}},
		{{ofA, ""}, {ofB, metricsOfA}, {`job="apiserver"`, ""}},
		{{ofA, metricsOfA}, {ofB, metricsOfA}, {`job="apiserver"`, ""}},
	} {
		if err := r.add(time.Now(), ticks); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		"up{" + ofA + "}": "1 0x1 1", "up{" + ofB + "}": "0 1x2",
		"podgrace_webhook_ready{" + ofA + "}": "1 stale _ 1", "podgrace_webhook_ready{" + ofB + "}": "_ 1x2",
		"podgrace_removals_total{" + ofA + `,verdict="Deny"}`: "3 stale _ 3", "podgrace_removals_total{" + ofB + `,verdict="Deny"}`: "_ 3x2",
		`apiserver_x{job="apiserver",name="a.podgrace.dev"}`: "1 stale _x2",
	}
	got := r.test("rules.yaml").Tests[0].Series
	for _, s := range got {
		if s.Values != want[s.Series] {
			t.Errorf("%s: %q, want %q", s.Series, s.Values, want[s.Series])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d series, want %d", len(got), len(want))
	}
}

// A certificate that has half of its life has half of the default life for the rules, by their clock.
func TestScaled(t *testing.T) {
	r, now := newRecording(nil), time.Now()
	r.ticks = 10
	const name = "podgrace_webhook_certificate_expiration_timestamp_seconds"
	half := float64(now.Add(leafLife/2).UnixMilli()) / 1000
	if got, want := r.scaled(name, half, now), 600+3.5*86400; math.Abs(got-want) > 60 {
		t.Errorf("it ends at %.0f s, want %.0f", got, want)
	}
	if got := r.scaled("podgrace_webhook_ready", 1, now); got != 1 {
		t.Errorf("what is no time: %g", got)
	}
}

func TestNotation(t *testing.T) {
	for want, values := range map[string][]string{"": nil, "1": {"1"}, "1x2 2": {"1", "1", "1", "2"}, "_ 1 stale _x2": {"_", "1", "stale", "_", "_"}} {
		if got := notation(values); got != want {
			t.Errorf("%q: %q, want %q", values, got, want)
		}
	}
}

// It is calm before anything was hit, and from when rules have forgotten what was until something else is hit.
func TestCalms(t *testing.T) {
	for name, tc := range map[string]struct {
		busy []span
		want []span
	}{
		"nothing is hit":      {nil, []span{{0, 99}}},
		"once":                {[]span{{10, 30}}, []span{{0, 9}, {30 + memory, 99}}},
		"again soon":          {[]span{{10, 30}, {30 + memory, 60}}, []span{{0, 9}, {60 + memory, 99}}},
		"from the beginning":  {[]span{{0, 30}}, []span{{30 + memory, 99}}},
		"until the end":       {[]span{{10, math.MaxInt}}, []span{{0, 9}}},
		"until just now":      {[]span{{10, 99}}, []span{{0, 9}}},
		"for a moment, twice": {[]span{{10, 10}, {40, 40}}, []span{{0, 9}, {10 + memory, 39}, {40 + memory, 99}}},
	} {
		if got := calms(tc.busy, 100); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// Prometheus' own program sees that an alert was silent that had to fire, and that one fired in a calm.
func TestPrometheusJudges(t *testing.T) {
	for name, tc := range map[string]struct {
		down []int // ticks in which no replica answers
		busy bool  // something was hit then
		want string
	}{
		"it fires in time":                  {[]int{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, true, ""},
		"it does not fire":                  {[]int{10, 11, 12}, true, "PodgraceWebhookDown"},
		"it fires, and nothing was hit":     {[]int{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, false, "count_over_time"},
		"nothing happens":                   {nil, false, ""},
		"a replica misses a scrape in calm": {[]int{5}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := scripted()
			l.Cluster = &cluster.Cluster{Dir: t.TempDir()}
			l.rules = rulesOf(t)
			l.recorded = newRecording(l.rules)
			var well func()
			for at := range 30 {
				if at == 10 && tc.busy {
					well = l.recorded.disturbed()
					l.recorded.expect(plan.Drill{Name: plan.Outage, Fires: map[string]int{"PodgraceWebhookDown": 8}})
				}
				metrics := metricsOfA
				if slices.Contains(tc.down, at) {
					metrics = ""
				}
				if err := l.recorded.add(time.Now(), []target{{ofA, metrics}}); err != nil {
					t.Fatal(err)
				}
			}
			if well != nil {
				well()
			}
			if _, err := l.judgeAlerts(t.Context()); err != nil {
				t.Fatal(err)
			}
			found := l.found()
			if (len(found) > 0) != (tc.want != "") || tc.want != "" && !strings.Contains(found[0], tc.want) {
				t.Errorf("%q", found)
			}
		})
	}
}
