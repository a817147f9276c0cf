package eviction

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/graceperiod"
)

// Kind of a threshold, and of the eviction that it asks for. It decides what the victim is promised.
type Kind string

// The kinds.
const (
	// Soft: the pod has its own grace period, up to the policy's maximum.
	Soft Kind = "soft"
	// Hard: the pod has the policy's hard grace period.
	Hard Kind = "hard"
)

// Label is the kind in metrics and logs.
func (k Kind) Label() string {
	if k == Hard {
		return "Hard"
	}
	return "Soft"
}

// systemCritical is the lowest priority of critical pods (pkg/apis/scheduling/types.go SystemCriticalPriority, 1.36.3).
const systemCritical = int32(2_000_000_000)

// Candidate is a pod, and what it uses.
type Candidate struct {
	Pod *corev1.Pod
	// Usage by signal, of what its eviction would free: bytes of the working set for memory, bytes, inodes, processes. What is
	// missing or negative is not known. Stall takes memory's.
	Usage map[v1alpha1.EvictionSignal]int64
	// Containers is the working set in bytes by container; for messages only.
	Containers map[string]int64
	// MeasuredAt is when the usage was read.
	MeasuredAt time.Time
}

// usage of what a signal is about.
func (c *Candidate) usage(signal v1alpha1.EvictionSignal) (int64, bool) {
	if signal == v1alpha1.SignalMemoryStall {
		signal = v1alpha1.SignalMemoryAvailable
	}
	used, ok := c.Usage[signal]
	return used, ok && used >= 0
}

// Exempt says why a pod is never evicted; empty where it may be. These are the kubelet's critical pods
// (pkg/kubelet/types/pod_update.go IsCriticalPod, 1.36.3) and those that are over.
//
// Static pods are known by their mirror pods. The other annotation by which the kubelet knows them, kubernetes.io/config.source,
// counts for nothing here: the kubelet overwrites it in what it gets from the API server (pkg/kubelet/config/config.go), we see
// what a user wrote. The mirror's can't be added to a running pod (pkg/apis/core/validation/validation.go), and a pod that is
// created with it is run by no kubelet.
func Exempt(pod *corev1.Pod) string {
	switch _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; {
	case mirror:
		return "it is a static pod"
	case priority(pod) >= systemCritical:
		return "it is critical for the system"
	case graceperiod.Finished(pod):
		return "it has finished"
	}
	return ""
}

// priority is that of k8s.io/component-helpers/scheduling/corev1 PodPriority, 0.36.3.
func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority != nil {
		return *pod.Spec.Priority
	}
	return 0
}
