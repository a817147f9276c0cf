package guard

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/graceperiod"
)

// notForced allows what leaves the pod's end to the kubelet. The effective grace is computed anew from the stored pod:
// what the API server shows in the options differs from call to call.
func notForced(req Request, now time.Time) *Decision {
	switch req.Road {
	case RoadDelete, RoadEviction:
		// A force delete that was begun, and that a finalizer holds, an eviction neither completes nor makes any shorter: who takes the
		// finalizer away is on a road of its own.
		held := req.Road == RoadEviction && forceDeleteBegun(req.Pod) && len(req.Pod.Finalizers) > 0
		if !held && graceperiod.Delete(req.Pod, req.GracePeriodSeconds, now).Force {
			return nil
		}
	case RoadStatus:
		if graceperiod.Terminal(req.Phase) {
			return nil
		}
	case RoadFinalizer:
		if g := req.Pod.DeletionGracePeriodSeconds; req.Pod.DeletionTimestamp != nil && (g == nil || *g <= 0) {
			return nil
		}
	case RoadNode, RoadOutOfService, RoadVolumeAttachment:
		return nil
	}
	return allow(becauseNotForced)
}

// neverScheduled allows the removal of a pod that no kubelet ever had.
func neverScheduled(req Request, _ time.Time) *Decision {
	if req.Pod.Spec.NodeName == "" {
		return allow(becauseNeverScheduled)
	}
	return nil
}

// finished allows the removal of a pod whose containers have ended. The phase can be trusted because its transition is a
// road of its own.
func finished(req Request, _ time.Time) *Decision {
	if graceperiod.Finished(req.Pod) {
		return allow(becauseFinished)
	}
	return nil
}

// forceDeleteBegun says whether a pod has a stored grace of 0: the first step of a force delete passed, and whatever is written to the pod
// next removes it, unless a finalizer holds it.
func forceDeleteBegun(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil && graceperiod.Delete(p, nil, p.DeletionTimestamp.Time).Force
}
