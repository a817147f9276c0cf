package terminate

import (
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// member is what is known of one container of a pod.
type member struct {
	order  int
	signal unix.Signal
}

// members are the pod's containers by id, as its status has them: main, init and ephemeral ones.
func members(pod *corev1.Pod) map[string]member {
	known := map[string]member{}
	specs := map[string]member{}
	for i := range pod.Spec.Containers {
		specs[pod.Spec.Containers[i].Name] = member{signal: signalOf(&pod.Spec.Containers[i])}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		m := member{signal: signalOf(c)}
		if isSidecar(c) {
			m.order = len(pod.Spec.InitContainers) - i
		}
		specs[c.Name] = m
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			m, ok := specs[list[i].Name]
			if !ok {
				m.signal = unix.SIGTERM
			}
			if list[i].StopSignal != nil {
				m.signal = signalNumber(*list[i].StopSignal)
			}
			if _, id, ok := strings.Cut(list[i].ContainerID, "://"); ok {
				known[id] = m
			}
		}
	}
	return known
}

func signalOf(c *corev1.Container) unix.Signal {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return unix.SIGTERM
	}
	return signalNumber(*c.Lifecycle.StopSignal)
}

// containerID is the id in the name of a container's cgroup (cri-containerd-ID.scope, crio-ID.scope, crio-ID, ID); empty for
// CRI-O's monitor of a container, which is none.
func containerID(cgroup string) string {
	name := strings.TrimSuffix(cgroup, ".scope")
	if strings.Contains(name, "conmon-") {
		return ""
	}
	return name[strings.LastIndexByte(name, '-')+1:]
}
