package preview

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/review"
)

// claims are those that controllers make before a pod is scheduled, or beside it: of a StatefulSet's templates and of ephemeral volumes. Made are the ones that wait for the pod's node, as
// the scheduler would find them. One that is bound without regard to the pod is left out of it, since nobody knows where its volume will be, and noted.
func claims(s *review.State, pod *corev1.Pod) (judged *corev1.Pod, made []client.Object, notes []string) {
	judged = pod.DeepCopy()
	judged.Spec.Volumes = slices.DeleteFunc(judged.Spec.Volumes, func(v corev1.Volume) bool {
		claim := claimOf(s, pod, &v)
		if claim == nil {
			return false
		}
		class := classOf(s, claim)
		if class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer {
			claim.Spec.StorageClassName = &class.Name
			made = append(made, claim)
			return false
		}
		why := "its StorageClass is not known"
		if class != nil {
			why = "StorageClass " + class.Name + " binds at once"
		}
		notes = append(notes, fmt.Sprintf("Claim %s will be made: %s, so that nobody knows yet which nodes reach its volume. The pod was judged without it.", claim.Name, why))
		return true
	})
	return judged, made, notes
}

// claimOf is the claim of a volume that is not there yet and that a controller will make; nil: there is none, it is there, or nobody makes it.
func claimOf(s *review.State, pod *corev1.Pod, v *corev1.Volume) *corev1.PersistentVolumeClaim {
	switch {
	case v.PersistentVolumeClaim != nil:
		key := client.ObjectKey{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName}
		if s.Has(&corev1.PersistentVolumeClaim{}, key) {
			return nil
		}
		return s.ClaimOf(key)
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		key := client.ObjectKey{Namespace: pod.Namespace, Name: ephemeral.VolumeClaimName(pod, v)}
		if s.Has(&corev1.PersistentVolumeClaim{}, key) {
			return nil
		}
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}},
			Spec:       *v.Ephemeral.VolumeClaimTemplate.Spec.DeepCopy(),
		}
	}
	return nil
}

// classOf a claim: the one that it names, or the newest of those that are the default (the plugin DefaultStorageClass of the API server); nil: it is not known.
func classOf(s *review.State, claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	var class *storagev1.StorageClass
	name := storagehelpers.GetPersistentVolumeClaimClass(claim)
	for _, c := range review.Objects[*storagev1.StorageClass](s) {
		switch {
		case name != "":
			if c.Name == name {
				return c
			}
		case claim.Spec.StorageClassName == nil && c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true":
			if class == nil || class.CreationTimestamp.Before(&c.CreationTimestamp) {
				class = c
			}
		}
	}
	return class
}
