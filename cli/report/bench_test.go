package report

import (
	"io"
	"testing"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
)

// BenchmarkWrite prints 10,000 results, most of them changed.
func BenchmarkWrite(b *testing.B) {
	var results []review.Result
	for len(results) < 10_000 {
		results = append(results, frontend(), checkout(), calm(), frontend(), impatient())
	}
	r := review.NewReport(100, 0, results, nil)
	for _, p := range printers {
		b.Run(string(p.format), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := Write(io.Discard, p.format, r, Options{Style: console.Style{Width: 100}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
