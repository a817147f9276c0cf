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
		ObjectMeta: metav1.ObjectMeta{Namespace: "many", Name: fmt.Sprintf("p-%03d", i), UID: UID(i)},
		Spec:       corev1.PodSpec{Priority: new(int32(i % 7 * 100))},
	}
	p.Spec.Containers = Containers(kinds[i%len(kinds)])
	return Running(p)
}

// Containers have these requests and limits each ("cpu/memory"; empty: none).
func Containers(kind [][2]string) []corev1.Container {
	all := make([]corev1.Container, len(kind))
	for n, r := range kind {
		all[n] = corev1.Container{Name: fmt.Sprintf("c%d", n), Resources: corev1.ResourceRequirements{Requests: resources(r[0]), Limits: resources(r[1])}}
	}
	return all
}

// Running makes the status that of a pod that runs.
func Running(p *corev1.Pod) *corev1.Pod {
	began := metav1.Now()
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &began, PodIP: "10.0.0.1", HostIP: "10.1.0.1"}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: began})
	}
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: "sha256:" + Digest(c.Image), ContainerID: "containerd://" + Digest(p.Name, c.Name), Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}},
		})
	}
	return p
}

// UID of the i-th pod.
func UID(i int) types.UID { return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)) }

// Digest is a SHA-256 in hexadecimal digits.
func Digest(of ...any) string { return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, of...))) }

// resources reads "cpu/memory".
func resources(text string) corev1.ResourceList {
	cpu, memory, found := strings.Cut(text, "/")
	if !found {
		return nil
	}
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}
