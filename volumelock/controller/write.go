package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/api/written"
	"github.com/podgrace/podgrace/volumelock"
)

// again is how soon one goes on that has written as often as it may in one go.
const again = 100 * time.Millisecond

// write carries out one write. Each names the resourceVersion that was read. A lock that it makes or changes, or an attachment that it puts the finalizer on, is in the subject after it.
func (x *Attacher) write(ctx context.Context, w volumelock.Write, about *subject) (err error) {
	switch w := w.(type) {
	case volumelock.Take:
		lock := w.Lock
		if err := x.Client.Create(ctx, &lock); err != nil {
			return err
		}
		x.Metrics.take()
		about.lock = &lock
		return nil
	case volumelock.Note:
		lock := about.lock.DeepCopy()
		lock.Status = w.Status
		if err := x.Client.Status().Update(ctx, lock); err != nil {
			return err
		}
		if lock.ResourceVersion == about.lock.ResourceVersion { // each Note changes something: as an error it is tried again later and later, and not at once for ever
			return written.NotStored("VolumeLock "+lock.Name, "volumelocks.podgrace.dev")
		}
		about.lock = lock
		return nil
	case volumelock.Free:
		return x.Client.Delete(ctx, about.lock, client.Preconditions{UID: &about.lock.UID, ResourceVersion: &about.lock.ResourceVersion})
	case volumelock.Finalize:
		return x.finalize(ctx, w.Lock, about)
	case volumelock.Unfinalize:
		_, err = x.patch(ctx, about.attachment, func(a *storagev1.VolumeAttachment) {
			a.Finalizers = slices.DeleteFunc(slices.Clone(a.Finalizers), func(f string) bool { return f == v1alpha1.FinalizerVolumeLock })
		})
		return err
	case volumelock.Say:
		a := about.attachment.DeepCopy()
		a.Status.Attached, a.Status.AttachError = w.Attached, nil
		if w.Error != "" {
			a.Status.AttachError = &storagev1.VolumeError{Time: metav1.NewTime(x.Clock.Now()), Message: w.Error}
		}
		return x.Client.Status().Patch(ctx, a, client.MergeFromWithOptions(about.attachment, client.MergeFromWithOptimisticLock{}))
	case volumelock.Detach:
		return x.Client.Delete(ctx, about.attachment, client.Preconditions{UID: &about.attachment.UID, ResourceVersion: &about.attachment.ResourceVersion})
	case volumelock.Ask:
		n := about.node.DeepCopy()
		n.Status.VolumesInUse = append(n.Status.VolumesInUse, w.Volumes...)
		return x.Client.Status().Patch(ctx, n, client.MergeFromWithOptions(about.node, client.MergeFromWithOptimisticLock{}))
	}
	return fmt.Errorf("a write that is not known: %T", w)
}

// finalize puts the finalizer on an attachment, and the name of its lock.
func (x *Attacher) finalize(ctx context.Context, lock string, about *subject) error {
	a, err := x.patch(ctx, about.attachment, func(a *storagev1.VolumeAttachment) {
		a.Annotations = maps.Clone(a.Annotations)
		if a.Annotations == nil {
			a.Annotations = map[string]string{}
		}
		a.Annotations[v1alpha1.AnnotationVolumeLock] = lock
		if !slices.Contains(a.Finalizers, v1alpha1.FinalizerVolumeLock) {
			a.Finalizers = append(slices.Clone(a.Finalizers), v1alpha1.FinalizerVolumeLock)
		}
	})
	if err == nil {
		about.attachment = a
	}
	return err
}

func (x *Attacher) patch(ctx context.Context, was *storagev1.VolumeAttachment, change func(*storagev1.VolumeAttachment)) (*storagev1.VolumeAttachment, error) {
	a := was.DeepCopy()
	change(a)
	return a, x.Client.Patch(ctx, a, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}))
}
