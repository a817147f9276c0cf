package fencer

import (
	"strings"
	"testing"
	"time"

	"github.com/podgrace/podgrace/e2e/measure"
)

func TestReport(t *testing.T) {
	var out strings.Builder
	w := watched{state: "all are heard of", span: time.Minute, cpu: 6 * time.Second, memory: measure.Memory{Resident: 64 << 20, Peak: 80 << 20}, rounds: 30, renewals: 30000}
	if err := report(&out, options{nodes: 5000, minute: time.Minute}, w); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if got := strings.Join(strings.Fields(lines[len(lines)-1]), " "); got != "all are heard of 0 500 30 10.0 200 64.0 80.0" {
		t.Errorf("got %s in\n%s", got, out.String())
	}
}

func TestValidate(t *testing.T) {
	if err := (&options{nodes: 10, silent: 9, minute: time.Second}).Validate(); err != nil {
		t.Error(err)
	}
	err := (&options{nodes: 10, silent: 10}).Validate()
	if err == nil || !strings.Contains(err.Error(), "-for") || !strings.Contains(err.Error(), "-silent: 10 of 10 nodes") {
		t.Errorf("got %v", err)
	}
}
