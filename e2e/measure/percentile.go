package measure

import (
	"cmp"
	"math"
)

// Percentile of sorted values by the nearest rank: the least value that p percent of all do not exceed.
func Percentile[T cmp.Ordered](sorted []T, p float64) T {
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
