package pressure

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

// Sample is one measurement of a signal.
type Sample struct {
	// Available and Capacity in bytes, inodes or processes.
	Available, Capacity int64
	// Time at which it was measured, of the clock that Step is called with. Zero: it was not.
	Time time.Time
}

// Signals are the last samples. One that is missing is not known.
type Signals map[v1alpha1.EvictionSignal]Sample

// A sample that is older is not known. The kubelet's disk statistics are up to 10 s old; memory is measured each second at
// least, and what it was two seconds ago says nothing (k8s#51745: evictions by statistics 10 s old).
const (
	maxAgeMemory = 2 * time.Second
	maxAge       = 20 * time.Second
)

// sample returns a signal's sample if it is known now. One from the future is as bad as an old one: a clock was set back.
func (s Signals) sample(signal v1alpha1.EvictionSignal, now time.Time) (Sample, bool) {
	got, ok := s[signal]
	limit := maxAge
	if signal == v1alpha1.SignalMemoryAvailable {
		limit = maxAgeMemory
	}
	return got, ok && !got.Time.IsZero() && now.Sub(got.Time).Abs() <= limit
}

// Condition of a node that a signal stands for (pkg/kubelet/eviction/helpers.go signalToNodeCondition, 1.36.3).
func Condition(signal v1alpha1.EvictionSignal) corev1.NodeConditionType {
	switch signal {
	case v1alpha1.SignalMemoryAvailable, v1alpha1.SignalMemoryStall:
		return corev1.NodeMemoryPressure
	case v1alpha1.SignalPIDAvailable:
		return corev1.NodePIDPressure
	default:
		return corev1.NodeDiskPressure
	}
}

// conditions are all that there are.
func conditions() []corev1.NodeConditionType {
	return []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure}
}

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
	sample, ok := signals[v1alpha1.SignalMemoryAvailable]
	next := MaxSample
	for _, t := range thresholds.List {
		if t.Signal != v1alpha1.SignalMemoryAvailable {
			continue
		}
		left := sample.Available - t.Value.Of(sample.Capacity)
		switch {
		case !ok || left <= 0 && t.Kind == eviction.Hard:
			return MinSample
		case left <= 0:
			// A soft threshold that is met has its grace period, whose end State knows.
		case left < fastest: // beyond that it is MaxSample, and the product below could overflow
			next = min(next, time.Duration(left*int64(time.Second)/fastest))
		}
	}
	return max(next, MinSample)
}
