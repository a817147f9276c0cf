package plan

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// QOSClass is the pod's QoS class as the kubelet sees it: the one in its status, else computed from its resources; from those of
// the pod alone where it has any and the feature gate PodLevelResources is on (pkg/apis/core/v1/helper/qos/qos.go, 1.36.3).
func QOSClass(pod *corev1.Pod, podLevelResources bool) corev1.PodQOSClass {
	switch class := pod.Status.QOSClass; class {
	case corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort:
		return class
	}
	var s qosSums
	s.limited = true
	if r := pod.Spec.Resources; podLevelResources && r != nil {
		s.add(*r)
	} else {
		for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range containers {
				s.add(containers[i].Resources)
			}
		}
	}
	return s.class()
}

// qosSums are the requests and limits of cpu and memory of all that count, and whether each has limits of both.
type qosSums struct {
	requests, limits [2]resource.Quantity
	limited          bool
}

func (s *qosSums) add(r corev1.ResourceRequirements) {
	for i, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q := r.Requests[name]; q.Sign() > 0 {
			s.requests[i].Add(q)
		}
		q := r.Limits[name]
		if q.Sign() > 0 {
			s.limits[i].Add(q)
		} else {
			s.limited = false
		}
	}
}

func (s *qosSums) class() corev1.PodQOSClass {
	any, equal := false, true
	for i := range s.requests {
		any = any || !s.requests[i].IsZero() || !s.limits[i].IsZero()
		equal = equal && s.requests[i].Cmp(s.limits[i]) == 0
	}
	switch {
	case !any:
		return corev1.PodQOSBestEffort
	case s.limited && equal:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}
