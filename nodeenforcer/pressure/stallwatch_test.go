package pressure

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// Whatever is told and however long is waited: no stall is found without as much waiting within a window, all of it after the last victim had
// ended and a window had passed.
func TestStallWatchFindsOnlyStalls(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := Stall{Stall: 100 * time.Millisecond, Window: time.Second}
		var w StallWatch
		now, total, fromStep := time.Unix(1000, 0), time.Duration(0), []time.Duration{}
		ended := time.Time{}
		found := time.Duration(0) // the total at the last stall
		for range 60 {
			passed := time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "passed"))
			waits := time.Duration(rapid.Int64Range(0, int64(passed)/4).Draw(t, "waits"))
			now, total = now.Add(passed), total+waits
			fromStep = append(fromStep, waits)
			busy := rapid.IntRange(0, 5).Draw(t, "busy") == 0
			if busy {
				ended = now
			}
			var s StallStep
			w, s = w.Step(now, want, total, rapid.Bool().Draw(t, "fired"), busy)
			if s.Waited == 0 {
				continue
			}
			if s.Waited < want.Stall || s.Waited > total-found || now.Sub(ended) <= want.Window {
				t.Fatalf("waited %s of %s since the last stall; %s since the last victim; by step %v", s.Waited, total-found, now.Sub(ended), fromStep)
			}
			found = total
		}
	})
}

func TestMemoryFree(t *testing.T) {
	const zoneinfo = "Node 0, zone   DMA32\n  per-node stats\n      nr_free_cma  0\n  pages free     %free\n        boost    0\n        min      10\n        low      20\n        high     30\n        spanned  4096\n        managed  1000\n        protection: (0, 0, 50)\n      nr_free_pages %free\n      nr_zone_unevictable 7\n  pagesets\n    cpu: 0\n              count:    378\n              high:     9999\n              high_min: 63\n  node_unreclaimable:  0\nNode 0, zone   Normal\n  pages free     100\n        high     70\n        managed  5000\n        protection: (0, 0, 0)\n      nr_free_pages 100\nNode 0, zone  Movable\n  pages free     0\n        high     32\n        managed  0\n        protection: (0, 0, 0)\n"
	for text, want := range map[string]struct{ free, fails bool }{
		strings.ReplaceAll(zoneinfo, "%free", "199"):            {false, false}, // 299 of twice 30+50+70
		strings.ReplaceAll(zoneinfo, "%free", "200"):            {true, false},
		strings.ReplaceAll(zoneinfo, "nr_free_pages %free", ""): {false, true},
		"": {false, true},
	} {
		free, err := sensor(t, cgroupfile.V2, map[string]string{"zoneinfo": text}, nil).MemoryFree()
		if free != want.free || (err != nil) != want.fails {
			t.Errorf("got %t, %v; want %+v of %q", free, err, want, text)
		}
	}
	if _, err := sensor(t, cgroupfile.V2, nil, nil).MemoryFree(); err == nil {
		t.Error("no error without zoneinfo")
	}
}

// A zone keeps no more in reserve than it has, whatever its protection is.
func TestMemoryFreeOfASmallZone(t *testing.T) {
	const zoneinfo = "Node 0, zone      DMA\n  pages free     %free\n        boost    0\n        min      10\n        low      20\n        high     30\n        spanned  4096\n        managed  60\n        protection: (0, 500, 500)\n      nr_free_pages %free\n"
	for free, want := range map[string]bool{"119": false, "120": true} { // twice 60
		got, err := sensor(t, cgroupfile.V2, map[string]string{"zoneinfo": strings.ReplaceAll(zoneinfo, "%free", free)}, nil).MemoryFree()
		if err != nil || got != want {
			t.Errorf("%s free pages: %t, %v", free, got, err)
		}
	}
}

func TestStalled(t *testing.T) {
	s := sensor(t, cgroupfile.V2, map[string]string{"pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"}, nil)
	for kind, want := range map[v1alpha1.StallKind]time.Duration{v1alpha1.StallSome: 7 * time.Microsecond, v1alpha1.StallFull: 5 * time.Microsecond} {
		if got, err := s.Stalled(kind); got != want || err != nil {
			t.Errorf("%s: got %s, %v", kind, got, err)
		}
	}
	if _, err := sensor(t, cgroupfile.V2, nil, nil).Stalled(v1alpha1.StallSome); err == nil {
		t.Error("no error without the file")
	}
}
