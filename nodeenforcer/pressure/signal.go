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
	// Time at which it was measured, by the clock that Step is called with. Zero: it was not measured.
	Time time.Time
}

// Signals are the last samples. A signal without one is unknown.
type Signals map[v1alpha1.EvictionSignal]Sample

// An older sample is stale, and its signal unknown. The kubelet's disk statistics are up to 10 s old; memory is measured each second at
// least, and what it was two seconds ago says nothing (k8s#51745: evictions by statistics 10 s old).
const (
	maxAgeMemory = 2 * time.Second
	maxAge       = 20 * time.Second
)

// sample returns a signal's sample if it is not stale. One from the future is as bad as an old one: the clock was set back.
func (s Signals) sample(signal v1alpha1.EvictionSignal, now time.Time) (Sample, bool) {
	got, ok := s[signal]
	limit := maxAge
	if signal == v1alpha1.SignalMemoryAvailable {
		limit = maxAgeMemory
	}
	return got, ok && !got.Time.IsZero() && now.Sub(got.Time).Abs() <= limit
}

// Condition is the node condition of a signal (pkg/kubelet/eviction/helpers.go signalToNodeCondition, 1.36.3).
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

// conditions are all node conditions that signals have.
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

	// fastest is how fast memory can be allocated, in bytes a second: twice the 2 GiB/s that were measured with a single process.
	fastest = int64(4) << 30
)

// NextSample is how soon memory has to be measured again, so that not even the fastest allocation can pass the nearest threshold in
// between. Stall would notice it too late: nothing stalls until memory is used up. It is MinSample while memory is below a hard threshold
// or unknown, and MaxSample if no threshold is on memory.
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
			// A soft threshold that is met waits for its grace period, whose end State knows.
		case left < fastest: // beyond that it is MaxSample, and the product below could overflow
			next = min(next, time.Duration(left*int64(time.Second)/fastest))
		}
	}
	return max(next, MinSample)
}
