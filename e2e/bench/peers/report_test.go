package peers

import (
	"strings"
	"testing"
	"time"
)

// flat is a text with single spaces, as tables are compared.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// sample is a run of two rounds, in the second of which the machine was half as fast.
func sample() outcome {
	at := func(latency, plugins, calls, policies float64) []round {
		return []round{
			{done: 100, elapsed: 1, latency: latency, cpu: 0.5, told: told{calls: calls, plugins: plugins, policies: policies}},
			{done: 50, elapsed: 1, latency: 2 * latency, cpu: 0.5, told: told{calls: 2 * calls, plugins: 2 * plugins, policies: 2 * policies}},
		}
	}
	c := creates{concurrency: 1, rounds: map[string][]round{nothing: at(2, 0.1, 0, 0), inProcess: at(3, 1.1, 0, 0.4), podgrace: at(4, 2.1, 2, 0.1)}}
	return outcome{
		sides: []*side{
			{name: nothing, how: "no admission", without: true}, {name: inProcess, how: "policies"},
			{name: podgrace, version: "v1", how: "as installed", hooks: []*hook{{name: "a", mutating: true}, {name: "b"}}},
		},
		creates: []creates{c}, replays: map[string][]round{podgrace: at(1, 0, 0, 0)}, memory: map[string]float64{podgrace: 50 << 20},
	}
}

func TestReport(t *testing.T) {
	text := flat(report(options{rounds: 3, duration: time.Second}, "v1.36.3", sample()))
	for _, want := range []string{
		"Kubernetes v1.36.3; 3 rounds of 1s a side",
		"podgrace v1: as installed",
		"nothing 3.00 - 0.15 0.00 0.00 6.67",
		"in-process 4.50 1.50 1.65 0.00 0.60 6.67", // (3-2 + 6-4)/2 longer
		"podgrace 6.00 3.00 3.15 3.00 0.15 6.67",
		"podgrace 2 75 6.67 50",
		"podgrace 2.00 (2.00..2.00) 2.00 (2.00..2.00)", // (4-2)/(3-2), and the same of twice all that
		"latency added, 1 at once: 2.00 (goal <= 1.3: NOT MET)",
		"compiled limits / the validating policy of in-process, 1 at once: 0.25 (0.25..0.25)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

func TestReportOfAGoalThatIsMet(t *testing.T) {
	result := sample()
	result.creates[0].rounds[podgrace] = result.creates[0].rounds[inProcess]
	if text := report(options{}, "", result); !strings.Contains(text, "1.00 (goal <= 1.3: met)") {
		t.Errorf("the goal is not met in:\n%s", text)
	}
}

func TestNoVerdictWhereTheLoadHidesThePolicies(t *testing.T) {
	result := sample()
	result.creates[0].rounds[nothing][1].latency = 7 // the policies' create of that round took 6
	if text := report(options{}, "", result); !strings.Contains(text, "not measurable beside this load") {
		t.Errorf("a verdict in:\n%s", text)
	}
}
