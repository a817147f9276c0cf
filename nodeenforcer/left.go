package nodeenforcer

import (
	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
)

// leftFor is how much of the node's memory, in bytes, the hooks of each of so many victims may be measured by; less than 0: it is not
// known, as with stall.
func leftFor(met pressure.Met, victims int) int64 {
	if met.Signal != v1alpha1.SignalMemoryAvailable {
		return -1
	}
	return max(met.Available, 0) / int64(max(victims, 1))
}
