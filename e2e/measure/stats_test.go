package measure

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	for _, test := range []struct {
		name   string
		sorted []int
		p      float64
		want   int
	}{
		{"one value", []int{7}, 99, 7},
		{"lowest", hundred, 0, 1},
		{"half", hundred, 50, 50},
		{"p99 leaves one above", hundred, 99, 99},
		{"all", hundred, 100, 100},
		{"nearest rank, not a mean", []int{1, 2}, 50, 1},
		{"few values: p99 is the highest", []int{1, 2, 3}, 99, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Percentile(test.sorted, test.p); got != test.want {
				t.Errorf("percentile %v: got %d, want %d", test.p, got, test.want)
			}
		})
	}
}

func TestMedianLeavesItsInputAlone(t *testing.T) {
	odd, even := []float64{3, 1, 2}, []float64{4, 1, 3, 2}
	if got := Median(odd); got != 2 {
		t.Errorf("median of %v: %v", odd, got)
	}
	if got := Median(even); got != 2.5 {
		t.Errorf("median of %v: %v", even, got)
	}
	if diff := cmp.Diff([]float64{3, 1, 2}, odd); diff != "" {
		t.Error(diff)
	}
}

func TestComparePairsRounds(t *testing.T) {
	// The machine was half as fast in the second round: each ratio is 0.5, the ratio of any other pair is not.
	got := Compare([]float64{100, 50, 102}, []float64{200, 100, 200})
	if diff := cmp.Diff(Ratio{0.5, 0.5, 0.51}, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
}
