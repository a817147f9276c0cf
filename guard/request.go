package guard

import (
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Road is a kind of request that can make Kubernetes believe that a pod is gone while it may still run.
type Road string

// The roads.
const (
	// RoadDelete is a DELETE or DELETECOLLECTION of pods whose effective grace period is 0.
	RoadDelete Road = "delete"
	// RoadEviction is an eviction whose effective grace period is 0.
	RoadEviction Road = "eviction"
	// RoadStatus is an update of the status to phase Succeeded or Failed, after which a plain delete of the pod takes effect at once.
	RoadStatus Road = "status"
	// RoadFinalizer is an update after which a pod that was force-deleted before has no finalizer: it is removed by that,
	// whatever else the update is about (k8s.io/apiserver/pkg/registry/generic/registry/store.go ShouldDeleteDuringUpdate,
	// 0.36.3).
	RoadFinalizer Road = "finalizer"
	// RoadNode is a DELETE of a Node, or an update that removes the last finalizer of one that is being deleted: pod garbage collection then
	// force-deletes its pods.
	RoadNode Road = "node"
	// RoadOutOfService is the taint node.kubernetes.io/out-of-service: pods are force-deleted, volumes detached.
	RoadOutOfService Road = "out-of-service"
	// RoadVolumeAttachment is a DELETE of a VolumeAttachment: the volume may then be attached elsewhere.
	RoadVolumeAttachment Road = "volume-attachment"
)

// Request is who wants to remove what.
type Request struct {
	Road Road
	User authenticationv1.UserInfo
	// Pod as stored, for the roads of pods.
	Pod *corev1.Pod
	// GracePeriodSeconds of the user's options; nil where there are none.
	GracePeriodSeconds *int64
	// Phase that is to be written, for RoadStatus.
	Phase corev1.PodPhase
	// Node as stored, for the roads of nodes. The object alone says which it is: a DELETECOLLECTION has no name.
	Node *corev1.Node
	// HeldFrom, for a DELETE of a Node, is from when on its finalizers are sure to keep it: when it will have had them for longer than a request can take; zero:
	// it has none. The API server can delete an object that it read without finalizers although some were added since
	// (k8s.io/apiserver/pkg/storage/etcd3/store.go conditionalDelete, 0.36.3).
	HeldFrom time.Time
	// VolumeAttachment as stored, for its road.
	VolumeAttachment *storagev1.VolumeAttachment
}
