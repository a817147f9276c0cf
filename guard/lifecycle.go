package guard

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/graceperiod"
)

// notForced allows what leaves the pod's end to the kubelet. The effective grace is computed anew from the stored pod:
// what the API server shows in the options differs from call to call.
func notForced(req Request, facts Facts) *Decision {
	switch req.Road {
	case RoadDelete, RoadEviction:
		if graceperiod.Delete(req.Pod, req.GracePeriodSeconds, facts.Now).Force {
			return nil
		}
	case RoadStatus:
		if req.Phase == corev1.PodSucceeded || req.Phase == corev1.PodFailed {
			return nil
		}
	case RoadFinalizer:
		if g := req.Pod.DeletionGracePeriodSeconds; req.Pod.DeletionTimestamp != nil && (g == nil || *g <= 0) {
			return nil
		}
	case RoadNode, RoadOutOfService, RoadVolumeAttachment:
		return nil
	}
	return allow("NotForced")
}

// neverScheduled allows the removal of a pod that no kubelet ever had.
func neverScheduled(req Request, _ Facts) *Decision {
	if req.Pod.Spec.NodeName == "" {
		return allow("NeverScheduled")
	}
	return nil
}

// finished allows the removal of a pod whose containers have ended. The phase can be trusted because its transition is a
// road of its own.
func finished(req Request, _ Facts) *Decision {
	if graceperiod.Finished(req.Pod) {
		return allow("Finished")
	}
	return nil
}
