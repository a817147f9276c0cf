package manypods

import (
	"crypto/sha256"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kinds are the containers' requests and limits ("cpu/memory") of every tenth pod: two Guaranteed, five Burstable, of which two have
// two containers and two no limit, and three BestEffort.
var kinds = [][][2]string{
	{{"100m/128Mi", "100m/128Mi"}},
	{{"50m/64Mi", "200m/256Mi"}},
	{{"", ""}},
	{{"25m/32Mi", ""}},
	{{"50m/64Mi", "500m/256Mi"}, {"10m/16Mi", "20m/32Mi"}},
	{{"", ""}, {"", ""}},
	{{"15m/8Mi", "15m/8Mi"}, {"5m/8Mi", "5m/8Mi"}},
	{{"1m/4Mi", "3m/20Mi"}},
	{{"70m/48Mi", ""}, {"", ""}},
	{{"", ""}},
}

// podsOf are so many running pods, of seven priorities.
func podsOf(n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = podOf(i)
	}
	return pods
}

func podOf(i int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "many", Name: fmt.Sprintf("p-%03d", i), UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))},
		Spec:       corev1.PodSpec{Priority: new(int32(i % 7 * 100))},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for n, r := range kinds[i%len(kinds)] {
		name := fmt.Sprintf("c%d", n)
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: name, Resources: corev1.ResourceRequirements{Requests: resources(r[0]), Limits: resources(r[1])},
		})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, ContainerID: fmt.Sprintf("containerd://%x", sha256.Sum256([]byte(p.Name+name))),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
	return p
}

// resources reads "cpu/memory".
func resources(text string) corev1.ResourceList {
	cpu, memory, found := strings.Cut(text, "/")
	if !found {
		return nil
	}
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}
