package main

import (
	"strings"
	"testing"
	"time"
)

func TestParseCPU(t *testing.T) {
	got, err := parseCPU("42 (a (b) c) S 1 1 1 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 9 0 100 1000 10")
	if err != nil || got != 2*time.Second {
		t.Error(got, err)
	}
	for _, bad := range []string{"", "42 (a) S 1", "42 (a) S 1 1 1 0 -1 4194304 100 0 0 0 x 50 0"} {
		if _, err := parseCPU(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestParseMemory(t *testing.T) {
	text := "Name:\tx\nVmHWM:\t   50 kB\nVmRSS:\t   40 kB\nRssAnon:\t   30 kB\nRssFile:\t   10 kB\nThreads:\t9\n"
	got, err := parseMemory([]byte(text))
	if want := (memory{40 << 10, 30 << 10, 10 << 10, 50 << 10}); err != nil || got != want {
		t.Error(got, err)
	}
	for _, bad := range []string{"", strings.Replace(text, "RssFile", "x", 1), strings.Replace(text, "40", "x", 1)} {
		if _, err := parseMemory([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestSum(t *testing.T) {
	text := "# HELP a b\n# TYPE a counter\na{x=\"1\"} 2\na{x=\"2\",y=\"z w\"} 3\nab 7\nb 1e3\n"
	for metric, want := range map[string]float64{"a": 5, `a{x="1"}`: 2, "b": 1000, "c": 0} {
		if got, err := sum(text, metric); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", metric, got, err, want)
		}
	}
	if _, err := sum("a x\n", "a"); err == nil {
		t.Error("no error")
	}
}

func TestSteadyReport(t *testing.T) {
	s := steady{elapsed: time.Minute, cpu: 900 * time.Millisecond, full: 2, memory: memory{resident: 39 * mib, anonymous: 20 * mib, file: 19 * mib, peak: 41 * mib}}
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
