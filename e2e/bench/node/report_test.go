package node

import (
	"strings"
	"testing"
	"time"

	"github.com/podgrace/podgrace/e2e/measure"
)

func TestSteadyReport(t *testing.T) {
	s := steady{elapsed: time.Minute, cpu: 900 * time.Millisecond, full: 2, memory: measure.Memory{Resident: 39 * mib, Anonymous: 20 * mib, File: 19 * mib, Peak: 41 * mib}}
	words := strings.Join(strings.Fields(steadyReport(options{minute: time.Minute}, s)), " ")
	for _, want := range []string{"2 full rounds", "writes 0 <= 0 met", "CPU, seconds 0.90", "CPU, % of a core 1.50 <= 1 NOT met", "RSS, MiB 39.0 <= 40 met", "RssAnon 20.0", "RssFile 19.0"} {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in: %s", want, words)
		}
	}
}

func TestPlanReport(t *testing.T) {
	text := planReport([]planned{{pods: 110, groups: 5, files: 9, build: []float64{1}, same: []float64{10, 20}, repair: []float64{30, 50}, writes: 8}})
	if words := strings.Join(strings.Fields(text), " "); !strings.Contains(words, "110 5 9 1.0 (1.0..1.0) 15.0 (10.0..20.0) 0 40.0 (30.0..50.0) 8 25.0") {
		t.Error(words)
	}
}
