package node

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/podgrace/podgrace/e2e/bench/node/watch"
)

// turn is one hog's end. What did not happen is nil. Times are milliseconds since the threshold was crossed.
type turn struct {
	decision, containment *float64
	gone                  float64
	beyond                float64 // MiB below the threshold, at the worst
}

// sinceDecision is from the decision to the end of the process; nil: there was no decision.
func (t turn) sinceDecision() *float64 {
	if t.decision == nil {
		return nil
	}
	return new(t.gone - *t.decision)
}

// The needles are what a line of the log has that reports the decision: of the enforcer (nodeenforcer/evictor/relieve.go) with the pod's
// name, and of the kubelet (pkg/kubelet/eviction/eviction_manager.go synchronize, 1.36.3).
func enforcerNeedles(namespace, name string) []string {
	return []string{`"evicting"`, ` namespace="` + namespace + `"`, ` name="` + name + `"`}
}
func kubeletNeedles() []string {
	return []string{"must evict pod(s) to reclaim", `resourceName="memory"`}
}

// timeline puts together what the watcher saw and what a log says.
func timeline(seen watch.Sight, threshold int64, log string, needles []string) (turn, error) {
	if seen.Crossed.IsZero() || seen.Gone.IsZero() {
		return turn{}, fmt.Errorf("the hog did not cross the threshold and go: %+v", seen)
	}
	if seen.Available < threshold {
		return turn{}, errors.New("less than the threshold was left before the hog came")
	}
	t := turn{gone: milliseconds(seen.Gone.Sub(seen.Crossed)), beyond: float64(threshold-seen.Lowest) / mib}
	if !seen.Contained.IsZero() {
		t.containment = new(milliseconds(seen.Contained.Sub(seen.Crossed)))
	}
	at, found, err := firstLine(log, needles, seen.Began)
	if err != nil {
		return turn{}, err
	}
	if found {
		t.decision = new(milliseconds(at.Sub(seen.Crossed)))
	}
	return t, nil
}

// header begins each line of klog: I1120 21:02:03.123456. It has no year and no time zone; a guest's is UTC.
var header = regexp.MustCompile(`[IWEF](\d{4} \d\d:\d\d:\d\d\.\d{6})\s`)

// firstLine is the time of the first line since then that has all needles.
func firstLine(log string, needles []string, since time.Time) (at time.Time, found bool, err error) {
	for line := range strings.Lines(log) {
		m := header.FindStringSubmatch(line)
		if m == nil || !hasAll(line, needles) {
			continue
		}
		at, err := time.Parse("2006 0102 15:04:05.000000", fmt.Sprintf("%d %s", since.UTC().Year(), m[1]))
		if err != nil {
			return at, false, fmt.Errorf("read the time of %q: %w", line, err)
		}
		if !at.Before(since) {
			return at, true, nil
		}
	}
	return time.Time{}, false, nil
}

func hasAll(line string, needles []string) bool {
	for _, n := range needles {
		if !strings.Contains(line, n) {
			return false
		}
	}
	return true
}
