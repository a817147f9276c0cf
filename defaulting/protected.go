package defaulting

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// isProtected says whether running the pod twice could harm: it has an identity or exclusive storage, or the policy
// protects all. A claim that is not known counts as exclusive.
func isProtected(req Request, e *Effective, facts Facts) bool {
	return protectedBecause(req, e, facts) != ""
}

func protectedBecause(req Request, e *Effective, facts Facts) string {
	if e.removal.protectAll {
		return "all pods"
	}
	if owner := controllerOf(req.Pod); owner != nil && owner.Kind == "StatefulSet" {
		return "it is a pod of StatefulSet " + owner.Name
	}
	for _, claim := range claimNames(req.Pod) {
		modes, known := facts.Claims[claim]
		if !known {
			return fmt.Sprintf("the access mode of its claim %s is not known", claim)
		}
		for _, mode := range []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod} {
			if slices.Contains(modes, mode) {
				return fmt.Sprintf("its claim %s is %s", claim, mode)
			}
		}
	}
	return ""
}

// claimNames returns the names of the PersistentVolumeClaims that the pod uses, generic ephemeral volumes included
// (their claim is named after pod and volume, k8s.io/component-helpers/storage/ephemeral).
func claimNames(pod *corev1.Pod) []string {
	var names []string
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, pod.Name+"-"+v.Name)
		}
	}
	return names
}
