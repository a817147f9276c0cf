package guard

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Protected says why running a pod twice could harm: it has an identity (a StatefulSet's) or exclusive storage. It is
// empty where it could not. A claim that is not known counts as exclusive.
func Protected(pod *corev1.Pod, claims Claims) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "StatefulSet" {
		return "it is a pod of StatefulSet " + owner.Name
	}
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			name := v.PersistentVolumeClaim.ClaimName
			modes, known := claims[name]
			if !known {
				return fmt.Sprintf("the access mode of its claim %s is not known", name)
			}
			if mode, ok := exclusive(modes); ok {
				return fmt.Sprintf("its claim %s is %s", name, mode)
			}
		case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
			// The claim is made after the pod, with the modes that stand in the pod.
			if mode, ok := exclusive(v.Ephemeral.VolumeClaimTemplate.Spec.AccessModes); ok {
				return fmt.Sprintf("the claim of its volume %s is %s", v.Name, mode)
			}
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
