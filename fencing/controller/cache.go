package controller

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/kube"
)

// NewScheme returns a scheme with the kinds that the fencer reads and writes.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, policyv1.AddToScheme, storagev1.AddToScheme, v1alpha1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

// Watched are the kinds that informers have. Pods are not among them: they are many, and only those of silent nodes are looked at.
func Watched() []client.Object {
	return []client.Object{
		&corev1.Node{}, &coordinationv1.Lease{}, &corev1.Namespace{}, &policyv1.PodDisruptionBudget{}, &storagev1.VolumeAttachment{},
		&v1alpha1.PodPolicy{}, &v1alpha1.FencePolicy{},
	}
}

// CacheOptions strip objects to what is read of them. Readers get the stored objects without a copy: nobody in this package changes one.
func CacheOptions() cache.Options {
	leases := kube.Trimmed(func(o *coordinationv1.Lease) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: kube.Identity(o.ObjectMeta), Spec: coordinationv1.LeaseSpec{RenewTime: o.Spec.RenewTime}}
	})
	leases.Namespaces = map[string]cache.Config{corev1.NamespaceNodeLease: {}}
	return cache.Options{
		ByObject: map[client.Object]cache.ByObject{
			&coordinationv1.Lease{}: leases,
			&corev1.Node{}: kube.Trimmed(func(o *corev1.Node) *corev1.Node {
				kept := &corev1.Node{ObjectMeta: kube.Identity(o.ObjectMeta), Spec: corev1.NodeSpec{ProviderID: o.Spec.ProviderID, Taints: o.Spec.Taints, Unschedulable: o.Spec.Unschedulable}}
				kept.Labels, kept.Annotations, kept.DeletionTimestamp = o.Labels, o.Annotations, o.DeletionTimestamp
				kept.Status.Conditions, kept.Status.Addresses = o.Status.Conditions, o.Status.Addresses
				kept.Status.NodeInfo.BootID, kept.Status.NodeInfo.SystemUUID, kept.Status.NodeInfo.KubeletVersion = o.Status.NodeInfo.BootID, o.Status.NodeInfo.SystemUUID, o.Status.NodeInfo.KubeletVersion
				return kept
			}),
			&corev1.Namespace{}: kube.Trimmed(func(o *corev1.Namespace) *corev1.Namespace {
				kept := &corev1.Namespace{ObjectMeta: kube.Identity(o.ObjectMeta)}
				kept.Labels = o.Labels
				return kept
			}),
			&storagev1.VolumeAttachment{}: kube.Trimmed(func(o *storagev1.VolumeAttachment) *storagev1.VolumeAttachment {
				return &storagev1.VolumeAttachment{ObjectMeta: kube.Identity(o.ObjectMeta), Spec: storagev1.VolumeAttachmentSpec{
					NodeName: o.Spec.NodeName, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: o.Spec.Source.PersistentVolumeName}}}
			}),
			// By their managed fields it is known what is not read of them.
			&v1alpha1.PodPolicy{}:   {Transform: func(in any) (any, error) { return in, nil }},
			&v1alpha1.FencePolicy{}: {Transform: func(in any) (any, error) { return in, nil }},
		},
		DefaultTransform: cache.TransformStripManagedFields(),
	}
}
