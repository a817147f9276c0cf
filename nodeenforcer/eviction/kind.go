package eviction

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

// Kind of a threshold, and of the eviction that it asks for. It decides what the victim is promised. The zero value is Soft: an eviction
// whose kind nobody set asks the disruption budgets, and never signals or kills.
type Kind uint8

// The kinds.
const (
	// Soft: the pod has its own grace period, up to the policy's maximum.
	Soft Kind = iota
	// Hard: the pod has the policy's hard grace period.
	Hard
)

// String is the kind in messages.
func (k Kind) String() string { return strings.ToLower(k.Label()) }

// Label is the kind in metrics and in the log of an eviction's steps.
func (k Kind) Label() string {
	if k == Hard {
		return "Hard"
	}
	return "Soft"
}

const (
	// defaultMaxPodGrace and defaultHardGrace in seconds, the CRD's defaults, which a policy from a file may lack.
	defaultMaxPodGrace = int64(30)
	defaultHardGrace   = int64(1)
)

// Grace returns the seconds that a pod gets to stop, at least 1: of a soft eviction the policy's maximum, of a hard one its hard
// grace period, and never more than the pod's own or what is left of a deletion (pkg/kubelet/eviction/eviction_manager.go
// synchronize and pkg/kubelet/pod_workers.go calculateEffectiveGracePeriod, 1.36.3).
func Grace(pod *corev1.Pod, kind Kind, policy *v1alpha1.NodeEviction) int64 {
	limit := defaultMaxPodGrace
	var set *int64
	if policy != nil {
		set = policy.MaxPodGracePeriodSeconds
	}
	if kind == Hard {
		limit, set = defaultHardGrace, nil
		if policy != nil {
			set = policy.HardGracePeriodSeconds
		}
	}
	if set != nil {
		limit = *set
	}
	limit = min(limit, graceperiod.Of(&pod.Spec))
	return graceperiod.Pod(pod, &limit)
}
