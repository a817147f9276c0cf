package graceperiod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Unset is the grace period in seconds that the API server writes where the user wrote nothing, in pods and in stored
// templates (pkg/apis/core/v1/defaults.go SetDefaults_PodSpec, 1.36.3). Nobody can tell it from a chosen 30.
const Unset = int64(corev1.DefaultTerminationGracePeriodSeconds)

// Of returns the grace period in seconds in a pod's spec, as the API server stores it: a negative one becomes 1
// (pkg/apis/core/v1/conversion.go, 1.36.3).
func Of(spec *corev1.PodSpec) int64 {
	switch g := spec.TerminationGracePeriodSeconds; {
	case g == nil:
		return Unset
	case *g < 0:
		return 1
	default:
		return *g
	}
}

// Deletion is what the API server does with a DELETE of a pod.
type Deletion struct {
	// Force says that the object is removed without waiting for the kubelet: it can't be known whether the pod still runs.
	// With finalizers it is removed when the last one is.
	Force bool
	// Pending says that the request changes nothing: the pod is being deleted already, with an equal or shorter grace.
	Pending bool
	// Seconds that the pod has from the moment its deletion began; 0 for Force.
	Seconds int64
}

// Delete returns what the API server does with a DELETE, as BeforeDelete and the pod's CheckGracefulDelete do
// (k8s.io/apiserver/pkg/registry/rest/delete.go and pkg/registry/core/pod/strategy.go, 1.36.3). The pod is as stored,
// requested is gracePeriodSeconds of the user's options; nil where they have none.
func Delete(pod *corev1.Pod, requested *int64, now time.Time) Deletion {
	if pod.DeletionTimestamp != nil {
		return shorten(pod, requested, now)
	}
	// Not Of: a missing one counts as 0 here, as in the API server.
	period := int64(0)
	if requested != nil {
		period = *requested
	} else if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		period = *g
	}
	if period < 0 {
		period = 1
	}
	if pod.Spec.NodeName == "" || Finished(pod) {
		period = 0
	}
	return Deletion{Force: period == 0, Seconds: period}
}

// shorten is for a pod that is being deleted: its grace may only become shorter.
func shorten(pod *corev1.Pod, requested *int64, now time.Time) Deletion {
	var stored int64
	if g := pod.DeletionGracePeriodSeconds; g != nil {
		stored = *g
	}
	if stored < 0 {
		stored = 1
	}
	if stored == 0 {
		// Left behind by an earlier force delete whose second step did not happen: any DELETE completes it.
		return Deletion{Force: true}
	}
	if requested == nil {
		return Deletion{Pending: true, Seconds: stored}
	}
	period := *requested
	if period < 0 {
		period = 1
	}
	if period >= stored {
		return Deletion{Pending: true, Seconds: stored}
	}
	if period == 0 {
		return Deletion{Force: true}
	}
	deadline := pod.DeletionTimestamp.Add(time.Duration(period-stored) * time.Second)
	if deadline.Before(now) {
		period = 1
	}
	return Deletion{Seconds: period}
}

// Finished reports whether the pod's phase is terminal: the API server then deletes it at once, whatever its grace period.
func Finished(pod *corev1.Pod) bool { return Terminal(pod.Status.Phase) }

// Terminal reports whether a pod whose containers have all ended has this phase.
func Terminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}
