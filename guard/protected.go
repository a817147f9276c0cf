package guard

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Protected says why running a pod twice could harm: it has an identity (a StatefulSet's) or exclusive storage. It is
// empty where it could not. A claim that is not known counts as exclusive.
//
// A tenant may take the owner out of a pod, and whoever deletes a StatefulSet with --cascade=orphan does. The hostname stays as it was
// created: that of a StatefulSet's pod, whatever group the StatefulSet is of, is its name (pkg/controller/statefulset/stateful_set_utils.go
// initIdentity, 1.36.3).
func Protected(pod *corev1.Pod, claims Claims) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "StatefulSet" {
		return "it is a pod of StatefulSet " + owner.Name
	}
	if pod.Name != "" && pod.Spec.Hostname == pod.Name {
		return "its hostname is its own name, as of a StatefulSet's pod"
	}
	for i := range pod.Spec.Volumes {
		if why := exclusiveVolume(&pod.Spec.Volumes[i], claims); why != "" {
			return why
		}
	}
	return ""
}

// exclusiveVolume says why only one node or pod may use a volume; empty: more may.
func exclusiveVolume(v *corev1.Volume, claims Claims) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		name := v.PersistentVolumeClaim.ClaimName
		claim, known := claims[name]
		if !known {
			return fmt.Sprintf("the access mode of its claim %s is not known", name)
		}
		if claim.Anew {
			return fmt.Sprintf("its claim %s was made anew after it started, so that the access mode of the volume that it has is not known", name)
		}
		if mode, ok := exclusive(claim.Modes); ok {
			return fmt.Sprintf("its claim %s is %s", name, mode)
		}
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		// The claim is made after the pod, with the modes that stand in the pod.
		if mode, ok := exclusive(v.Ephemeral.VolumeClaimTemplate.Spec.AccessModes); ok {
			return fmt.Sprintf("the claim of its volume %s is %s", v.Name, mode)
		}
	default:
		if kind := writtenByOne(&v.VolumeSource); kind != "" {
			return fmt.Sprintf("its volume %s (%s) may be written to by one node only", v.Name, kind)
		}
	}
	return ""
}

// writtenByOne names the type of a volume that stands in the pod itself and that is a disk: a file system on it which two nodes have
// mounted is destroyed. Read-only, it may be on many.
func writtenByOne(v *corev1.VolumeSource) string {
	for _, disk := range []struct {
		kind string
		is   bool
	}{
		{"iscsi", v.ISCSI != nil && !v.ISCSI.ReadOnly},
		{"fc", v.FC != nil && !v.FC.ReadOnly},
		{"rbd", v.RBD != nil && !v.RBD.ReadOnly},
		{"awsElasticBlockStore", v.AWSElasticBlockStore != nil},
		{"gcePersistentDisk", v.GCEPersistentDisk != nil && !v.GCEPersistentDisk.ReadOnly},
		{"azureDisk", v.AzureDisk != nil},
		{"cinder", v.Cinder != nil},
		{"vsphereVolume", v.VsphereVolume != nil},
		{"portworxVolume", v.PortworxVolume != nil && !v.PortworxVolume.ReadOnly},
		{"flexVolume", v.FlexVolume != nil && !v.FlexVolume.ReadOnly},
	} {
		if disk.is {
			return disk.kind
		}
	}
	return ""
}

// exclusive returns the access mode by which only one node or pod may use a volume.
func exclusive(modes []corev1.PersistentVolumeAccessMode) (corev1.PersistentVolumeAccessMode, bool) {
	for _, mode := range []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod} {
		if slices.Contains(modes, mode) {
			return mode, true
		}
	}
	return "", false
}

// ClaimNames returns the names of the PersistentVolumeClaims that the pod names.
func ClaimNames(pod *corev1.Pod) []string {
	var names []string
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}

// ProtectedBy returns the actions of the policies that protect the pod, strict to lax. One with the action Allow protects
// nothing.
func (p Policy) ProtectedBy(pod *corev1.Pod, claims Claims) []v1alpha1.RemovalAction {
	var actions []v1alpha1.RemovalAction
	stateful := Protected(pod, claims) != ""
	for level := &p; level != nil; level = level.Laxer {
		if len(level.Names) > 0 && level.ForceDelete != v1alpha1.RemovalAllow && (stateful || level.ProtectAll) {
			actions = append(actions, level.ForceDelete)
		}
	}
	return actions
}

// HoldsNode is ProtectedBy for the removal of a pod's node: where a policy protects all pods, those that have nothing to lose by themselves
// and that no other node would get either, of a DaemonSet or of the node's own files, hold it up for nothing.
func (p Policy) HoldsNode(pod *corev1.Pod, claims Claims) []v1alpha1.RemovalAction {
	if ofItsNode(pod) && Protected(pod, claims) == "" {
		return nil
	}
	return p.ProtectedBy(pod, claims)
}

// ofItsNode says whether a pod is of its node: a replacement runs on no other.
func ofItsNode(pod *corev1.Pod) bool {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet" && owner.APIVersion == appsv1.SchemeGroupVersion.String()
}

// protectedBecause is Protected under the level of the policy.
func protectedBecause(pod *corev1.Pod, facts Facts) string {
	why := Protected(pod, facts.Claims)
	switch {
	case why != "":
		return why
	case facts.Policy.Unknown:
		return "which policies guard it could not be read"
	case !facts.Policy.ProtectAll:
		return ""
	}
	return "the policy protects all pods"
}
