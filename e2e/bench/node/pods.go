package node

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/e2e/manypods"
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
			Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "checksum/config": manypods.Digest(i)},
		},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(30)),
			Volumes: []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
	p.Spec.Containers = manypods.Containers(podKinds[i%len(podKinds)])
	for n := range p.Spec.Containers {
		c := &p.Spec.Containers[n]
		c.Image, c.VolumeMounts = "registry.example/shop/web:1.2.3", []corev1.VolumeMount{{Name: "cache", MountPath: "/cache"}}
		for e := range 10 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", e), Value: manypods.Digest(e)})
		}
	}
	return p
}

// podsOf are so many running pods of a node that no API server knows.
func podsOf(node string, n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		p := podOf(node, i)
		p.UID = manypods.UID(i)
		pods[i] = manypods.Running(p)
	}
	return pods
}
