package node

import (
	"fmt"
	"slices"
	"time"
)

const mib = 1 << 20

// goal is an upper bound; nil is none.
type goal = *float64

// verdict reports whether a value meets a goal; empty: there is none.
func verdict(g goal, value float64) string {
	switch {
	case g == nil:
		return ""
	case value <= *g:
		return "met"
	}
	return "NOT met"
}

// spread is what several turns gave.
type spread struct{ min, median, max float64 }

// spreadOf needs one value at least.
func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return spread{sorted[0], median, sorted[len(sorted)-1]}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// render is "min median max", with this format for each.
func (s spread) render(format string) string {
	return fmt.Sprintf(format+"\t"+format+"\t"+format, s.min, s.median, s.max)
}

// String is "median (min..max)".
func (s spread) String() string { return fmt.Sprintf("%.1f (%.1f..%.1f)", s.median, s.min, s.max) }
