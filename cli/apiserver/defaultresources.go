package apiserver

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// roundUp to thousandths, the finest that the API keeps (pkg/apis/core/v1/defaults.go SetDefaults_ResourceList, 1.36.3).
func roundUp(list corev1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
}

func roundUpStatus(status *corev1.PodStatus) {
	for _, statuses := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for _, s := range statuses {
			roundUp(s.AllocatedResources)
			roundUpBoth(s.Resources)
		}
	}
	roundUp(status.AllocatedResources)
	roundUpBoth(status.Resources)
}

func roundUpBoth(r *corev1.ResourceRequirements) {
	if r != nil {
		roundUp(r.Limits)
		roundUp(r.Requests)
	}
}

// requestsFromLimits: who names a limit and no request requests the limit.
func requestsFromLimits(containers []corev1.Container) {
	for i := range containers {
		r := &containers[i].Resources
		if r.Limits == nil {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		fill(r.Requests, r.Limits, func(corev1.ResourceName) bool { return true })
	}
}

// fill adds to a list what is wanted of another one and not yet in it.
func fill(list, from corev1.ResourceList, wanted func(corev1.ResourceName) bool) {
	for name, quantity := range from {
		if _, exists := list[name]; !exists && wanted(name) {
			list[name] = quantity.DeepCopy()
		}
	}
}

// defaultPodResources completes resources at the level of the pod, where it has some (defaultHugePagePodLimits and
// defaultPodRequests, 1.36.3; gate PodLevelResources, on by default).
func defaultPodResources(pod *corev1.Pod) {
	r := pod.Spec.Resources
	if r == nil || len(r.Limits)+len(r.Requests) == 0 {
		return
	}
	r.Limits = completed(r.Limits, func(limits corev1.ResourceList) {
		fill(limits, resourcehelper.AggregateContainerLimits(pod, resourcehelper.PodResourcesOptions{}), func(name corev1.ResourceName) bool {
			_, requested := r.Requests[name]
			return resourcehelper.IsSupportedPodLevelResource(name) && hugePages(name) && !requested
		})
	})
	if len(r.Limits) == 0 {
		return
	}
	r.Requests = completed(r.Requests, func(requests corev1.ResourceList) {
		fill(requests, resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{}), func(name corev1.ResourceName) bool {
			return resourcehelper.IsSupportedPodLevelResource(name) && !hugePages(name)
		})
		fill(requests, r.Limits, resourcehelper.IsSupportedPodLevelResource)
	})
}

// completed keeps a list as it is, nil or empty, where nothing is added.
func completed(list corev1.ResourceList, add func(corev1.ResourceList)) corev1.ResourceList {
	whole := list
	if whole == nil {
		whole = corev1.ResourceList{}
	}
	if add(whole); len(whole) > 0 {
		return whole
	}
	return list
}

func hugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
