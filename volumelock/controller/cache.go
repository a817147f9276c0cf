package controller

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/kube"
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

// CacheOptions strip objects to what informers are asked for: where to look, and how many there are (Census). What is decided by is read whole, from the API server itself, but for
// the PersistentVolumes of one handle, which keep all that Attach reads. Readers get the stored objects without a copy: this package changes none.
func CacheOptions() cache.Options {
	var k keeper
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Node{}:                kube.Trimmed(keepNode),
		&corev1.PersistentVolume{}:    kube.Trimmed(k.keepVolume),
		&storagev1.VolumeAttachment{}: kube.Trimmed(k.keepAttachment),
		&storagev1.CSIDriver{}:        kube.Trimmed(keepDriver),
		&v1alpha1.VolumeLock{}:        kube.Trimmed(k.keepLock),
		&v1alpha1.FenceReceipt{}:      kube.Trimmed(keepReceipt),
	}}
}

// keeper keeps what informers are asked for. What many objects have in common they have in memory once.
type keeper struct{ kube.Interned }

// finalized are the finalizers of nearly each VolumeAttachment.
var finalized = []string{v1alpha1.FinalizerVolumeLock}

// keepNode keeps what tells whether its status is news to a volume (volumelock.Settled).
func keepNode(o *corev1.Node) *corev1.Node {
	kept := &corev1.Node{ObjectMeta: kube.Identity(o.ObjectMeta)}
	for _, t := range o.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService {
			kept.Spec.Taints = append(kept.Spec.Taints, t)
		}
	}
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.NodeReady {
			kept.Status.Conditions = append(kept.Status.Conditions, corev1.NodeCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
		}
	}
	for _, v := range o.Status.VolumesAttached {
		kept.Status.VolumesAttached = append(kept.Status.VolumesAttached, corev1.AttachedVolume{Name: v.Name})
	}
	kept.Status.NodeInfo.BootID = o.Status.NodeInfo.BootID
	return kept
}

func (k *keeper) keepVolume(o *corev1.PersistentVolume) *corev1.PersistentVolume {
	kept := &corev1.PersistentVolume{ObjectMeta: kube.Identity(o.ObjectMeta)}
	kept.Spec.AccessModes = o.Spec.AccessModes
	if source := o.Spec.CSI; source != nil {
		kept.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: k.Of(source.Driver), VolumeHandle: source.VolumeHandle, VolumeAttributes: volumelock.Leading(source)}
	}
	return kept
}

// keepAttachment keeps all by which an event is news to somebody (news, lockOf).
func (k *keeper) keepAttachment(o *storagev1.VolumeAttachment) *storagev1.VolumeAttachment {
	kept := &storagev1.VolumeAttachment{ObjectMeta: kube.Identity(o.ObjectMeta)}
	kept.CreationTimestamp, kept.DeletionTimestamp, kept.Finalizers = o.CreationTimestamp, o.DeletionTimestamp, o.Finalizers
	if slices.Equal(o.Finalizers, finalized) {
		kept.Finalizers = finalized
	}
	if lock := o.Annotations[v1alpha1.AnnotationVolumeLock]; lock != "" {
		kept.Annotations = map[string]string{v1alpha1.AnnotationVolumeLock: lock}
	}
	kept.Spec = storagev1.VolumeAttachmentSpec{Attacher: k.Of(o.Spec.Attacher), NodeName: k.Of(o.Spec.NodeName), Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: o.Spec.Source.PersistentVolumeName}}
	kept.Status.Attached, kept.Status.AttachError = o.Status.Attached, o.Status.AttachError
	return kept
}

// keepDriver keeps what tells whether it is gated (volumelock.Conflict).
func keepDriver(o *storagev1.CSIDriver) *storagev1.CSIDriver {
	kept := &storagev1.CSIDriver{ObjectMeta: kube.Identity(o.ObjectMeta), Spec: storagev1.CSIDriverSpec{AttachRequired: o.Spec.AttachRequired}}
	if gated := o.Annotations[v1alpha1.AnnotationGated]; gated != "" {
		kept.Annotations = map[string]string{v1alpha1.AnnotationGated: gated}
	}
	return kept
}

// keepLock keeps what tells whether it is at rest (volumelock.AtRest): of its condition only whether it is there.
func (k *keeper) keepLock(o *v1alpha1.VolumeLock) *v1alpha1.VolumeLock {
	kept := &v1alpha1.VolumeLock{ObjectMeta: kube.Identity(o.ObjectMeta), Spec: o.Spec, Status: o.Status}
	s := &kept.Spec
	s.Driver, s.Identity, s.DriverUID = k.Of(s.Driver), v1alpha1.VolumeIdentity(k.Of(string(s.Identity))), types.UID(k.Of(string(s.DriverUID)))
	s.Node = v1alpha1.BootReference{Name: k.Of(s.Node.Name), UID: types.UID(k.Of(string(s.Node.UID))), BootID: k.Of(s.Node.BootID)}
	kept.Status.Conditions = nil
	for _, c := range o.Status.Conditions {
		if c.Type == v1alpha1.ConditionConflict {
			kept.Status.Conditions = append(kept.Status.Conditions, metav1.Condition{Type: c.Type, Status: c.Status})
		}
	}
	return kept
}

func keepReceipt(o *v1alpha1.FenceReceipt) *v1alpha1.FenceReceipt {
	return &v1alpha1.FenceReceipt{ObjectMeta: kube.Identity(o.ObjectMeta), Spec: v1alpha1.FenceReceiptSpec{Node: o.Spec.Node, Class: o.Spec.Class, Voids: o.Spec.Voids, VoidsUID: o.Spec.VoidsUID}}
}
