package pressure

import (
	"time"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

// MinSample and MaxSample bound how soon memory is measured again.
const (
	// MinSample is the shortest. Reading /proc/meminfo takes tens of microseconds, so that
	// even this costs a fraction of a percent of one CPU.
	MinSample = 25 * time.Millisecond
	// MaxSample is the longest.
	MaxSample = time.Second

	// fastest is how fast memory may be taken, in bytes a second: a single process was seen to take 2 GiB/s; twice that.
	fastest = int64(4) << 30
)

// NextSample is how soon memory has to be measured again, so that not even the fastest hog is past the nearest threshold before
// that. Stall alone would not tell: a hog stalls nothing until memory is gone. While memory is below a hard threshold, or is not
// known, that is as soon as possible; without a threshold on memory it is MaxSample.
func NextSample(signals Signals, thresholds Thresholds) time.Duration {
	sample, known := signals[v1alpha1.SignalMemoryAvailable]
	next := MaxSample
	for _, t := range thresholds.List {
		if t.Signal != v1alpha1.SignalMemoryAvailable {
			continue
		}
		left := sample.Available - t.Value.Of(sample.Capacity)
		switch {
		case !known || left <= 0 && t.Kind == eviction.Hard:
			return MinSample
		case left <= 0:
			// A soft threshold that is met has its grace period, whose end State knows.
		case left < fastest: // beyond that it is MaxSample, and the product below could overflow
			next = min(next, time.Duration(left*int64(time.Second)/fastest))
		}
	}
	return max(next, MinSample)
}
