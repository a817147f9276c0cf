package plan

import corev1 "k8s.io/api/core/v1"

// The kubelet's annotations of static pods and their mirrors (pkg/kubelet/types/pod_update.go, 1.36.3).
const (
	annotationConfigHash   = "kubernetes.io/config.hash"
	annotationConfigSource = "kubernetes.io/config.source"
	sourceAPI              = "api"
)

// kubeletUID is the pod's UID for the kubelet. A static pod's is the hash of its manifest (pkg/kubelet/config/common.go
// applyDefaults); the mirror pod that stands for it in the API has a UID of its own, and the hash as an annotation
// (pkg/kubelet/pod/mirror_client.go).
func kubeletUID(pod *corev1.Pod) string {
	if hash := pod.Annotations[annotationConfigHash]; isMirror(pod) && hash != "" {
		return hash
	}
	return string(pod.UID)
}

// isMirror says whether a pod of the API stands for a static pod. Anybody may write the annotation, so the owner counts too: the
// kubelet makes its Node the controller of a mirror pod.
func isMirror(pod *corev1.Pod) bool {
	if _, annotated := pod.Annotations[corev1.MirrorPodAnnotationKey]; !annotated {
		return false
	}
	for _, o := range pod.OwnerReferences {
		if o.Kind == "Node" && o.APIVersion == "v1" && o.Name == pod.Spec.NodeName && o.Controller != nil && *o.Controller {
			return true
		}
	}
	return false
}
