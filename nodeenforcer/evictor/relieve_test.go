package evictor

import (
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

func TestLeftFor(t *testing.T) {
	for _, tc := range []struct {
		signal    v1alpha1.EvictionSignal
		available int64
		victims   int
		want      int64
	}{
		{v1alpha1.SignalMemoryAvailable, 600, 1, 600},
		{v1alpha1.SignalMemoryAvailable, 600, 3, 200},
		{v1alpha1.SignalMemoryAvailable, 600, 0, 600},
		{v1alpha1.SignalMemoryAvailable, -600, 3, 0},
		{v1alpha1.SignalMemoryStall, 0, 1, -1},
	} {
		if got := leftFor(eviction.Need{Signal: tc.signal, Available: tc.available}, tc.victims); got != tc.want {
			t.Errorf("%+v: got %d", tc, got)
		}
	}
}
