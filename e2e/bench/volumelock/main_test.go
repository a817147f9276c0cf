package volumelock

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
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
	r := result{ours: times(3 * time.Millisecond), theirs: times(2 * time.Millisecond), oursAll: []time.Duration{9 * time.Second, 5 * time.Second, time.Second}, theirsAll: []time.Duration{time.Second, time.Second, 2 * time.Second},
		rest: atRest{nodes: 8, span: time.Minute, cpu: 6 * time.Second, memory: measure.Memory{Resident: 64 << 20, Peak: 80 << 20}, beats: 48}}
	if err := report(&out, options{each: 100, many: 500, rounds: 3, held: 200}, r); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"one of 100, median 150.0 ms 100.0 ms 1.50 3.0 met", "one of 100, p99 297.0 ms 198.0 ms 1.50 3.0 met", "all of 500 at once, median of 3 5000.0 ms 1000.0 ms 5.00 3.0 NOT met",
		"with 1800 volumes of 8 nodes held, of which 0.8 a second report: 10.0% of a core, 64 MiB of memory (RSS); the highest was 80 MiB (goal: 384 MiB, the container's limit: met)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestValidate(t *testing.T) {
	if err := (&options{each: 1, many: 1, rounds: 1, held: 1, minute: time.Second}).Validate(); err != nil {
		t.Error(err)
	}
	if err := (&options{each: 1, many: 1, rounds: 1, held: 1}).Validate(); err == nil || !strings.Contains(err.Error(), "-for") {
		t.Errorf("got %v", err)
	}
}

// TestMemoryGoal: the goal is what the container has.
func TestMemoryGoal(t *testing.T) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(root, "deploy", "components", "volumelock", "deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if limit := fmt.Sprintf("limits: {memory: %dMi}", memoryGoal>>20); !strings.Contains(string(manifest), limit) {
		t.Errorf("the container has no %s", limit)
	}
}
