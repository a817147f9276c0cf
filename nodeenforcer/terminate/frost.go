package terminate

import "time"

// frost is whether the processes of the pod are stopped. memory.high alone makes one that grows wait, for up to 2 s at a time, and no signal but SIGKILL ends such a wait
// (mm/memcontrol.c __mem_cgroup_handle_over_high, Linux 6.12): its stop signal comes when its time is over. One that was frozen before it had to wait gets the signal as soon as it goes on.
type frost struct {
	stage frostStage
	// until is when they go on at the latest, patience until when containment waits for them to stop.
	until, patience time.Duration
	// peek is when to look next for a stop signal; peeking: such a look is on its way. signalled: one was sent.
	peek               time.Duration
	peeking, signalled bool
	// stopped: the kernel said that all had stopped. late: it said so when nobody waited for it any more.
	stopped, late bool
	// tries to thaw, and when the next one is due.
	tries int
	ready time.Duration
}

type frostStage int

const (
	warm frostStage = iota
	freezing
	frozen
	thawing
	thawed // or never frozen: not again
)

// cold reports whether the processes are stopped, or being stopped or let go.
func (f *frost) cold() bool {
	return f.stage == freezing || f.stage == frozen || f.stage == thawing
}

// thawTries is how often an eviction that ends tries to thaw the pod, before that is left to Recover.
const thawTries = 3

// freezable reports whether the pod may be frozen: nobody may be stopping it. A request without an answer, or one on its way, may have been accepted.
func (s *State) freezable() bool {
	return s.frost.stage == warm && s.freeze && !s.dying && !s.removed && !s.call.maybe && !s.call.inFlight && !s.local.begun
}

// freezeNow begins to freeze the pod.
func (s *State) freezeNow(now time.Duration) []Action {
	s.frost = frost{stage: freezing, until: now + s.limits.Frozen, patience: now + s.limits.FreezeLate, peek: now}
	return []Action{Freeze{}}
}

// roomToStop is by how much containment lets the pod grow. One that is stopped does not, and needs it when it gets its stop signal.
func (s *State) roomToStop() int64 {
	if s.frost.stage == frozen && s.frost.stopped {
		return s.room
	}
	return 0
}

// thaw has the pod go on, as soon as there is a reason to.
func (s *State) thaw(now time.Duration) []Action {
	f := &s.frost
	if f.stage != frozen {
		return nil
	}
	if s.thawReason(now) == "" {
		return s.lookForSignal(now)
	}
	if now < f.ready && s.phase != ending {
		s.wakeAt(f.ready)
		return nil
	}
	f.stage = thawing
	f.tries++
	return []Action{Thaw{}}
}

// thawReason is why the pod goes on; empty while it stays frozen.
func (s *State) thawReason(now time.Duration) string {
	switch {
	case s.frost.signalled:
		return "it is being stopped"
	case s.frost.late:
		return "it was frozen too late"
	case s.phase != active || s.awaits() || s.removed:
		return "its eviction is over"
	case now >= s.frost.until:
		return "nobody has stopped it yet"
	}
	return ""
}

// lookForSignal looks whether the kubelet has sent a stop signal.
func (s *State) lookForSignal(now time.Duration) []Action {
	f := &s.frost
	s.wakeAt(f.until)
	switch {
	case f.peeking:
		return nil
	case now < f.peek:
		s.wakeAt(f.peek)
		return nil
	}
	f.peeking = true
	return []Action{Peek{}}
}

// acceptedAt shortens the time that the pod is frozen: from now on it counts against its grace period.
func (f *frost) acceptedAt(now time.Duration, limits *Limits) {
	f.until = min(f.until, now+limits.FrozenAccepted)
}

func (e Froze) learn(s *State, now time.Duration) []Action {
	f := &s.frost
	if f.stage != freezing {
		return nil
	}
	f.stage, f.stopped, f.late = frozen, e.Err == nil, now >= f.patience
	if !e.Asked {
		f.stage = thawed
	}
	if e.Err != nil {
		return []Action{s.report(now, Record{Step: StepNotFrozen, Err: e.Err})}
	}
	return []Action{s.report(now, Record{Step: StepFrozen})}
}

func (e Peeked) learn(s *State, now time.Duration) []Action {
	f := &s.frost
	f.peeking, f.signalled, f.peek = false, f.signalled || e.Signalled, now+s.limits.Peek
	return nil
}

func (e Thawed) learn(s *State, now time.Duration) []Action {
	f := &s.frost
	if f.stage != thawing {
		return nil
	}
	if e.Err == nil {
		f.stage = thawed
		return []Action{s.report(now, Record{Step: StepThawed, Message: s.thawReason(now)})}
	}
	f.stage, f.ready = frozen, now+s.limits.Again.Min // however often it failed: somebody is stopped
	r := Record{Step: StepNotThawed, Try: f.tries, Err: e.Err}
	if s.phase == ending && f.tries >= thawTries {
		f.stage = thawed // the ledger has it
	}
	return []Action{s.report(now, r)}
}
