package pressure

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// A trigger that has lasted for longer than the longest pause forgets how often it failed before.
func TestTriggerForgetsItsFailures(t *testing.T) {
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	failed := rearming
	failed.Step()
	failed.Step()
	for after, forgotten := range map[time.Duration]bool{rearming.Cap: false, rearming.Cap + 1: true} {
		trigger := StallTrigger{ready: start, again: failed}
		if err := trigger.Arm("", nil, start.Add(after)); err != nil {
			t.Fatal(err)
		}
		if (trigger.again == rearming) != forgotten || !forgotten && trigger.again != failed {
			t.Errorf("after %s: %+v", after, trigger.again)
		}
	}
}

// What needs no kernel with PSI; the rest is in e2e/vm/kernel.
func TestOpenTriggerRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.pressure")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name          string
		file          string
		kind          v1alpha1.StallKind
		stall, window time.Duration
		gone          bool
	}{
		{"no kind", file, "most", time.Millisecond, time.Second, false},
		{"no stall", file, v1alpha1.StallSome, 0, time.Second, false},
		{"a stall below what the kernel counts", file, v1alpha1.StallSome, time.Nanosecond, time.Second, false},
		{"a stall longer than its window", file, v1alpha1.StallSome, 2 * time.Second, time.Second, false},
		{"a short window", file, v1alpha1.StallFull, time.Millisecond, 499 * time.Millisecond, false},
		{"a long window", file, v1alpha1.StallFull, time.Millisecond, 10*time.Second + 1, false},
		{"no cgroup", filepath.Join(file + ".gone"), v1alpha1.StallSome, time.Millisecond, time.Second, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := OpenTrigger(test.file, Stall{Kind: test.kind, Stall: test.stall, Window: test.window})
			if err == nil || errors.Is(err, cgroup.ErrGone) != test.gone {
				t.Errorf("got %v", err)
			}
		})
	}
}
