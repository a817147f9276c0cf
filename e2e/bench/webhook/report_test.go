package webhook

import (
	"strings"
	"testing"
	"time"

	"github.com/podgrace/podgrace/e2e/measure"
)

func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		goal  goal
		value float64
		want  string
	}{
		{goal{}, 99, ""},
		{goal{atLeast: 0.8}, 0.8, "met"},
		{goal{atLeast: 0.8}, 0.79, "NOT MET"},
		{goal{atMost: 1.25}, 1.25, "met"},
		{goal{atMost: 1.25}, 1.26, "NOT MET"},
	} {
		if got := test.goal.verdict(test.value); got != test.want {
			t.Errorf("%v, %v: got %q, want %q", test.goal, test.value, got, test.want)
		}
	}
}

func TestReportHasEachRowWithItsGoal(t *testing.T) {
	result := outcome{
		podgrace:       []round{{perSecond: 900, p50: 1.2, p99: 4, cpuPer1000: 300, bytes: 30 << 10, objects: 300}},
		bare:           []round{{perSecond: 1000, p50: 1, p99: 2, cpuPer1000: 200, bytes: 20 << 10, objects: 200}},
		podgraceMemory: measure.Memory{Resident: 50 << 20, Anonymous: 20 << 20, Peak: 55 << 20},
		bareMemory:     measure.Memory{Resident: 25 << 20, Anonymous: 10 << 20, Peak: 30 << 20},
	}
	text := report(options{rounds: 2, duration: time.Second, concurrency: 8}, 5, result)
	for _, want := range []string{
		"requests per second 900 1000 0.90 (0.90..0.90) >= 0.80 met",
		"p50, ms 1.20 1.00 1.20 (1.20..1.20) <= 1.25 met",
		"p99, ms 4.00 2.00 2.00 (2.00..2.00) <= 1.50 NOT MET",
		"CPU per 1,000 requests, ms 300 200 1.50 (1.50..1.50)",
		"allocated per request, KiB 30.0 20.0 1.50 (1.50..1.50)",
		"allocations per request 300 200 1.50 (1.50..1.50)",
		"RSS, MiB 50.0 25.0 2.00 <= 40.00 MiB NOT MET",
		"of it anonymous 20.0 10.0 2.00",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}
