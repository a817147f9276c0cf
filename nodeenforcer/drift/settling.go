package drift

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// SettleTime is for how long a value that the kubelet or the runtime writes has to be found different before it is restored.
// Both make a cgroup first and write its files afterwards (pkg/kubelet/cm/cgroup_manager_linux.go Create, 1.36.3; libcontainer's
// Apply and Set): for some milliseconds, on a busy node for longer, the kernel's defaults stand there, and nobody changed
// anything. 2 s.
const SettleTime = 2 * time.Second

// loopTime is that for what the kubelet writes to the QoS levels every minute (EachMin in Ownership): it restores that itself, and when a
// pod comes or goes, a busy node's kubelet was seen to write the new sum seconds after the API server showed the pod.
const loopTime = 70 * time.Second

// Settling tells a value that somebody changed from one that its owner is about to write. Nil holds nothing back.
type Settling struct {
	after time.Duration
	found map[finding]time.Time // when it was first found so, without a break

	now      time.Time // of the last look
	starting func(types.NamespacedName) bool
}

// finding is a value at a place. Another value there is another finding: somebody is writing.
type finding struct{ path, file, have string }

// NewSettling holds a repair back until the difference was found for so long.
func NewSettling(after time.Duration) *Settling {
	return &Settling{after: after, found: map[finding]time.Time{}}
}

// Observe is to be called with what Diff and ProcessOperations found, and says whether some of it is to be held back: they are then to
// be asked again, with DiffOptions.Fresh. starting says of a pod that none of its containers has started (Starting): its cgroups are
// being made. all: the whole tree was looked at, and what is not in the drift is as it should be. again is when to look again, from
// now; 0: not for this.
//
// The cgroups of a pod that starts are left alone altogether, also what nobody else owns: a write through systemd sets all that a unit
// has to what its files hold, and would put the kernel's defaults in the place of what the kubelet is about to write, for good.
func (s *Settling) Observe(now time.Time, all bool, drift []Drift, starting func(types.NamespacedName) bool) (held bool, again time.Duration) {
	if s == nil {
		return false, 0
	}
	s.now, s.starting = now, starting
	still := map[finding]bool{}
	for _, d := range drift {
		if d.Why != "" || d.Owner == plan.Nobody && !s.isStarting(d) {
			continue
		}
		f := finding{d.Path, d.File, d.Have}
		still[f] = true
		if _, ok := s.found[f]; !ok || s.isStarting(d) {
			s.found[f] = now
		}
		if !s.Fresh(d) {
			continue
		}
		held = true
		if left := s.time(d) - now.Sub(s.found[f]); !s.isStarting(d) && (again == 0 || left < again) {
			again = left // a pod that starts is looked at when it has: the plan is another then
		}
	}
	for f := range s.found {
		if all && !still[f] {
			delete(s.found, f)
		}
	}
	return held, again
}

// Fresh says whether a difference was found too short a time ago; for DiffOptions.
func (s *Settling) Fresh(d Drift) bool {
	since, ok := s.found[finding{d.Path, d.File, d.Have}]
	return s.isStarting(d) || ok && s.now.Sub(since) < s.time(d)
}

func (s *Settling) isStarting(d Drift) bool {
	return d.Pod.Name != "" && s.starting != nil && s.starting(d.Pod)
}

// time for which a difference is held back.
func (s *Settling) time(d Drift) time.Duration {
	if d.Level == plan.LevelQOS && d.Owner == plan.Kubelet {
		return max(s.after, loopTime)
	}
	return s.after
}

// Starting says that no container of the pod has started yet, by its status: the kubelet may still have to write the files of its
// cgroups.
func Starting(pod *corev1.Pod) bool {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range statuses {
			if c.ContainerID != "" || c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil {
				return false
			}
		}
	}
	return true
}
