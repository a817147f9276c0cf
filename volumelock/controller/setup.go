package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/kube"
	"github.com/podgrace/podgrace/volumelock"
)

// Fields of informers by which is found what an event is about.
const (
	byLock   = "lock"   // PersistentVolumes
	byVolume = "volume" // VolumeAttachments
	byNode   = "node"   // VolumeAttachments, VolumeLocks, and FenceReceipts by its UID
	byHandle = "handle" // PersistentVolumes
	byDriver = "driver" // VolumeAttachments, VolumeLocks
	byHolder = "holder" // VolumeLocks
)

// concurrent is how many of each kind are decided about at once.
const concurrent = 16

// index has an informer find objects by a field.
type index struct {
	of    client.Object
	field string
	value client.IndexerFunc
}

var indexes = []index{
	{&corev1.PersistentVolume{}, byLock, func(o client.Object) []string {
		return []string{volumelock.LockFor(&storagev1.VolumeAttachment{}, o.(*corev1.PersistentVolume))}
	}},
	{&corev1.PersistentVolume{}, byHandle, func(o client.Object) []string { return handle(o.(*corev1.PersistentVolume)) }},
	{&storagev1.VolumeAttachment{}, byVolume, func(o client.Object) []string { return []string{volumeOf(o.(*storagev1.VolumeAttachment))} }},
	{&storagev1.VolumeAttachment{}, byNode, func(o client.Object) []string { return []string{o.(*storagev1.VolumeAttachment).Spec.NodeName} }},
	{&storagev1.VolumeAttachment{}, byDriver, func(o client.Object) []string { return []string{o.(*storagev1.VolumeAttachment).Spec.Attacher} }},
	{&v1alpha1.VolumeLock{}, byDriver, func(o client.Object) []string { return []string{o.(*v1alpha1.VolumeLock).Spec.Driver} }},
	{&v1alpha1.VolumeLock{}, byHolder, func(o client.Object) []string { return []string{volumelock.Holder(o.(*v1alpha1.VolumeLock)).Name} }},
	{&v1alpha1.VolumeLock{}, byNode, func(o client.Object) []string { return []string{o.(*v1alpha1.VolumeLock).Spec.Node.Name} }},
	{&v1alpha1.FenceReceipt{}, byNode, func(o client.Object) []string {
		if n := o.(*v1alpha1.FenceReceipt).Spec.Node; n != nil {
			return []string{string(n.UID)}
		}
		return nil
	}},
}

// wiring is one controller: what it decides about, which events of that it heeds, whose events else have it decide, and how it does.
type wiring struct {
	name      string
	of        client.Object
	heeds     predicate.Funcs
	beside    []watch
	reconcile reconcile.Func
}

// watch is a kind of objects whose events are news to others, and to which.
type watch struct {
	of   client.Object
	news handler.MapFunc
}

// wirings are all that is watched, and what is looked at when it changes: for the manager, and for the test that no event is swallowed which matters (filters_test.go).
func (x *Attacher) wirings(ctx context.Context) []wiring {
	return []wiring{
		{name: "volumeattachment", of: &storagev1.VolumeAttachment{}, reconcile: x.ReconcileAttachment,
			heeds: predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
				return x.news(ctx, e.ObjectOld.(*storagev1.VolumeAttachment), e.ObjectNew.(*storagev1.VolumeAttachment))
			}},
			beside: []watch{
				{&v1alpha1.VolumeLock{}, x.waitingFor},
				{&corev1.PersistentVolume{}, x.attachmentsOf},
				{&corev1.Node{}, x.attachmentsOn},
				{&storagev1.CSIDriver{}, x.attachmentsBy},
			}},
		{name: "volumelock", of: &v1alpha1.VolumeLock{}, reconcile: x.ReconcileLock,
			heeds: predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool {
				return e.IsInInitialList || !x.atRest(ctx, e.Object.(*v1alpha1.VolumeLock))
			}},
			beside: []watch{
				{&storagev1.VolumeAttachment{}, x.lockOf},
				{&corev1.Node{}, x.heldBy},
				{&storagev1.CSIDriver{}, x.locksBy},
				{&v1alpha1.FenceReceipt{}, x.heldByFenced},
			}},
	}
}

// SetUp has the manager run the attacher.
func (x *Attacher) SetUp(ctx context.Context, mgr ctrl.Manager) error {
	for _, index := range indexes {
		if err := mgr.GetFieldIndexer().IndexField(ctx, index.of, index.field, index.value); err != nil {
			return fmt.Errorf("index %T by %s: %w", index.of, index.field, err)
		}
	}
	for _, w := range x.wirings(ctx) {
		build := ctrl.NewControllerManagedBy(mgr).Named(w.name).WithOptions(controller.Options{MaxConcurrentReconciles: concurrent, RateLimiter: kube.Retries()}).For(w.of, builder.WithPredicates(w.heeds))
		for _, b := range w.beside {
			build = build.Watches(b.of, handler.EnqueueRequestsFromMapFunc(b.news))
		}
		if err := build.Complete(w.reconcile); err != nil {
			return fmt.Errorf("watch for the controller %s: %w", w.name, err)
		}
	}
	return nil
}

