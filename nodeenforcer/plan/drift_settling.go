package plan

import "time"

// SettleTime is for how long a value that the kubelet or the runtime writes has to be found different before it is restored.
// Both make a cgroup first and write its files afterwards (pkg/kubelet/cm/cgroup_manager_linux.go Create, 1.36.3; libcontainer's
// Apply and Set): for some milliseconds, on a busy node for longer, the kernel's defaults stand there, and nobody changed
// anything. 2 s.
const SettleTime = 2 * time.Second

// Settling tells a value that somebody changed from one that its owner is about to write. Nil holds nothing back.
type Settling struct {
	after time.Duration
	found map[finding]time.Time // when it was first found so, without a break
	now   time.Time
}

// finding is a value at a place. Another value there is another finding: somebody is writing.
type finding struct{ path, file, have string }

// NewSettling holds a repair back until the difference was found for so long.
func NewSettling(after time.Duration) *Settling {
	return &Settling{after: after, found: map[finding]time.Time{}}
}

// Observe is to be called with what Diff and ProcessOperations found, and says whether some of it is to be held back: they are then to
// be asked again, with DiffOptions.Fresh. all: the whole tree was looked at, and what is not in the drift is as it should be.
func (s *Settling) Observe(now time.Time, all bool, drift []Drift) bool {
	if s == nil {
		return false
	}
	s.now = now
	held, still := false, map[finding]bool{}
	for _, d := range drift {
		if d.Why != "" || d.Owner == Nobody {
			continue
		}
		f := finding{d.Path, d.File, d.Have}
		still[f] = true
		if _, known := s.found[f]; !known {
			s.found[f] = now
		}
		held = held || s.Fresh(d)
	}
	for f := range s.found {
		if all && !still[f] {
			delete(s.found, f)
		}
	}
	return held
}

// Fresh says whether a difference was found too short a time ago; for DiffOptions.
func (s *Settling) Fresh(d Drift) bool {
	since, known := s.found[finding{d.Path, d.File, d.Have}]
	return known && s.now.Sub(since) < s.after
}
