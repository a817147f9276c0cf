package pressure

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// What needs no kernel with PSI; the rest is in e2e/vm/kernel.
func TestOpenTriggerRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.pressure")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name          string
		file          string
		kind          Kind
		stall, window time.Duration
		gone          bool
	}{
		{"no kind", file, "most", time.Millisecond, time.Second, false},
		{"no stall", file, Some, 0, time.Second, false},
		{"a stall below what the kernel counts", file, Some, time.Nanosecond, time.Second, false},
		{"a stall longer than its window", file, Some, 2 * time.Second, time.Second, false},
		{"a short window", file, Full, time.Millisecond, 499 * time.Millisecond, false},
		{"a long window", file, Full, time.Millisecond, 10*time.Second + 1, false},
		{"no cgroup", filepath.Join(file + ".gone"), Some, time.Millisecond, time.Second, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := OpenTrigger(test.file, test.kind, test.stall, test.window)
			if err == nil || errors.Is(err, cgroup.ErrGone) != test.gone {
				t.Errorf("got %v", err)
			}
		})
	}
}