// handle is by what kubelets know a volume.
func handle(pv *corev1.PersistentVolume) []string {
	if pv == nil || pv.Spec.CSI == nil {
		return nil
	}
	return []string{string(volumelock.InUseName(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle))}
}

// attachments lists those of the informer whose field has the value. They are its own, and not to be changed.
func (x *Attacher) attachments(ctx context.Context, field, value string) []storagev1.VolumeAttachment {
	var list storagev1.VolumeAttachmentList
	if err := x.Cache.List(ctx, &list, client.MatchingFields{field: value}, client.UnsafeDisableDeepCopy); err != nil {
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

// news reports whether a change of a VolumeAttachment is any to itself. What is written on the way to attach it is none: whoever writes that goes on, or tries again.
func (x *Attacher) news(ctx context.Context, was, is *storagev1.VolumeAttachment) bool {
	switch {
	case is.ResourceVersion == was.ResourceVersion: // it is looked at now and then whatever happens
		return true
	case is.UID != was.UID || is.DeletionTimestamp != nil || volumelock.OwnAttacher(is) != volumelock.OwnAttacher(was):
		return true
	case is.Status.Attached:
		return !volumelock.Settled(x.lockNow(ctx, volumelock.LockFor(is, nil)), is, x.nodeNow(ctx, is.Spec.NodeName))
	}
	// What is said may be by others, or by us where the answer was lost; after a while it is taken back, and said again.
	return was.Status.Attached || !volumelock.Finalized(is) || !equality.Semantic.DeepEqual(is.Status.AttachError, was.Status.AttachError) || x.marked(ctx, was, is)
}

// marked reports whether somebody else has named another lock in a VolumeAttachment. We name the one to which its PersistentVolume leads, where none is named.
func (x *Attacher) marked(ctx context.Context, was, is *storagev1.VolumeAttachment) bool {
	named := volumelock.LockFor(is, nil)
	if named == volumelock.LockFor(was, nil) {
		return false
	}
	return volumelock.Ours(was) || named != volumelock.LockFor(&storagev1.VolumeAttachment{}, cached(ctx, x.Cache, volumeOf(is), &corev1.PersistentVolume{}))
}

// atRest reports whether a lock is held as it should be by all that informers know. Which is late has an event of its own yet, by which the lock is looked at (lockOf, heldBy, locksBy).
func (x *Attacher) atRest(ctx context.Context, l *v1alpha1.VolumeLock) bool {
	driver := cached(ctx, x.Cache, l.Spec.Driver, &storagev1.CSIDriver{})
	a := cached(ctx, x.Cache, volumelock.Holder(l).Name, &storagev1.VolumeAttachment{})
	return volumelock.AtRest(volumelock.ReleaseFacts{
		Lock: l, Attachment: a, Node: x.nodeNow(ctx, l.Spec.Node.Name), Conflict: volumelock.Conflict(l.Spec.Driver, driver, a), DriverUID: uid(driver), Now: x.Clock.Now(),
	})
}

// waitingFor are the VolumeAttachments for the volume of a lock, also by another PersistentVolume. To the one that holds it, and is attached or about to be, it is no news; but it was not about to be while
// the lock said of it that it is deleted, or that another one holds it.
func (x *Attacher) waitingFor(ctx context.Context, o client.Object) (all []reconcile.Request) {
	was := o.(*v1alpha1.VolumeLock)
	lock := x.lockNow(ctx, was.Name)
	held := volumelock.Holder(was)
	name := func(a *storagev1.VolumeAttachment) string {
		if volumelock.HeldBy(lock, a) && held.Name == a.Name && (held.UID != a.UID || was.Status.Release == nil) && (!a.Status.Attached || volumelock.Settled(lock, a, x.nodeNow(ctx, a.Spec.NodeName))) {
			return ""
		}
		return a.Name
	}
	var volumes corev1.PersistentVolumeList
	if err := x.Cache.List(ctx, &volumes, client.MatchingFields{byLock: was.Name}); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "list PersistentVolumes", "lock", was.Name)
	}
	for i := range volumes.Items {
		all = append(all, requests(x.attachments(ctx, byVolume, volumes.Items[i].Name), name)...)
	}
	if holder := cached(ctx, x.Cache, volumelock.Holder(was).Name, &storagev1.VolumeAttachment{}); holder != nil { // whatever its PersistentVolume is
		all = append(all, requests([]storagev1.VolumeAttachment{*holder}, name)...)
	}
	return all
}

// attachmentsOf are the VolumeAttachments of a PersistentVolume, and of others that have its handle.
func (x *Attacher) attachmentsOf(ctx context.Context, volume client.Object) []reconcile.Request {
	all := requests(x.attachments(ctx, byVolume, volume.GetName()), attachmentName)
	same, err := x.sameHandle(ctx, volume.(*corev1.PersistentVolume))
	if err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "list PersistentVolumes", "as", volume.GetName())
	}
	for i := range same {
		if name := same[i].Name; name != volume.GetName() {
			all = append(all, requests(x.attachments(ctx, byVolume, name), attachmentName)...)
		}
	}
	return all
}

