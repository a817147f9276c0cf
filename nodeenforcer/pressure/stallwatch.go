package pressure

import (
	"time"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// StallWatch decides whether a stall goes on. An event of the kernel's trigger alone does not say so: one that comes while another is being
// held back is told up to a window later, and counts a part of the window before (kernel/sched/psi.c update_triggers, pending_event, and
// window_update, Linux 6.12), when nobody may wait any more. So an event only begins a watch, and the kernel's own sum of the time waited has
// to grow by the policy's stall within the window that follows. It is a value: a step does not change the old one.
type StallWatch struct {
	began time.Time // zero: no watch runs
	total time.Duration
	// busy: at the last step a victim was being stopped. quiet is until when events are dropped after that.
	busy  bool
	quiet time.Time
}

// StallStep is what follows from a step.
type StallStep struct {
	// Begins: a watch begins, and what each pod waits for is counted from now on.
	Begins bool
	// Waited is how long the node has waited since the watch began, if that is a stall; then the next watch begins. 0: there is no stall.
	Waited time.Duration
}

// Step advances to now. total is what the kernel's sum of the time waited has come to, fired reports whether the trigger fired since the last step,
// and busy whether a victim of a hard eviction is being stopped: its containment makes it wait, and it may be all that the stall takes. Events
// are dropped as long as that is so, and for a window after it.
func (w StallWatch) Step(now time.Time, want Stall, total time.Duration, fired, busy bool) (StallWatch, StallStep) {
	begins := StallWatch{began: now, total: total}
	switch waited := total - w.total; {
	case busy:
		return Busy(), StallStep{}
	case w.busy:
		return StallWatch{quiet: now.Add(want.Window)}, StallStep{}
	case now.Before(w.quiet):
		return w, StallStep{}
	case !w.Watches() && !fired:
		return StallWatch{}, StallStep{}
	case !w.Watches():
		return begins, StallStep{Begins: true}
	case want.reached(waited, now.Sub(w.began)):
		return begins, StallStep{Begins: true, Waited: waited}
	case now.Sub(w.began) < want.Window:
		return w, StallStep{}
	case fired:
		return begins, StallStep{Begins: true}
	}
	return StallWatch{}, StallStep{}
}

// reached reports whether waiting for so long within that time is a stall. Where a step came late it is the share of the time that counts.
func (s Stall) reached(waited, within time.Duration) bool {
	return waited.Seconds()*s.Window.Seconds() >= s.Stall.Seconds()*max(within, s.Window).Seconds()
}

// Busy is the watch from the moment on at which a hard eviction is asked for, however soon the victim has gone.
func Busy() StallWatch { return StallWatch{busy: true} }

// Watches reports whether a watch runs, which takes a step soon.
func (w StallWatch) Watches() bool { return !w.began.IsZero() }

// Stalled is the sum of the time for which the node's processes have waited for memory, since it was booted.
func (s *Sensor) Stalled(kind v1alpha1.StallKind) (time.Duration, error) {
	p, err := cgroup.NodePressure(s.ProcRoot, "memory")
	if kind == v1alpha1.StallSome {
		return p.Some.Total, err
	}
	return p.Full.Total, err
}
