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

// Settling distinguishes a value that somebody changed from one that its owner is about to write. Nil holds nothing back.
type Settling struct {
	after time.Duration
	found map[finding]time.Time // when it was first found so, without a break

	now      time.Time // of the last look
	starting func(types.NamespacedName) bool
}

// finding is a value of a file. Another value is another finding: somebody is writing.
type finding struct{ path, file, have string }

// NewSettling holds a repair back until the difference has been found for that long.
func NewSettling(after time.Duration) *Settling {
	return &Settling{after: after, found: map[finding]time.Time{}}
}

// Observe takes what Diff and ProcessOperations found, and returns whether some of it is held back: the caller then calls them again, with
// Options.Fresh. starting says whether none of a pod's containers has started (Starting): its cgroups are being created. all: the whole
// tree was compared, and what is not in the drift does not differ. again is after what time to compare again; 0: not for this.
//
// All files of a starting pod are held back, also those that nobody else owns: a write through systemd sets all of the unit's properties to
// what its files hold, and would make the kernel's defaults permanent that the kubelet is about to replace.
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
			again = left // a starting pod needs no time: once it has started its plan changes
		}
	}
	for f := range s.found {
		if all && !still[f] {
			delete(s.found, f)
		}
	}
	return held, again
}

// Fresh says whether a difference was found too short a time ago to be repaired; for Options.
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