// sameHandle are the PersistentVolumes of the informer that have a volume's handle. They are its own, and not to be changed. That it is late is no harm: of two PersistentVolumes the
// older one is in it, and is seen by whoever attaches the other.
func (x *Attacher) sameHandle(ctx context.Context, pv *corev1.PersistentVolume) ([]corev1.PersistentVolume, error) {
	var list corev1.PersistentVolumeList
	for _, h := range handle(pv) {
		if err := x.Cache.List(ctx, &list, client.MatchingFields{byHandle: h}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list PersistentVolumes with the handle %s: %w", h, err)
		}
	}
	return list.Items, nil
}

// attachmentsOn are the VolumeAttachments of a node that its status may be news to. The informer says what it is, also of one that was deleted: there is none.
func (x *Attacher) attachmentsOn(ctx context.Context, o client.Object) []reconcile.Request {
	node := x.nodeNow(ctx, o.GetName())
	locks := map[string]*v1alpha1.VolumeLock{}
	all := x.locks(ctx, byNode, o.GetName())
	for i := range all {
		locks[all[i].Name] = &all[i]
	}
	return requests(x.attachments(ctx, byNode, o.GetName()), func(a *storagev1.VolumeAttachment) string {
		if volumelock.Settled(locks[volumelock.LockFor(a, nil)], a, node) {
			return ""
		}
		return a.Name
	})
}

// nodeNow is the Node as the informer has it; nil: there is none.
func (x *Attacher) nodeNow(ctx context.Context, name string) *corev1.Node {
	return cached(ctx, x.Cache, name, &corev1.Node{})
}

// lockNow is the VolumeLock as the informer has it; nil: there is none.
func (x *Attacher) lockNow(ctx context.Context, name string) *v1alpha1.VolumeLock {
	return cached(ctx, x.Cache, name, &v1alpha1.VolumeLock{})
}

// cached is an object as the informer has it; nil: there is none, or it can't be read, which is told.
func cached[T client.Object](ctx context.Context, from client.Reader, name string, into T) T {
	o, err := read(ctx, from, name, into)
	if err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "read what an event is about")
	}
	return o
}

// lockOf is the lock that an attachment holds, also where its PersistentVolume is gone, if that is any news to it.
func (x *Attacher) lockOf(ctx context.Context, o client.Object) []reconcile.Request {
	a := o.(*storagev1.VolumeAttachment)
	if !slices.Contains(x.Drivers, a.Spec.Attacher) {
		return nil
	}
	return requests(x.locks(ctx, byHolder, a.Name), func(l *v1alpha1.VolumeLock) string { // one that comes has an event of its own
		if x.atRest(ctx, l) {
			return ""
		}
		return l.Name
	})
}

// attachmentsBy are the VolumeAttachments of a driver, whose CSIDriver may not be gated any more.
func (x *Attacher) attachmentsBy(ctx context.Context, driver client.Object) []reconcile.Request {
	return requests(x.attachments(ctx, byDriver, driver.GetName()), attachmentName)
}

// locksBy are the locks of a driver.
func (x *Attacher) locksBy(ctx context.Context, driver client.Object) []reconcile.Request {
	return requests(x.locks(ctx, byDriver, driver.GetName()), func(l *v1alpha1.VolumeLock) string { return l.Name })
}

// heldBy are the locks of a node to which its status may be news: those that are being released, those of another Node of the name, and those of which it is not known which boot may have mounted without asking: three of its statuses tell.
func (x *Attacher) heldBy(ctx context.Context, o client.Object) []reconcile.Request {
	node := x.nodeNow(ctx, o.GetName())
	return requests(x.locks(ctx, byNode, o.GetName()), func(l *v1alpha1.VolumeLock) string {
		if l.Status.Release == nil && node != nil && node.UID == l.Spec.Node.UID && !volumelock.Unsettled(l) {
			return ""
		}
		return l.Name
	})
}

// heldByFenced are the locks that are being released of the node that a receipt is about.
func (x *Attacher) heldByFenced(ctx context.Context, receipt client.Object) []reconcile.Request {
	n := receipt.(*v1alpha1.FenceReceipt).Spec.Node
	if n == nil {
		return nil
	}
	return requests(x.locks(ctx, byNode, n.Name), func(l *v1alpha1.VolumeLock) string {
		if l.Status.Release == nil {
			return ""
		}
		return l.Name
	})
}

// locks lists those of the informer whose field has the value. They are its own, and not to be changed.
func (x *Attacher) locks(ctx context.Context, field, value string) []v1alpha1.VolumeLock {
	var locks v1alpha1.VolumeLockList
	if err := x.Cache.List(ctx, &locks, client.MatchingFields{field: value}, client.UnsafeDisableDeepCopy); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "list VolumeLocks", field, value)
	}
	return locks.Items
}
