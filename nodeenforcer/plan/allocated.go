package plan

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Allocated is the pod with the resources that the kubelet has admitted for it, which are what it writes to cgroups: while a resize
// is not accepted, the old ones (pkg/kubelet/allocation/allocation_manager.go UpdatePodFromAllocation, 1.36.3; its checkpoint is
// not in the API, so they are read from the status that pkg/kubelet/kubelet_pods.go makes of it: the requests as allocated, the
// limits as actuated). The pod itself is returned where nothing differs, and is never changed.
func Allocated(pod *corev1.Pod) *corev1.Pod {
	old := awaitsResize(pod)
	var changed *corev1.Pod
	replace := func(i int, init bool, r *corev1.ResourceRequirements) {
		if r == nil {
			return
		}
		if changed == nil {
			changed = pod.DeepCopy()
		}
		if init {
			changed.Spec.InitContainers[i].Resources = *r
		} else {
			changed.Spec.Containers[i].Resources = *r
		}
	}
	for i := range pod.Spec.Containers {
		replace(i, false, allocatedContainer(&pod.Spec.Containers[i], pod.Status.ContainerStatuses, old))
	}
	for i := range pod.Spec.InitContainers {
		replace(i, true, allocatedContainer(&pod.Spec.InitContainers[i], pod.Status.InitContainerStatuses, old))
	}
	if r := allocatedPodLevel(pod); old && r != nil {
		if changed == nil {
			changed = pod.DeepCopy()
		}
		changed.Spec.Resources = r
	}
	if changed == nil {
		return pod
	}
	return changed
}

// awaitsResize says whether the kubelet has not accepted what the spec says: it refused it, put it off, or has not seen it yet.
func awaitsResize(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodResizePending && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return pod.Status.ObservedGeneration != 0 && pod.Status.ObservedGeneration < pod.Generation
}

// allocatedContainer returns a container's allocated resources where they are not the spec's, else nil.
func allocatedContainer(c *corev1.Container, statuses []corev1.ContainerStatus, old bool) *corev1.ResourceRequirements {
	s := statusOf(statuses, c.Name)
	if s == nil || s.Resources == nil {
		return nil
	}
	if s.AllocatedResources == nil && len(c.Resources.Requests) > 0 {
		return nil // an older kubelet, or one that has not told yet
	}
	if !old && equality.Semantic.DeepEqual(s.AllocatedResources, c.Resources.Requests) {
		return nil
	}
	if equality.Semantic.DeepEqual(s.AllocatedResources, c.Resources.Requests) && equality.Semantic.DeepEqual(s.Resources.Limits, c.Resources.Limits) {
		return nil
	}
	r := c.Resources.DeepCopy()
	r.Requests, r.Limits = s.AllocatedResources.DeepCopy(), s.Resources.Limits.DeepCopy()
	return r
}

// allocatedPodLevel returns the allocated resources of a pod that has some of its own. The status counts its overhead with them.
func allocatedPodLevel(pod *corev1.Pod) *corev1.ResourceRequirements {
	if pod.Spec.Resources == nil || pod.Status.Resources == nil || pod.Status.AllocatedResources == nil {
		return nil
	}
	r := pod.Spec.Resources.DeepCopy()
	without := func(list, status corev1.ResourceList) {
		for name := range list {
			q, told := status[name]
			if !told || !podLevelResource(name) {
				continue
			}
			q = q.DeepCopy()
			if !q.IsZero() { // a limit of 0 is none, and got no overhead
				q.Sub(pod.Spec.Overhead[name])
			}
			list[name] = q
		}
	}
	without(r.Requests, pod.Status.AllocatedResources)
	without(r.Limits, pod.Status.Resources.Limits)
	return r
}

// podLevelResource says which resources a pod may have of its own (KEP-2837).
func podLevelResource(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func statusOf(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}
