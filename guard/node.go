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

const (
	// DefaultLease is how long a kubelet's Lease lasts by default (pkg/kubelet/apis/config/v1beta1/defaults.go NodeLeaseDurationSeconds, 1.36.3). It renews the Lease each
	// quarter of that time (pkg/kubelet/kubelet.go nodeLeaseRenewIntervalFraction).
	DefaultLease = 40 * time.Second
	// longestLease bounds what a Lease may say of itself: a node must not keep others from seeing that it is silent.
	longestLease = 10 * time.Minute
)

// LeaseLasts returns how long a node's Lease lasts, as the Lease itself says (nodeLeaseDurationSeconds of the kubelet's configuration), from 40 seconds to 10 minutes. A node
// that has not renewed its Lease for that long is silent.
func LeaseLasts(lease *coordinationv1.Lease) time.Duration {
	if lease == nil || lease.Spec.LeaseDurationSeconds == nil {
		return DefaultLease
	}
	return min(max(time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second, DefaultLease), longestLease)
}

// NodeState reports whether a node exists.
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
	// Lease is how long its Lease lasts (LeaseLasts); 0: DefaultLease.
	Lease time.Duration
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
	node := Node{Name: n.Name, State: NodePresent, UID: n.UID, BootID: n.Status.NodeInfo.BootID, InUse: n.Status.VolumesInUse, Lease: LeaseLasts(lease)}
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

// uses reports whether the volume may be mounted on the node.
func (n Node) uses(v Volume) bool {
	if v.UniqueName == "" {
		return len(n.InUse) > 0
	}
	return slices.Contains(n.InUse, v.UniqueName)
}

// Silent reports whether the last heartbeat is longer ago than the node's Lease lasts.
func (n Node) Silent(now time.Time) bool {
	return now.Sub(n.Heartbeat) > cmp.Or(n.Lease, DefaultLease)
}

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
