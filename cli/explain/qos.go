package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// maxReasons is how many things of one kind are named.
const maxReasons = 3

var meansQoS = map[corev1.PodQOSClass]string{
	corev1.PodQOSGuaranteed: "The kernel's OOM killer takes it last",
	corev1.PodQOSBurstable:  "The kernel's OOM killer takes it after BestEffort and before Guaranteed pods",
	corev1.PodQOSBestEffort: "The kernel's OOM killer takes it first, and it has the least share of the CPU",
}

func qos(v *view) QoS {
	pod := v.pod
	class := plan.QOSClass(pod, true)
	q := QoS{Class: class, Means: meansQoS[class]}
	if pod.Spec.Resources != nil {
		q.Why = append(q.Why, "by the resources of the pod itself, not of its containers")
	}
	gaps := gapsOf(pod)
	switch {
	case class == corev1.PodQOSGuaranteed && len(gaps) == 0:
		q.Why = append(q.Why, "each has limits of cpu and memory, and its requests equal them")
	case class == corev1.PodQOSBestEffort:
		q.Why = append(q.Why, "nothing has a request or limit of cpu or memory")
	case class == corev1.PodQOSBurstable && len(gaps) > 0:
		q.Why = append(q.Why, "not Guaranteed because "+some(gaps))
	}
	if spec := specOnly(pod); plan.QOSClass(spec, true) != class {
		q.Why = []string{"as its status says: it was decided when the pod was made, and its spec would be " + string(plan.QOSClass(spec, true)) + " now"}
	}
	return q
}

func specOnly(pod *corev1.Pod) *corev1.Pod {
	spec := *pod
	spec.Status.QOSClass = ""
	return &spec
}

// gapsOf are the containers and resources by which a pod is not Guaranteed: each needs limits of cpu and memory, and requests that
// equal them (pkg/apis/core/v1/helper/qos/qos.go ComputePodQOS, 1.36.3).
func gapsOf(pod *corev1.Pod) (gaps []string) {
	if r := pod.Spec.Resources; r != nil {
		return gapsIn("the pod", *r)
	}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			gaps = append(gaps, gapsIn(list[i].Name, list[i].Resources)...)
		}
	}
	return gaps
}

func gapsIn(whose string, r corev1.ResourceRequirements) (gaps []string) {
	var lacks []corev1.ResourceName
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, request := r.Limits[name], r.Requests[name]
		switch {
		case limit.Sign() <= 0:
			lacks = append(lacks, name)
		case request.Cmp(limit) != 0:
			gaps = append(gaps, fmt.Sprintf("%s requests %s of %s and is limited to %s", whose, request.String(), name, limit.String()))
		}
	}
	if len(lacks) > 0 {
		gaps = append(gaps, fmt.Sprintf("%s has no limit of %s", whose, join(lacks, " and ")))
	}
	return gaps
}

// some names the first of many.
func some(list []string) string {
	text := ""
	for i, s := range list {
		if i == maxReasons {
			return text + fmt.Sprintf(", and %d more", len(list)-maxReasons)
		}
		if i > 0 {
			text += ", "
		}
		text += s
	}
	return text
}
