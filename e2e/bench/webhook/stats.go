package webhook

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

func each(rounds []round, of func(round) float64) []float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = of(r)
	}
	return values
}
