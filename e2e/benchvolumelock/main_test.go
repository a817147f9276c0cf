package main

import (
	"strings"
	"testing"
	"time"

	"github.com/podgrace/podgrace/e2e/measure"
)

func TestReport(t *testing.T) {
	times := func(step time.Duration) (all []time.Duration) {
		for i := range 100 {
			all = append(all, time.Duration(100-i)*step) // not sorted
		}
		return all
	}
	var out strings.Builder
	r := result{ours: times(3 * time.Millisecond), theirs: times(2 * time.Millisecond), oursAll: 5 * time.Second, theirsAll: time.Second,
		rest: atRest{nodes: 8, span: time.Minute, cpu: 6 * time.Second, memory: measure.Memory{Resident: 64 << 20, Peak: 80 << 20}, beats: 48}}
	if err := report(&out, options{each: 100, many: 500, held: 200}, r); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"one of 100, median 150.0 ms 100.0 ms 1.50 2.0 met", "one of 100, p99 297.0 ms 198.0 ms 1.50 2.0 met", "all of 500 at once 5000.0 ms 1000.0 ms 5.00 2.0 NOT met",
		"with 800 volumes of 8 nodes held, of which 0.8 a second report: 10.0% of a core, 64 MiB of memory (RSS; highest 80 MiB)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestValidate(t *testing.T) {
	if err := (&options{each: 1, many: 1, held: 1, minute: time.Second}).Validate(); err != nil {
		t.Error(err)
	}
	if err := (&options{each: 1, many: 1, held: 1}).Validate(); err == nil || !strings.Contains(err.Error(), "-for") {
		t.Errorf("got %v", err)
	}
}
