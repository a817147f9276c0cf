package guard

import (
	"cmp"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// silence is how long a node must not have renewed its lease to count as silent: the duration of a kubelet's lease
// (pkg/kubelet/apis/config/v1beta1/defaults.go NodeLeaseDurationSeconds, 1.36.3).
const silence = 40 * time.Second

// NodeState says whether a node exists.
type NodeState int

const (
	// NodeUnknown is the zero value: the node could not be read.
	NodeUnknown NodeState = iota
	// NodeGone is where there is no such Node object.
	NodeGone
	// NodePresent is where there is one.
	NodePresent
)

// Node is what is known about a node.
type Node struct {
	Name  string
	State NodeState
	// The fields below are set for NodePresent only.
	UID    types.UID
	BootID string
	// Ready as its kubelet or, after silence, the node lifecycle controller says.
	Ready bool
	// Heartbeat is when its kubelet was last heard of: by its own clock or by that of the API server which received it, whichever is later,
	// so that a kubelet whose clock is behind is not taken for a silent one; zero: never.
	Heartbeat time.Time
	// OutOfService: it has the taint.
	OutOfService bool
	// InUse is status.volumesInUse: the volumes that may be mounted there, by its kubelet's last status.
	InUse []corev1.UniqueVolumeName
	// LastSign is its last sign of life as ConfirmOff has it, by which a receipt or a confirmation is void once there is another one.
	LastSign string
	// ConfirmedOff: somebody confirmed that this boot of it is off, and there was no heartbeat since.
	ConfirmedOff bool
}

// NodeOf is the Node of a Node object and its lease, which may be nil.
func NodeOf(n *corev1.Node, lease *coordinationv1.Lease, now time.Time) Node {
	node := Node{Name: n.Name, State: NodePresent, UID: n.UID, BootID: n.Status.NodeInfo.BootID, InUse: n.Status.VolumesInUse}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			node.Ready = c.Status == corev1.ConditionTrue
			node.heard(c.LastHeartbeatTime.Time)
		}
	}
	for _, m := range n.ManagedFields {
		if m.Manager == "kubelet" && m.Subresource == "status" {
			node.received(m)
		}
	}
	if lease != nil {
		if lease.Spec.RenewTime != nil {
			node.heard(lease.Spec.RenewTime.Time)
		}
		for _, m := range lease.ManagedFields { // only its kubelet writes it
			node.received(m)
		}
	}
	for _, t := range n.Spec.Taints {
		node.OutOfService = node.OutOfService || t.Key == corev1.TaintNodeOutOfService
	}
	node.LastSign = ConfirmOff(n, lease)
	node.ConfirmedOff = node.Silent(now) && !node.Ready && n.UID != "" && node.BootID != "" && n.Annotations[AnnotationConfirmOff] == node.LastSign
	return node
}

// heldNode allows a DELETE of a Node that only marks it as deleting, because finalizers are sure to keep it. Removing the last finalizer is judged again.
func heldNode(req Request, now time.Time) *Decision {
	if !req.HeldFrom.IsZero() && !now.Before(req.HeldFrom) {
		return allow(becauseHeld)
	}
	return nil
}

func (n *Node) heard(at time.Time) {
	if at.After(n.Heartbeat) {
		n.Heartbeat = at
	}
}

// received counts the time of a managedFields entry as a heartbeat: the API server sets it by its own clock with each write of that manager
// (k8s.io/apimachinery/pkg/util/managedfields/internal/managedfieldsupdater.go, 0.36.3). Forging one makes the node look alive,
// which is the safe side.
func (n *Node) received(m metav1.ManagedFieldsEntry) {
	if m.Time != nil {
		n.heard(m.Time.Time)
	}
}

// uses says whether the volume may be mounted on the node.
func (n Node) uses(v Volume) bool {
	if v.UniqueName == "" {
		return len(n.InUse) > 0
	}
	return slices.Contains(n.InUse, v.UniqueName)
}

// Silent says whether the last heartbeat is longer ago than a lease lasts.
func (n Node) Silent(now time.Time) bool { return now.Sub(n.Heartbeat) > silence }

// nodeStopped allows removals of pods and volumes of a node that is known to have stopped, and of the node.
func nodeStopped(_ Request, facts Facts) *Decision {
	if facts.stopped() {
		return allow(NodeStopped)
	}
	return nil
}

// nodeGone allows removals of pods and volumes of a node without a Node object: the removal of that was judged.
func nodeGone(_ Request, facts Facts) *Decision {
	if facts.Node.State == NodeGone {
		return allow(becauseNodeGone)
	}
	return nil
}

// bound are the pods of the node that the level protects.
func (f Facts) bound() []*corev1.Pod {
	return f.Bound[cmp.Or(f.Policy.ForceDelete, v1alpha1.RemovalDeny)]
}

// nothingProtectedOnNode allows the removal of a node that has no protected pods.
func nothingProtectedOnNode(_ Request, facts Facts) *Decision {
	if !facts.BoundKnown || len(facts.bound()) > 0 {
		return nil
	}
	return allow(becauseNothingProtected)
}
