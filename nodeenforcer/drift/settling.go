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

// lateness is for how long what its owner writes every so often (plan.Value's Every) is held back beyond that: the sums of the QoS levels every minute, and when a pod
// comes or goes, which a busy node's kubelet was seen to write seconds after the API server showed the pod; the CPUs of containers every 10 s, from what is in
// cpu_manager_state at once.
const lateness = 10 * time.Second

// resizeTime is for how long what nobody else owns is held back while a pod is resized. That takes a second or two; where it takes for ever, as a limit
// does that is below what is used, the pod must not do without.
const resizeTime = 10 * time.Second

// Work is what the kubelet does with a pod's cgroups at present.
type Work int

// The kinds of work.
const (
	// Settled: nothing, as far as is known.
	Settled Work = iota
	// Resizing: it writes what a resize changes, or may at any moment (plan.Resizing).
	Resizing
	// Creating: it makes them.
	Creating
)

// WorkOn is what the kubelet does with a pod's cgroups, by its status.
func WorkOn(pod *corev1.Pod) Work {
	switch {
	case Starting(pod):
		return Creating
	case plan.Resizing(pod):
		return Resizing
	default:
		return Settled
	}
}

// Settling distinguishes a value that somebody changed from one that its owner is about to write. Nil holds nothing back.
type Settling struct {
	after time.Duration
	found map[finding]time.Time // when it was first found so, without a break

	now  time.Time // of the last look
	work func(types.NamespacedName) Work
}

// finding is a value of a file. Another value is another finding: somebody is writing.
type finding struct{ path, file, have string }

// NewSettling holds a repair back until the difference has been found for that long.
func NewSettling(after time.Duration) *Settling {
	return &Settling{after: after, found: map[finding]time.Time{}}
}

// Observe takes what Diff and ProcessOperations found, and returns whether some of it is held back: the caller then calls them again, with
// Options.Fresh. work says what the kubelet does with a pod's cgroups. all: the whole tree was compared, and what is not in the drift does not
// differ. again is after what time to compare again; 0: not for this.
//
// While a pod's cgroups are created, or the pod is resized, files of other owners are held back for as long as that takes: what differs is what the
// kubelet has not written yet, or has written and not told. So are those that nobody else owns, of a resized pod for resizeTime: a write through
// systemd sets all of the unit's properties to what its files hold, and would make permanent what the kubelet is about to replace.
func (s *Settling) Observe(now time.Time, all bool, drift []Drift, work func(types.NamespacedName) Work) (held bool, again time.Duration) {
	if s == nil {
		return false, 0
	}
	s.now, s.work = now, work
	still := map[finding]bool{}
	for _, d := range drift {
		if d.Why != "" || d.Owner == plan.Nobody && s.workOn(d) == Settled {
			continue
		}
		f := finding{d.Path, d.File, d.Have}
		still[f] = true
		if _, ok := s.found[f]; !ok || s.untimed(d) {
			s.found[f] = now
		}
		if !s.Fresh(d) {
			continue
		}
		held = true
		if left := s.time(d) - now.Sub(s.found[f]); !s.untimed(d) && (again == 0 || left < again) {
			again = left // what is untimed needs none: once the kubelet is done the pod changes
		}
	}
	for f := range s.found {
		if all && !still[f] {
			delete(s.found, f)
		}
	}
	return held, again
}

// Fresh reports whether a difference was found too short a time ago to be repaired; for Options.
func (s *Settling) Fresh(d Drift) bool {
	if d.Owner == plan.Nobody && s.workOn(d) == Settled {
		return false
	}
	since, ok := s.found[finding{d.Path, d.File, d.Have}]
	return s.untimed(d) || ok && s.now.Sub(since) < s.time(d)
}

func (s *Settling) workOn(d Drift) Work {
	if d.Pod.Name == "" || s.work == nil {
		return Settled
	}
	return s.work(d.Pod)
}

// untimed reports whether a difference is held back for as long as the kubelet is at work.
func (s *Settling) untimed(d Drift) bool {
	work := s.workOn(d)
	return work == Creating || work == Resizing && d.Owner != plan.Nobody
}

// time for which a difference is held back.
func (s *Settling) time(d Drift) time.Duration {
	switch {
	case d.Owner == plan.Nobody:
		return max(s.after, resizeTime)
	case d.Every > 0:
		return max(s.after, d.Every+lateness)
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
