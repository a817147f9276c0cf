package webhook

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestSummarise(t *testing.T) {
	latencies := []time.Duration{4 * time.Millisecond, time.Millisecond, 3 * time.Millisecond, 2 * time.Millisecond}
	before := usage{cpu: time.Second, bytes: 1000, objects: 10}
	after := usage{cpu: time.Second + 20*time.Millisecond, bytes: 9000, objects: 50}
	got := summarise(latencies, 2*time.Second, before, after)
	want := round{perSecond: 2, p50: 2, p99: 4, cpuPer1000: 5000, bytes: 2000, objects: 10}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(round{}), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
}
