package terminate

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/graceperiod"
)

// KubeletTime is the longest that the kubelet takes from the moment it begins to stop a pod with a grace period until it has
// sent SIGKILL to each container (killContainer, pkg/kubelet/kuberuntime/kuberuntime_container.go, 1.36.3): hook, turn and
// the floor between SIGTERM and SIGKILL included.
func KubeletTime(pod *corev1.Pod, graceSeconds int64) time.Duration {
	longest := graceperiod.ContainerFloor
	for i := range pod.Spec.Containers {
		longest = max(longest, mainSeconds(pod, &pod.Spec.Containers[i], graceSeconds))
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		longest = max(longest, mainSeconds(pod, c, graceSeconds))
		if isSidecar(c) {
			longest = max(longest, sidecarSeconds(c, graceSeconds))
		}
	}
	return time.Duration(longest) * time.Second
}

// mainSeconds is for a container that waits for no other.
func mainSeconds(pod *corev1.Pod, c *corev1.Container, graceSeconds int64) int64 {
	s := graceperiod.Container(pod, c, graceperiod.Deleted, &graceSeconds)
	if s.PreStopUnknown {
		// It may take all of the grace period, and then the floor holds.
		return graceSeconds + graceperiod.ContainerFloor
	}
	return s.PreStop + s.AfterTerm
}

// sidecarSeconds is for one that waits for its turn with what its hook has left, and then still has the floor. The kubelet
// counts the hook's time in whole seconds, so that one more may be given.
func sidecarSeconds(c *corev1.Container, graceSeconds int64) int64 {
	seconds := graceSeconds + graceperiod.ContainerFloor
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		seconds++
	}
	return seconds
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// localGrace is what a container gets between the stop signal and SIGKILL where we stop it: no hook runs, so all of the grace
// period, and never less than the kubelet's own floor.
func localGrace(graceSeconds int64) time.Duration {
	return time.Duration(max(graceSeconds, graceperiod.ContainerFloor)) * time.Second
}

// Longest is how long a pod takes to end where all goes as it should: by the kubelet, or, where that does not, by us. One that is
// still there is stuck.
func Longest(pod *corev1.Pod, graceSeconds int64) time.Duration {
	limits := DefaultLimits()
	return KubeletTime(pod, graceSeconds) + limits.Margin + localGrace(graceSeconds) + limits.Margin
}
