package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/volumelock"
)

// NewScheme returns a scheme with the kinds that the volume lock reads and writes.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, storagev1.AddToScheme, v1alpha1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

// Synced says whether all informers have synced.
func Synced(informers cache.Cache) healthz.Checker {
	return func(req *http.Request) error {
		if !informers.WaitForCacheSync(req.Context()) {
			return errors.New("the informers have not synced")
		}
		return nil
	}
}

// Fields of informers by which is found what an event is about.
const (
	byLock   = "lock"   // PersistentVolumes
	byVolume = "volume" // VolumeAttachments
	byNode   = "node"   // VolumeAttachments, VolumeLocks
)

// concurrent is how many of each kind are decided about at once.
const concurrent = 16

// SetUp has the manager run the attacher.
func (x *Attacher) SetUp(ctx context.Context, mgr ctrl.Manager) error {
	for _, index := range []struct {
		of    client.Object
		field string
		value func(client.Object) []string
	}{
		{&corev1.PersistentVolume{}, byLock, func(o client.Object) []string {
			return []string{volumelock.LockFor(&storagev1.VolumeAttachment{}, o.(*corev1.PersistentVolume))}
		}},
		{&storagev1.VolumeAttachment{}, byVolume, func(o client.Object) []string { return volumeName(o.(*storagev1.VolumeAttachment)) }},
		{&storagev1.VolumeAttachment{}, byNode, func(o client.Object) []string { return []string{o.(*storagev1.VolumeAttachment).Spec.NodeName} }},
		{&v1alpha1.VolumeLock{}, byNode, func(o client.Object) []string { return []string{o.(*v1alpha1.VolumeLock).Spec.Node.Name} }},
	} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, index.of, index.field, index.value); err != nil {
			return fmt.Errorf("index %T by %s: %w", index.of, index.field, err)
		}
	}
	options := controller.Options{MaxConcurrentReconciles: concurrent}
	err := ctrl.NewControllerManagedBy(mgr).Named("volumeattachment").WithOptions(options).
		For(&storagev1.VolumeAttachment{}).
		Watches(&v1alpha1.VolumeLock{}, handler.EnqueueRequestsFromMapFunc(x.waitingFor)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(x.attachmentsOf)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(x.unattachedOn)).
		Complete(reconcile.Func(x.ReconcileAttachment))
	if err != nil {
		return fmt.Errorf("watch VolumeAttachments: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("volumelock").WithOptions(options).
		For(&v1alpha1.VolumeLock{}).
		Watches(&storagev1.VolumeAttachment{}, handler.EnqueueRequestsFromMapFunc(x.lockOf)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(x.heldBy)).
		Watches(&v1alpha1.FenceReceipt{}, handler.EnqueueRequestsFromMapFunc(x.heldByFenced)).
		Complete(reconcile.Func(x.ReconcileLock))
	if err != nil {
		return fmt.Errorf("watch VolumeLocks: %w", err)
	}
	return nil
}

func volumeName(a *storagev1.VolumeAttachment) []string {
	if a.Spec.Source.PersistentVolumeName == nil {
		return nil
	}
	return []string{*a.Spec.Source.PersistentVolumeName}
}

// attachments lists those of the informer whose field has the value.
func (x *Attacher) attachments(ctx context.Context, field, value string) []storagev1.VolumeAttachment {
	var list storagev1.VolumeAttachmentList
	if err := x.Cache.List(ctx, &list, client.MatchingFields{field: value}); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "list VolumeAttachments", field, value)
	}
	return slices.DeleteFunc(list.Items, func(a storagev1.VolumeAttachment) bool { return !slices.Contains(x.Drivers, a.Spec.Attacher) })
}

func requests[T any](list []T, name func(*T) string) (all []reconcile.Request) {
	for i := range list {
		if n := name(&list[i]); n != "" {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKey{Name: n}})
		}
	}
	return all
}

func attachmentName(a *storagev1.VolumeAttachment) string { return a.Name }

// waitingFor are the VolumeAttachments for the volume of a lock, also by another PersistentVolume.
func (x *Attacher) waitingFor(ctx context.Context, lock client.Object) (all []reconcile.Request) {
	var volumes corev1.PersistentVolumeList
	if err := x.Cache.List(ctx, &volumes, client.MatchingFields{byLock: lock.GetName()}); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "list PersistentVolumes", "lock", lock.GetName())
	}
	for i := range volumes.Items {
		all = append(all, requests(x.attachments(ctx, byVolume, volumes.Items[i].Name), attachmentName)...)
	}
	return append(all, reconcile.Request{NamespacedName: client.ObjectKey{Name: volumelock.Holder(lock.(*v1alpha1.VolumeLock)).Name}})
}

func (x *Attacher) attachmentsOf(ctx context.Context, volume client.Object) []reconcile.Request {
	return requests(x.attachments(ctx, byVolume, volume.GetName()), attachmentName)
}

// unattachedOn are the VolumeAttachments that may wait for what a node says, and those of one that was made anew.
func (x *Attacher) unattachedOn(ctx context.Context, node client.Object) []reconcile.Request {
	return requests(x.attachments(ctx, byNode, node.GetName()), func(a *storagev1.VolumeAttachment) string {
		if a.Status.Attached && node.GetDeletionTimestamp() == nil && !volumelock.Ours(a) {
			return ""
		}
		return a.Name
	})
}

// lockOf is the lock that an attachment has to do with.
func (x *Attacher) lockOf(ctx context.Context, o client.Object) []reconcile.Request {
	a := o.(*storagev1.VolumeAttachment)
	if !slices.Contains(x.Drivers, a.Spec.Attacher) {
		return nil
	}
	name := volumelock.LockFor(a, nil)
	if name == "" && a.Spec.Source.PersistentVolumeName != nil {
		volume, err := read(ctx, x.Cache, *a.Spec.Source.PersistentVolumeName, &corev1.PersistentVolume{})
		if err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "read PersistentVolume", "attachment", a.Name)
		}
		name = volumelock.LockFor(a, volume)
	}
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: name}}}
}

// heldBy are the locks of a node that are being released.
func (x *Attacher) heldBy(ctx context.Context, node client.Object) []reconcile.Request {
	return x.heldByNode(ctx, node.GetName())
}

func (x *Attacher) heldByFenced(ctx context.Context, receipt client.Object) []reconcile.Request {
	if n := receipt.(*v1alpha1.FenceReceipt).Spec.Node; n != nil {
		return x.heldByNode(ctx, n.Name)
	}
	return nil
}

func (x *Attacher) heldByNode(ctx context.Context, node string) []reconcile.Request {
	var locks v1alpha1.VolumeLockList
	if err := x.Cache.List(ctx, &locks, client.MatchingFields{byNode: node}); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "list VolumeLocks", "node", node)
	}
	return requests(locks.Items, func(l *v1alpha1.VolumeLock) string {
		if l.Status.Release == nil {
			return ""
		}
		return l.Name
	})
}
