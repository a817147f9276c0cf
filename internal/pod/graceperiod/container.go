package graceperiod

import corev1 "k8s.io/api/core/v1"

const (
	// PodFloor is the least grace period in seconds that the kubelet gives a pod (pkg/kubelet/pod_workers.go
	// calculateEffectiveGracePeriod, 1.36.3).
	PodFloor = int64(1)
	// ContainerFloor is the least time in seconds between SIGTERM and SIGKILL that the kubelet gives a container
	// (pkg/kubelet/kuberuntime/kuberuntime_container.go minimumGracePeriodInSeconds, 1.36.3).
	ContainerFloor = int64(2)
)

// Reason is why the kubelet stops a container.
type Reason int

// The reasons that change a container's grace period.
const (
	// Deleted, evicted, or stopped for any reason that is not a probe.
	Deleted Reason = iota
	// LivenessProbe failed.
	LivenessProbe
	// StartupProbe failed.
	StartupProbe
)

// Pod returns the grace period in seconds with which the kubelet stops a pod (calculateEffectiveGracePeriod, 1.36.3).
// override is the kubelet's own, such as an eviction's; nil: none. The pod is as the kubelet sees it.
func Pod(pod *corev1.Pod, override *int64) int64 {
	period, overridden := int64(0), false
	for _, o := range []*int64{pod.DeletionGracePeriodSeconds, override} {
		if o != nil && (period == 0 || *o < period) {
			period, overridden = *o, true
		}
	}
	if !overridden && period == 0 && pod.Spec.TerminationGracePeriodSeconds != nil {
		period = *pod.Spec.TerminationGracePeriodSeconds
	}
	return max(period, PodFloor)
}

// Stop is how a container is stopped, in seconds.
type Stop struct {
	// Total is the time that the container has, preStop included, but for the floor.
	Total int64
	// PreStop is the time of its hook, as far as it is let run; meaningless where PreStopUnknown.
	PreStop int64
	// PreStopUnknown says that nobody can know how long the hook takes.
	PreStopUnknown bool
	// AfterTerm is the time between SIGTERM and SIGKILL, at least ContainerFloor. Sidecars wait for their turn out of it.
	AfterTerm int64
}

// Container returns how the kubelet stops a container of a pod (setTerminationGracePeriod and killContainer,
// pkg/kubelet/kuberuntime/kuberuntime_container.go, 1.36.3). override is the pod's grace period where the kubelet passes
// one, as it does when it stops the whole pod; nil where it restarts one container.
func Container(pod *corev1.Pod, c *corev1.Container, reason Reason, override *int64) Stop {
	s := Stop{Total: declared(pod, c, reason)}
	if override != nil {
		s.Total = *override
	}
	s.AfterTerm = s.Total
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && s.Total > 0 {
		took, known := PreStop(c.Lifecycle.PreStop)
		if !known {
			took = 0
		}
		s.PreStop, s.PreStopUnknown = min(took, s.Total), !known
		s.AfterTerm -= s.PreStop
	}
	s.AfterTerm = max(s.AfterTerm, ContainerFloor)
	return s
}

// declared is setTerminationGracePeriod: the deletion's grace, else the failed probe's own, else the pod's.
func declared(pod *corev1.Pod, c *corev1.Container, reason Reason) int64 {
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		return *pod.DeletionGracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds == nil:
		return ContainerFloor
	}
	var probe *corev1.Probe
	switch reason {
	case LivenessProbe:
		probe = c.LivenessProbe
	case StartupProbe:
		probe = c.StartupProbe
	case Deleted:
	}
	if probe != nil && probe.TerminationGracePeriodSeconds != nil {
		return *probe.TerminationGracePeriodSeconds
	}
	return *pod.Spec.TerminationGracePeriodSeconds
}
