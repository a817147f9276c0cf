package main

import (
	"crypto/sha256"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podKinds are the containers' requests and limits ("cpu/memory") of every fifth pod: Guaranteed, three Burstable, one of which has a
// sidecar, and BestEffort.
var podKinds = [][][2]string{
	{{"100m/128Mi", "100m/128Mi"}},
	{{"50m/64Mi", "200m/256Mi"}},
	{{"25m/32Mi", ""}},
	{{"50m/64Mi", "500m/256Mi"}, {"10m/16Mi", "20m/32Mi"}},
	{{"", ""}},
}

// containers is how many so many pods have.
func containers(pods int) int {
	n := 0
	for i := range pods {
		n += len(podKinds[i%len(podKinds)])
	}
	return n
}

// podOf is the i-th pod of a node as a Deployment makes it, without a status. What the enforcer has no use for is there as well: it
// costs memory until it is dropped.
func podOf(node string, i int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("web-5d4f8c7b9d-%04d", i),
			Labels:      map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop", "pod-template-hash": "5d4f8c7b9d"},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "checksum/config": digest(i)},
		},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(30)),
			Volumes: []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
	for n, r := range podKinds[i%len(podKinds)] {
		c := corev1.Container{
			Name: fmt.Sprintf("c%d", n), Image: "registry.example/shop/web:1.2.3",
			Resources:    corev1.ResourceRequirements{Requests: resources(r[0]), Limits: resources(r[1])},
			VolumeMounts: []corev1.VolumeMount{{Name: "cache", MountPath: "/cache"}},
		}
		for e := range 10 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", e), Value: digest(e)})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

// runs makes the status that of a pod that runs.
func runs(p *corev1.Pod) *corev1.Pod {
	began := metav1.Now()
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &began, PodIP: "10.0.0.1", HostIP: "10.1.0.1"}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: began})
	}
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: "sha256:" + digest(c.Image), ContainerID: "containerd://" + digest(p.Name, c.Name), Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}},
		})
	}
	return p
}

// podsOf are so many running pods of a node that no API server knows.
func podsOf(node string, n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		p := podOf(node, i)
		p.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
		pods[i] = runs(p)
	}
	return pods
}

// resources reads "cpu/memory".
func resources(text string) corev1.ResourceList {
	cpu, memory, found := strings.Cut(text, "/")
	if !found {
		return nil
	}
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func digest(of ...any) string { return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, of...))) }
