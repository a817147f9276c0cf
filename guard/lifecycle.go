package guard

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

// notForced allows a removal that is no force delete: the kubelet stops the pod. The effective grace period is computed from the stored pod, because
// the one in the options that the API server sends differs from call to call.
func notForced(req Request, now time.Time) *Decision {
	switch req.Road {
	case RoadDelete, RoadEviction:
		// Where a force delete has begun and a finalizer keeps the pod, an eviction changes nothing: the update that removes the finalizer is on a
		// road of its own.
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

// neverScheduled allows the removal of a pod that was never bound to a node, so that no kubelet ran it.
func neverScheduled(req Request, _ time.Time) *Decision {
	if req.Pod.Spec.NodeName == "" {
		return allow(becauseNeverScheduled)
	}
	return nil
}

// finished allows the removal of a pod whose containers have ended. The phase can be trusted, because writing it is a road of its own.
func finished(req Request, _ time.Time) *Decision {
	if graceperiod.Finished(req.Pod) {
		return allow(becauseFinished)
	}
	return nil
}

// forceDeleteBegun reports whether a stored grace period of 0 shows that a force delete has begun: unless a finalizer keeps the pod, any further update removes
// it.
func forceDeleteBegun(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil && graceperiod.Delete(p, nil, p.DeletionTimestamp.Time).Force
}

// RemovedByUpdate reports whether any update of the pod removes it, whatever it writes: a force delete has begun, and no finalizer keeps the pod (k8s.io/apiserver
// pkg/registry/generic/registry/store.go, ShouldDeleteDuringUpdate, 0.36.3). Unless the update names the pod's UID as a precondition, as a PUT does and a PATCH can't, it removes who has the name by then.
func RemovedByUpdate(p *corev1.Pod) bool { return forceDeleteBegun(p) && len(p.Finalizers) == 0 }
