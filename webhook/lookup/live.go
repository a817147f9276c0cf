package lookup

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
)

// Timeout bounds all reads of one review together, so that there is time to answer what could not be read, before the API server's own timeout.
const Timeout = 3 * time.Second

// errOffline is for reads where there is no API server to ask.
var errOffline = errors.New("no API server to ask")

// Node reads a node and its lease live. Nothing is known of a removal without them, so they may take what time the review has left: while etcd
// hesitates for a second or two (a slow disk, a new leader) the answer still says how the node is.
func (l *Lookup) Node(ctx context.Context, name string, now time.Time) guard.Node {
	if l.Live == nil {
		return guard.Node{Name: name, State: guard.NodeUnknown}
	}
	var n corev1.Node
	switch err := l.Live.Get(ctx, types.NamespacedName{Name: name}, &n); {
	case apierrors.IsNotFound(err):
		return guard.Node{Name: name, State: guard.NodeGone}
	case err != nil:
		return guard.Node{Name: name, State: guard.NodeUnknown}
	}
	lease, err := l.Lease(ctx, name)
	if err != nil {
		// Without the lease it is unknown when the node was last heard of.
		return guard.Node{Name: name, State: guard.NodeUnknown}
	}
	return guard.NodeOf(&n, lease, now)
}

// Lease reads a node's lease live; nil where there is none.
func (l *Lookup) Lease(ctx context.Context, node string) (*coordinationv1.Lease, error) {
	if l.Live == nil {
		return nil, fmt.Errorf("read the lease of node %s: %w", node, errOffline)
	}
	var lease coordinationv1.Lease
	switch err := l.Live.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: node}, &lease); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the lease of node %s: %w", node, err)
	}
	return &lease, nil
}

// Volume reads the PersistentVolume of an attachment live. An inline volume has none.
func (l *Lookup) Volume(ctx context.Context, attachment *storagev1.VolumeAttachment) guard.Volume {
	name := attachment.Spec.Source.PersistentVolumeName
	if l.Live == nil || name == nil {
		return guard.Volume{}
	}
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	var pv corev1.PersistentVolume
	if err := l.Live.Get(ctx, types.NamespacedName{Name: *name}, &pv); err != nil {
		return guard.Volume{}
	}
	return guard.VolumeOf(&pv)
}

// Pod reads a pod live.
func (l *Lookup) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	if l.Live == nil {
		return nil, fmt.Errorf("read pod %s/%s: %w", namespace, name, errOffline)
	}
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	var p corev1.Pod
	if err := l.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &p); err != nil {
		return nil, fmt.Errorf("read pod %s/%s: %w", namespace, name, err)
	}
	return &p, nil
}

// PodsOn lists the pods of a node live.
func (l *Lookup) PodsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	if l.Live == nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node, errOffline)
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	var list corev1.PodList
	if err := l.Live.List(ctx, &list, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	return list.Items, nil
}

// Fences are the receipts of fences. What can't be read, as where their kind is not installed, is none: the removal is then judged without.
func (l *Lookup) Fences(ctx context.Context) []guard.Fence {
	var receipts v1alpha1.FenceReceiptList
	if err := l.Informers.List(ctx, &receipts); err != nil {
		return nil
	}
	return guard.FencesOf(receipts.Items)
}
