package node

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/e2e/bench/node/watch"
)

// What the two programs logged in a guest.
const (
	enforcerLog = `I1231 23:59:50.000000       1 evictor.go:262] "evicting" logger="decision" component="nodeenforcer" decision="Evict" reason="memory.available" namespace="default" name="hog" kind="Hard"
I1231 23:59:58.250000       1 evictor.go:330] "node pressure changed" resources="memory" reason="hard threshold memory.available: 1 left, 2 wanted"
I1231 23:59:58.300000       1 evictor.go:262] "evicting" logger="decision" component="nodeenforcer" decision="Evict" reason="memory.available" namespace="default" name="other" kind="Hard"
I1231 23:59:58.350000       1 evictor.go:262] "evicting" logger="decision" component="nodeenforcer" decision="Evict" reason="memory.available" namespace="default" name="hog" kind="Hard"
I1231 23:59:59.000000       1 evictor.go:262] "evicting" logger="decision" component="nodeenforcer" decision="Evict" reason="memory.available" namespace="default" name="hog" kind="Hard"
`
	kubeletLog = `I1231 23:59:58.900000     321 eviction_manager.go:381] "Eviction manager: attempting to reclaim" resourceName="memory"
I1231 23:59:58.900100     321 eviction_manager.go:392] "Eviction manager: must evict pod(s) to reclaim" resourceName="memory"
`
)

func at(second float64) time.Time {
	return time.Date(2025, 12, 31, 23, 59, 0, 0, time.UTC).Add(time.Duration(second * float64(time.Second)))
}

func TestTimeline(t *testing.T) {
	const threshold = 700 * mib
	whole := watch.Sight{Began: at(55), Available: 1000 * mib, Crossed: at(58.3), Contained: at(58.4), Gone: at(59.3), Lowest: 690 * mib}
	free := whole
	free.Contained = time.Time{}
	for name, test := range map[string]struct {
		seen    watch.Sight
		log     string
		needles []string
		want    turn
	}{
		"enforcer": {whole, enforcerLog, enforcerNeedles("default", "hog"), turn{decision: new(50.0), containment: new(100.0), gone: 1000, beyond: 10}},
		"kubelet":  {free, kubeletLog, kubeletNeedles(), turn{decision: new(600.1), gone: 1000, beyond: 10}},
		"nobody":   {free, enforcerLog, kubeletNeedles(), turn{gone: 1000, beyond: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := timeline(test.seen, threshold, test.log, test.needles)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(turn{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTimelineThatProvesNothing(t *testing.T) {
	whole := watch.Sight{Began: at(55), Available: 1000 * mib, Crossed: at(58), Gone: at(59), Lowest: 690 * mib}
	for what, change := range map[string]func(*watch.Sight){
		"did not cross":  func(s *watch.Sight) { s.Crossed = time.Time{} },
		"and go":         func(s *watch.Sight) { s.Gone = time.Time{} },
		"before the hog": func(s *watch.Sight) { s.Available = 600 * mib },
	} {
		seen := whole
		change(&seen)
		if _, err := timeline(seen, 700*mib, "", nil); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %q", err, what)
		}
	}
}

func TestHogReport(t *testing.T) {
	enforcer := &side{name: "enforcer", turns: []turn{
		{decision: new(10.0), containment: new(300.0), gone: 1000, beyond: 4}, {decision: new(20.0), containment: new(500.0), gone: 2000, beyond: 8},
	}}
	kubelet := &side{name: "kubelet", died: 1, turns: []turn{{decision: new(3000.0), gone: 6000, beyond: 300}, {gone: 9000, beyond: 600}}}
	words := strings.Join(strings.Fields(hogReport(options{rounds: 2, threshold: 700, rate: 50}, enforcer, kubelet)), " ")
	for _, want := range []string{
		"EMULATED IN SOFTWARE",
		"crossing to decision, ms 10 15 20 3000 3000 3000 0.005 <= 200 met",
		"crossing to containment, ms 300 400 500 - - - - <= 200 NOT met",
		"crossing to process gone, ms 1000 1500 2000 6000 7500 9000 0.200 <= 2500 met",
		"decision to process gone, ms 990 1485 1980 3000 3000 3000 0.495",
		"MiB beyond the threshold 4 6 8 300 450 600 0.013",
		"In 1 of 2 turns of the kubelet",
		"enforcer's turns 0, kubelet's turns 1. goal 0 met",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in: %s", want, words)
		}
	}
}
