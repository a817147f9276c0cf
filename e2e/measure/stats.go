package measure

import (
	"cmp"
	"math"
	"slices"
)

// Percentile of sorted values by the nearest rank: the least value that p percent of all do not exceed.
func Percentile[T cmp.Ordered](sorted []T, p float64) T {
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median of an even number of values is the mean of the two in the middle.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Ratio of paired values.
type Ratio struct{ Median, Min, Max float64 }

// Compare divides each value by the other side's of the same round. The machine's speed of that moment cancels out, which
// it does not in a ratio of two medians.
func Compare(values, others []float64) Ratio {
	ratios := make([]float64, len(values))
	for i := range values {
		ratios[i] = values[i] / others[i]
	}
	return Ratio{Median(ratios), slices.Min(ratios), slices.Max(ratios)}
}
