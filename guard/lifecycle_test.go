package guard_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/guard"
)

func TestLifecycle(t *testing.T) {
	t.Parallel()
	denied := func(name string, options ...option) row {
		return row{name: name, world: dangerous(options...), verdict: guard.Deny, reason: "Unsafe"}
	}
	allowed := func(reason, name string, options ...option) row {
		return row{name: name, world: dangerous(options...), verdict: guard.Allow, reason: reason}
	}
	const notForced = "NotForced"
	testRows(t, []row{
		denied("delete: kubectl delete --force"),
		allowed(notForced, "delete: plain", noGrace),
		allowed(notForced, "delete: kubectl delete --now", grace(1)),
		allowed(notForced, "delete: a negative grace is 1", grace(-1)),
		denied("delete: plain, but the pod's own grace is 0", noGrace, ownGrace(0)),
		allowed(notForced, "delete: a grace of its own for a pod of grace 0", grace(5), ownGrace(0)),
		denied("delete: DELETECOLLECTION without options shows none, and the pod's own grace is 0", noGrace, ownGrace(0), phase("Pending")),
		allowed(notForced, "delete: again while terminating", noGrace, terminating(new(int64(30)))),
		allowed(notForced, "delete: shorter while terminating", grace(1), terminating(new(int64(30)))),
		denied("delete: forced while terminating", terminating(new(int64(30)))),
		denied("delete: plain, but a stored 0 was left behind", noGrace, halfDone),
		denied("delete: a longer grace does not undo a stored 0", grace(60), halfDone),
		denied("delete: terminating with nothing stored is removed at once", noGrace, terminating(nil)),

		denied("eviction: grace 0", on(guard.RoadEviction)),
		allowed(notForced, "eviction: plain", on(guard.RoadEviction), noGrace),
		denied("eviction: plain, but a stored 0 was left behind", on(guard.RoadEviction), noGrace, halfDone),
		denied("eviction: plain, but the pod's own grace is 0", on(guard.RoadEviction), noGrace, ownGrace(0)),
		allowed(notForced, "eviction: with a grace, of a pod whose own is 0", on(guard.RoadEviction), grace(30), ownGrace(0)),
		denied("eviction: a grace does not undo a stored 0", on(guard.RoadEviction), grace(30), halfDone),
		denied("eviction: of a pod of grace 0 that a finalizer holds: it would be stored", on(guard.RoadEviction), noGrace, ownGrace(0), held),
		denied("eviction: grace 0 while terminating, and a finalizer holds it", on(guard.RoadEviction), terminating(new(int64(30))), held),
		allowed(notForced, "eviction: a stored 0 that a finalizer holds", on(guard.RoadEviction), noGrace, halfDone, held),
		denied("delete: a stored 0 that a finalizer holds", noGrace, halfDone, held),

		denied("status: Failed", on(guard.RoadStatus)),
		denied("status: Succeeded", on(guard.RoadStatus), writes(corev1.PodSucceeded)),
		allowed(notForced, "status: Running", on(guard.RoadStatus), writes(corev1.PodRunning)),
		allowed(notForced, "status: Unknown", on(guard.RoadStatus), writes(corev1.PodUnknown)),

		denied("finalizer: completes a force delete", on(guard.RoadFinalizer)),
		denied("finalizer: nothing stored counts as 0", on(guard.RoadFinalizer), terminating(nil)),
		allowed(notForced, "finalizer: of a pod that still has its grace", on(guard.RoadFinalizer), terminating(new(int64(30)))),
		allowed(notForced, "finalizer: of a pod that has one second", on(guard.RoadFinalizer), terminating(new(int64(1)))),
		allowed(notForced, "finalizer: of a pod that is not being deleted", on(guard.RoadFinalizer), func(w *world) { w.req.Pod.DeletionTimestamp, w.req.Pod.DeletionGracePeriodSeconds = nil, nil }),
		allowed("Finished", "finalizer: a Job's, as it happens every day", on(guard.RoadFinalizer), phase(corev1.PodSucceeded), ownedBy("Job", "report")),

		allowed("NeverScheduled", "a pod that was never scheduled", unscheduled),
		allowed("NeverScheduled", "a pod that was never scheduled is said to have failed", on(guard.RoadStatus), unscheduled),
		allowed("NeverScheduled", "finalizer of a pod that was never scheduled", on(guard.RoadFinalizer), unscheduled),
		denied("pending, but bound: its kubelet may just have started it", phase(corev1.PodPending)),
		allowed("Finished", "succeeded", phase(corev1.PodSucceeded)),
		allowed("Finished", "failed: a StatefulSet replaces it", phase(corev1.PodFailed)),
		allowed("Finished", "from Failed to Succeeded", on(guard.RoadStatus), phase(corev1.PodFailed)),
		denied("phase Unknown is not finished", phase(corev1.PodUnknown)),
		denied("no phase at all is not finished", phase("")),
	})
}
