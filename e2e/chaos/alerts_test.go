package main

import (
	"fmt"
	"maps"
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
	is := func(alert string) bool {
		return slices.ContainsFunc(rules, func(r rule) bool { return r.Alert == alert })
	}
	for alert := range strings.SplitSeq(never, "|") {
		if !is(alert) {
			t.Errorf("there is no alert %s", alert)
		}
	}
	for _, d := range plan.Drills() {
		for alert, at := range d.Fires {
			if !is(alert) {
				t.Errorf("%s: there is no alert %s", d.Name, alert)
			}
			if at >= d.Ticks {
				t.Errorf("%s is over when %s is to fire", d.Name, alert)
			}
		}
	}
}

const metricsOfA = "# TYPE podgrace_webhook_ready gauge\npodgrace_webhook_ready 1\npodgrace_webhook_registered{webhook=\"pods\"} 0\npodgrace_other 4\npodgrace_removals_total{verdict=\"Deny\"} 3\nleader_election_master_status{name=\"podgrace-webhook\"} 1\n"

var ofA, ofB = `job="podgrace-webhook",instance="a"`, `job="podgrace-webhook",instance="b"`

func targetA(metrics string) target { return target{"podgrace-webhook", "a", metrics} }
func targetB(metrics string) target { return target{"podgrace-webhook", "b", metrics} }

// A series of a target that does not answer ends at once, as Prometheus has it; one that begins later was not there before.
func TestRecording(t *testing.T) {
	r := newRecording([]rule{{Expr: "podgrace_webhook_ready + podgrace_removals_total + podgrace_webhook_certificate_expiration_timestamp_seconds + apiserver_x"}})
	for _, ticks := range [][]target{
		{targetA(metricsOfA), targetB(""), {job: "apiserver", metrics: "apiserver_x{name=\"a.podgrace.dev\"} 1\napiserver_x{name=\"other\"} 1\n"}},
		{targetA(""), targetB(metricsOfA), {job: "apiserver"}},
		{targetA(""), targetB(metricsOfA), {job: "apiserver"}},
		{targetA(metricsOfA), targetB(metricsOfA), {job: "apiserver"}, {"podgrace-fencer", "fencer 0", "podgrace_removals_total 4\n"}, {"podgrace-volumelock", "volumelock 0", ""}},
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
		`up{job="podgrace-fencer",instance="fencer 0"}`:      "_x3 1", `podgrace_removals_total{job="podgrace-fencer",instance="fencer 0"}`: "_x3 4",
		`up{job="podgrace-volumelock",instance="volumelock 0"}`: "_x3 0",
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
	if got, want := r.leaders(), map[string]int{"podgrace-webhook": 2, "podgrace-fencer": 0, "podgrace-volumelock": 0}; !maps.Equal(got, want) {
		t.Errorf("these lead: %v, want %v", got, want)
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
		void int   // the tick from which on a receipt is void; 0: none is
		want string
	}{
		"it fires in time":                  {[]int{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, true, 0, ""},
		"it does not fire":                  {[]int{10, 11, 12}, true, 0, "PodgraceWebhookDown"},
		"it fires, and nothing was hit":     {[]int{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, false, 0, "count_over_time"},
		"nothing happens":                   {nil, false, 0, ""},
		"a replica misses a scrape in calm": {[]int{5}, false, 0, ""},
		"what must not be, in a storm":      {[]int{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, true, 12, "PodgraceFenceReceiptVoid"},
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
				fencer := fmt.Sprintf("podgrace_fence_alarms_total{reason=\"FenceReceiptVoid\"} %d\n", map[bool]int{true: 1}[tc.void > 0 && at >= tc.void])
				if err := l.recorded.add(time.Now(), []target{targetA(metrics), {"podgrace-fencer", "fencer 0", fencer}}); err != nil {
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
