package guard

import (
	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/graceperiod"
)

// Raise returns the grace period in seconds that an eviction is given instead of the refusal d, where the policy says so: the pod's own, or
// what Kubernetes gives who says nothing, where that is 0 as well. One that would only be warned about stays as it is: who warns changes
// nothing. So does one that no grace helps, because the first step of a force delete is stored.
func Raise(req Request, facts Facts, d Decision) (seconds int64, raised bool) {
	if req.Road != RoadEviction || d.Verdict != Deny || d.Reason != Unsafe || facts.Policy.EvictionWithoutGrace != v1alpha1.GraceRaise {
		return 0, false
	}
	seconds = graceperiod.Of(&req.Pod.Spec)
	if seconds == 0 {
		seconds = graceperiod.Unset
	}
	return seconds, !graceperiod.Delete(req.Pod, &seconds, facts.Now).Force
}
