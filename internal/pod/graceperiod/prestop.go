package graceperiod

import corev1 "k8s.io/api/core/v1"

// Stoppable returns the containers that run until the pod is stopped: the main ones, and the init containers that
// restart always (sidecars).
func Stoppable(pod *corev1.Pod) []*corev1.Container {
	all := make([]*corev1.Container, 0, len(pod.Spec.Containers)+len(pod.Spec.InitContainers))
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; IsSidecar(c) {
			all = append(all, c)
		}
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	return all
}

// IsSidecar reports whether an init container is one that restarts always, and so runs beside the main ones.
func IsSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
