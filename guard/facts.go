package guard

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// Facts are what is known when the decision is made. A zero value is unknown.
type Facts struct {
	Now time.Time
	// Policy is what the policies of the pod's namespace say; for Nodes and VolumeAttachments what those of all namespaces say.
	Policy policy.Removal
	// Node that the pod is bound to, or that the request is about.
	Node Node
	// Claims of the pod. One that is missing is unknown.
	Claims policy.Claims
	// Held are the PersistentVolumes of the pod that its node holds by VolumeLocks, as far as that is known. Nothing is decided by them.
	Held []string
	// Volume that an attachment is of, for RoadVolumeAttachment by the attach-detach controller.
	Volume Volume
	// Fences are receipts of fences for this pod or node.
	Fences []Fence
	// Bound are the pods of the node that are not finished, for RoadNode, by the action of the policies that protect them.
	// BoundKnown: they could be listed.
	Bound      map[v1alpha1.RemovalAction][]*corev1.Pod
	BoundKnown bool
}

// Volume is a PersistentVolume.
type Volume struct {
	// Known: it could be read. An unknown one counts as exclusive.
	Known bool
	// Claim that it is bound to, NAMESPACE/NAME; empty: none.
	Claim string
	Modes []corev1.PersistentVolumeAccessMode
	// UniqueName is its name in volumesInUse of nodes; empty: unknown.
	UniqueName corev1.UniqueVolumeName
}

// VolumeOf is the Volume of a PersistentVolume.
func VolumeOf(pv *corev1.PersistentVolume) Volume {
	v := Volume{Known: true, Modes: pv.Spec.AccessModes}
	if c := pv.Spec.ClaimRef; c != nil {
		v.Claim = c.Namespace + "/" + c.Name
	}
	if csi := pv.Spec.CSI; csi != nil { // pkg/volume/csi/csi_plugin.go GetVolumeName, pkg/volume/util GetUniqueVolumeName, 1.36.3
		v.UniqueName = corev1.UniqueVolumeName("kubernetes.io/csi/" + csi.Driver + "^" + csi.VolumeHandle)
	}
	return v
}

// exclusive reports whether only one node may use it.
func (v Volume) exclusive() bool {
	_, ok := policy.Exclusive(v.Modes)
	return !v.Known || ok
}
