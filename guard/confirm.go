package guard

import (
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A confirmation is proof by itself: the API server lets only users with the ConfirmVerb write one, and only for the object as it is
// (confirm-force-delete.podgrace.dev and confirm-off.podgrace.dev in deploy/webhook/policies.yaml), and a pod's only if its time is that of the
// write, give or take clockTolerance, by the API server's clock. So whoever acts on it later, such as a controller that removes its finalizer,
// needs no right of its own, and nothing is read from managedFields here, which whoever may patch the object can forge later.
const (
	// AnnotationConfirmForceDelete on a pod says that somebody accepts that it may run twice. Its value is made by ConfirmPod.
	AnnotationConfirmForceDelete = "podgrace.dev/confirm-force-delete"
	// AnnotationConfirmOff on a node says that somebody knows that it is off. Its value is made by ConfirmOff.
	AnnotationConfirmOff = "podgrace.dev/confirm-off"
)

// ConfirmVerb is what a user must be allowed on pods or nodes of the group podgrace.dev to write a confirmation.
const ConfirmVerb = "force-delete"

const (
	// clockTolerance is how far the clock of the person who confirms may be off.
	clockTolerance = 5 * time.Minute
	// confirmationLasts is for how long after its time a pod's confirmation is valid: an hour after it was written at most, since its time is at most clockTolerance ahead then.
	// The match conditions in deploy/webhook/configurations.yaml have both.
	confirmationLasts = time.Hour - clockTolerance
)

// ConfirmPod is the value of AnnotationConfirmForceDelete: UID/TIME, so that it expires and does not hold for a replacement of the same name. For a pod
// whose node is silent it is UID/TIME/HEARTBEAT, with the node's last heartbeat: it is void once the node has a later one. Times are RFC 3339.
func ConfirmPod(pod *corev1.Pod, node Node, now time.Time) string {
	text := string(pod.UID) + "/" + now.UTC().Format(time.RFC3339)
	if node.State == NodePresent && !node.Ready && node.Silent(now) {
		text += "/" + node.Heartbeat.UTC().Format(time.RFC3339Nano)
	}
	return text
}

// ConfirmOff is the value of AnnotationConfirmOff: UID/BOOT/HEARTBEAT/LEASE, with the last heartbeat in the Ready condition and the last
// renewal of the lease as they are stored; empty where there is none. The confirmation is valid as long as these stay the same: for this
// boot of this Node, until its next heartbeat. The lease may be nil.
func ConfirmOff(n *corev1.Node, lease *coordinationv1.Lease) string {
	var heartbeat, renewed string
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && !c.LastHeartbeatTime.IsZero() {
			heartbeat = c.LastHeartbeatTime.UTC().Format(time.RFC3339)
		}
	}
	if lease != nil && lease.Spec.RenewTime != nil {
		renewed = lease.Spec.RenewTime.UTC().Format(metav1.RFC3339Micro)
	}
	return strings.Join([]string{string(n.UID), n.Status.NodeInfo.BootID, heartbeat, renewed}, "/")
}

// HeardSince reports whether a value of ConfirmOff shows a heartbeat that an earlier value does not. A part that is missing now shows nothing: somebody may have deleted the Lease.
func HeardSince(before, now string) bool {
	if before == now {
		return false
	}
	was, is := strings.Split(before, "/"), strings.Split(now, "/")
	if len(was) != len(is) {
		return true
	}
	for i := range is {
		if is[i] != "" && is[i] != was[i] {
			return true
		}
	}
	return false
}

// confirmed allows a force delete that was confirmed for this very pod. A confirmation is not used up, since a single force delete is reviewed two or three times,
// by any replica.
func confirmed(req Request, facts Facts) *Decision {
	if c, ok := confirmationOf(req.Pod); ok && c.void(req, facts) == "" {
		return allow(Confirmed)
	}
	return nil
}

// podConfirmation is a decoded AnnotationConfirmForceDelete.
type podConfirmation struct {
	at time.Time
	// heard is the last heartbeat of the pod's node, if that was silent.
	heard *time.Time
	// wrong says why the value can't be read.
	wrong string
}

// confirmationOf returns the confirmation of a pod, if it is about this very pod.
func confirmationOf(pod *corev1.Pod) (c podConfirmation, ok bool) {
	parts := strings.Split(pod.Annotations[AnnotationConfirmForceDelete], "/")
	if pod.UID == "" || parts[0] != string(pod.UID) {
		return c, false
	}
	if len(parts) == 1 {
		return podConfirmation{wrong: "it does not say when it was made"}, true
	}
	at, err := time.Parse(time.RFC3339, parts[1])
	if err != nil || len(parts) > 3 {
		return podConfirmation{wrong: "it does not say when it was made, as in UID/2026-01-31T12:00:00Z"}, true
	}
	c.at = at
	if len(parts) == 3 {
		heard, err := time.Parse(time.RFC3339Nano, parts[2])
		if err != nil {
			return podConfirmation{wrong: "it does not say when the node was last heard of"}, true
		}
		c.heard = &heard
	}
	return c, true
}

// void says why a confirmation is not valid any more; empty: it is.
func (c podConfirmation) void(req Request, facts Facts) string {
	n, age := facts.Node, facts.Now.Sub(c.at)
	// A controller may remove the last finalizer late: what counts then is whether the confirmation was valid when the deletion began.
	if began := req.Pod.DeletionTimestamp; req.Road == RoadFinalizer && began != nil && began.After(c.at) { // times have whole seconds
		age = min(age, began.Sub(c.at))
	}
	switch {
	case c.wrong != "":
		return c.wrong
	case age > confirmationLasts:
		return "it is older than 55 minutes"
	case age < -clockTolerance:
		return "it is of a time to come, check the clocks"
	case c.heard != nil && n.State == NodePresent && n.Heartbeat.After(*c.heard):
		return fmt.Sprintf("node %s was heard of since", n.Name)
	}
	return ""
}

// Confirmation reports whether the pod has a valid confirmation, and if it has one that is void, why.
func Confirmation(pod *corev1.Pod, node Node, now time.Time) (holds bool, void string) {
	c, ok := confirmationOf(pod)
	if !ok {
		return false, ""
	}
	void = c.void(Request{Pod: pod}, Facts{Now: now, Node: node})
	return void == "", void
}
