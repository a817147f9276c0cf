package main

import (
	"slices"
	"time"

	"github.com/podgrace/podgrace/e2e/measure"
)

// round is what one side did in one turn. Times are in milliseconds.
type round struct {
	perSecond, p50, p99        float64
	cpuPer1000, bytes, objects float64 // of the server; bytes and objects are for one request
}

func summarise(latencies []time.Duration, elapsed time.Duration, before, after usage) round {
	slices.Sort(latencies)
	n := float64(len(latencies))
	return round{
		perSecond:  n / elapsed.Seconds(),
		p50:        milliseconds(measure.Percentile(latencies, 50)),
		p99:        milliseconds(measure.Percentile(latencies, 99)),
		cpuPer1000: milliseconds(after.cpu-before.cpu) / n * 1000,
		bytes:      (after.bytes - before.bytes) / n,
		objects:    (after.objects - before.objects) / n,
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// median of an even number of values is the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// ratio of paired values.
type ratio struct{ median, min, max float64 }

// compare divides each value by the other side's of the same round. The machine's speed of that moment cancels out, which
// it does not in a ratio of two medians.
func compare(values, others []float64) ratio {
	ratios := make([]float64, len(values))
	for i := range values {
		ratios[i] = values[i] / others[i]
	}
	return ratio{median(ratios), slices.Min(ratios), slices.Max(ratios)}
}

func each(rounds []round, of func(round) float64) []float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = of(r)
	}
	return values
}
