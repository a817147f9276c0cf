package evictor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podgrace/podgrace/nodeenforcer/pressure"
)

// FuzzReadReleasing: whatever an earlier process or its clock left, no pod is waited for longer than one that is evicted now, and what was read is kept the same.
func FuzzReadReleasing(f *testing.F) {
	f.Add(`{"version":1,"pods":[{"namespace":"shop","name":"db-0","uid":"u","until":"2026-11-26T00:00:00Z"},{"uid":"v","dying":true}]}`)
	f.Add(`{"version":1,"pods":[{"uid":"u","until":"9999-12-31T23:59:59Z"},{"uid":"u"}]}`)
	f.Add(`{"version":1,"evictions":{"a":"2026-11-26T00:00:00Z","b":"2020-01-01T00:00:00Z"},"waits":[{"signal":"memory.available","wait":9223372036854775807,"until":"9999-12-31T23:59:59Z"}]}`)
	f.Add(`{"version":2}`)
	f.Add(`[`)
	now := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "releasing")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, kept, err := readKept(file, now)
		if err != nil && len(r) > 0 {
			t.Errorf("%d pods and %v", len(r), err)
		}
		for _, w := range kept.Waits {
			if w.Wait > pressure.DefaultTransitionPeriod || w.Until.After(now.Add(pressure.DefaultTransitionPeriod)) {
				t.Errorf("it waits %+v", w)
			}
		}
		for uid, of := range r {
			if of.pod.UID != uid || of.until.After(now.Add(releaseTime)) {
				t.Errorf("%q: %+v", uid, of)
			}
		}
	})
}
