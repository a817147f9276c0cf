package terminate

import (
	"slices"
	"time"

	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

// State is how far the termination of one victim has come. The zero value is not useful: see NewState. Times are monotonic, since an
// arbitrary start.
type State struct {
	limits Limits
	phase  phase
	kind   eviction.Kind
	// graceSeconds is the promised grace period, kubelet the kubelet's whole time for it.
	graceSeconds int64
	kubelet      time.Duration
	contain      bool
	// slack in bytes is for its hooks, once its deletion is accepted.
	slack int64
	// freeze: it has no hooks, and nobody stopped it when it was asked for. room in bytes is for its stop signal, where it was frozen.
	freeze bool
	room   int64
	// began is when this kind was requested, latest the last time seen: time does not go back.
	began, latest time.Duration

	call    call
	refusal refusal
	holding holding
	frost   frost
	sight   sight
	local   local

	// dying: the API server accepted the deletion. removed: the pod's object is gone, or has another UID.
	dying, removed bool
	// withdrawn: the pressure is over, and a request that may still be accepted is on its way.
	withdrawn bool
	// last is the final step that is reported; again is a request that came while the state was ending, or is withdrawn.
	last  Step
	again *Asked
	// wake is when the next Tick is due; 0: never.
	wake time.Duration
}

type phase int

const (
	fresh phase = iota
	active
	refused // by a disruption budget or the API server: nothing is done until it is requested again
	ending  // the end is decided; what was written is restored first
	finished
)

// NewState is the state before the first request.
func NewState(limits Limits) State { return State{limits: limits} }

// Finished reports whether there is nothing more to do.
func (s *State) Finished() bool { return s.phase == finished }

// Wake is when Next must be called with a Tick, unless an event comes first; false: never.
func (s *State) Wake() (at time.Duration, ok bool) { return s.wake, s.wake > 0 }

// Next takes an event and decides what is to be done now. It is pure: the given state is not changed.
func Next(s State, now time.Duration, e Event) (State, []Action) {
	if s.phase == finished {
		return s, nil
	}
	s.local.containers, s.local.unheard = slices.Clone(s.local.containers), slices.Clone(s.local.unheard)
	now = max(now, s.latest)
	s.latest = now
	actions := e.learn(&s, now)
	s.wake = 0
	return s, append(actions, s.decide(now)...)
}

// decide applies the rules in this order: the end comes first, so that nothing is begun for a victim that is gone.
func (s *State) decide(now time.Duration) (actions []Action) {
	for _, rule := range []func(time.Duration) []Action{
		s.conclude, s.containment, s.thaw, s.request, s.look, s.beginLocal, s.stopContainers, s.finish,
	} {
		actions = append(actions, rule(now)...)
	}
	return actions
}

// wakeAt asks for a Tick at that time.
func (s *State) wakeAt(at time.Duration) {
	if s.wake == 0 || at < s.wake {
		s.wake = at
	}
}

// report is a Record of this moment.
func (s *State) report(now time.Duration, r Record) Action {
	r.Kind, r.After = s.kind, now-s.began
	return Report{Record: r}
}

func (s *State) end(last Step) {
	s.phase, s.last = ending, last
	if last != StepReleased { // the only end that the pod survives
		s.again = nil
	}
}

func (e Asked) learn(s *State, now time.Duration) []Action {
	switch {
	case s.phase == fresh, s.kind != eviction.Hard && e.Kind == eviction.Hard && s.phase != ending:
		s.adopt(&e, now)
	case s.phase == ending:
		if s.last == StepReleased {
			s.again = &e
		}
	case s.kind == eviction.Hard && e.Kind != eviction.Hard:
		if s.awaits() {
			s.again = &e
		}
	default:
		return s.tighten(&e, now)
	}
	return nil
}

// adopt begins an eviction of a kind. What is known of the pod and of requests in flight is kept.
func (s *State) adopt(e *Asked, now time.Duration) {
	s.phase, s.kind, s.began = active, e.Kind, now
	s.withdrawn, s.again = false, nil
	s.graceSeconds, s.kubelet, s.contain, s.slack = e.GraceSeconds, e.Kubelet, e.Contain && e.Kind == eviction.Hard, e.Slack
	s.freeze, s.room = e.Freeze, e.Room
	s.call = call{number: s.call.number, maybe: s.call.maybe || s.call.inFlight}
	s.local = local{containers: s.local.containers}
	s.sight.at = now
	if e.Kind == eviction.Hard {
		s.local.deadline = now + s.limits.Patience + e.Kubelet + s.limits.Margin
	}
}

// tighten takes what is stricter of a second request of the same kind.
func (s *State) tighten(e *Asked, now time.Duration) []Action {
	s.withdrawn, s.again = false, nil
	s.contain, s.slack = s.contain || e.Contain && s.kind == eviction.Hard, min(s.slack, e.Slack)
	s.freeze, s.room = s.freeze && e.Freeze, min(s.room, e.Room)
	if e.GraceSeconds < s.graceSeconds {
		s.graceSeconds, s.kubelet = e.GraceSeconds, min(s.kubelet, e.Kubelet)
		s.local.deadline = min(s.local.deadline, now+s.limits.Patience+s.kubelet+s.limits.Margin)
	}
	if s.phase != refused {
		return nil
	}
	if now < s.refusal.until {
		return []Action{s.report(now, Record{Step: s.refusal.step, Try: s.refusal.times, RetryAfter: s.refusal.until - now, Message: s.refusal.message})}
	}
	s.adopt(e, now)
	return nil
}

// forgetAfter is how long a victim is kept after the wait that a refusal imposed, so that the wait after the next refusal is longer.
const forgetAfter = 10 * time.Minute

// conclude ends the eviction if there is a reason to.
func (s *State) conclude(now time.Duration) []Action {
	if (s.phase == active || s.phase == refused) && s.awaits() && !s.call.inFlight {
		s.end(StepReleased)
		return nil
	}
	switch s.phase {
	case active:
		if last := s.conclusion(now); last != "" {
			s.end(last)
		}
	case refused:
		if s.removed || s.dying {
			s.end(StepVanished)
			return nil
		}
		forget := s.refusal.until + forgetAfter
		if now >= forget {
			s.end(StepForgotten)
			return nil
		}
		s.wakeAt(forget)
	case fresh, ending, finished:
	}
	return nil
}

// conclusion is the final step of an active eviction; empty while there is no reason to end.
func (s *State) conclusion(now time.Duration) Step {
	touched := s.dying || s.local.begun
	switch {
	case s.removed && s.kind == eviction.Soft, s.removed && s.sight.seen && len(s.local.containers) == 0, s.dying && s.sight.podGone:
		if touched {
			return StepGone
		}
		return StepVanished
	case s.sight.podGone && !touched && !s.call.inFlight && !s.call.maybe:
		return StepVanished
	case s.kind == eviction.Soft && !s.dying:
		patience := s.began + s.limits.SoftPatience
		if now >= patience {
			return StepGaveUp
		}
		s.wakeAt(patience)
	}
	return ""
}

// finish restores what was written, if the pod lives on, and then ends. However it ends, nothing is left frozen.
func (s *State) finish(now time.Duration) []Action {
	h := &s.holding
	switch {
	case s.phase != ending || h.stage == containing || h.stage == loosening || h.stage == restoring:
		return nil
	case s.frost.cold():
		return nil
	case h.stage == held && !s.dying && !s.removed && !s.sight.podGone:
		h.stage = restoring
		return []Action{Restore{Was: h.was, Wrote: h.wrote}}
	}
	actions := []Action{s.report(now, Record{Step: s.last})}
	if h.stage == held && (s.last != StepAbandoned || s.removed || s.sight.podGone) { // else the next enforcer restores it, if the pod lives on
		actions = append(actions, Forget{})
	}
	if s.again == nil {
		s.phase = finished
		return actions
	}
	// Results of actions in flight come to the new state, and do no harm: requests are numbered, signals and kills were sent already.
	next, more := Next(State{limits: s.limits, call: call{number: s.call.number}}, now, *s.again)
	*s = next
	return append(actions, more...)
}

func (Removed) learn(s *State, now time.Duration) []Action {
	if !s.removed {
		s.removed = true
		if s.kind == eviction.Hard {
			s.kubeletBegins(now)
		}
	}
	return nil
}

// committed reports whether the eviction goes on though the pressure is over: the API server accepted it, or there is none, and the containers are being
// stopped here. One that answers, and does not accept, is as good as a pod that was never asked for.
func (s *State) committed() bool { return s.dying || s.local.begun && !s.call.online }

// A request that is on its way may be accepted all the same, and then the eviction goes on: who takes it for withdrawn would evict another pod.
func (Released) learn(s *State, _ time.Duration) []Action {
	if (s.phase == active || s.phase == refused) && !s.committed() && !s.removed {
		s.withdrawn = true
	}
	return nil
}

// awaits reports whether nothing more is done for an eviction that is withdrawn, until it is known whether it was accepted.
func (s *State) awaits() bool { return s.withdrawn && !s.dying && !s.removed }

func (Stopped) learn(s *State, _ time.Duration) []Action {
	s.again = nil
	if s.phase != ending {
		s.end(StepAbandoned)
	}
	return nil
}

// sight is what was observed of the victim's processes.
type sight struct {
	inFlight bool
	// at is when the next observation is due.
	at time.Duration
	// seen: at least one observation succeeded. blind: the last one failed.
	seen, blind bool
	podGone     bool
	// full: a container was seen with a process since StepEmpty was reported.
	full bool
}

// look observes the victim's cgroups periodically, but not while the eviction is forbidden.
func (s *State) look(now time.Duration) []Action {
	switch {
	case s.phase != active || s.sight.inFlight:
		return nil
	case now < s.sight.at:
		s.wakeAt(s.sight.at)
		return nil
	}
	s.sight.inFlight = true
	return []Action{Look{}}
}

func (e Saw) learn(s *State, now time.Duration) (actions []Action) {
	v := &s.sight
	v.inFlight, s.holding.due = false, true
	v.at = now + s.limits.lookEvery(now-s.began)
	if e.Err != nil {
		if !v.blind {
			actions = append(actions, s.report(now, Record{Step: StepBlind, Err: e.Err}))
		}
		v.blind = true
		return actions
	}
	v.seen, v.blind, v.podGone = true, false, e.PodGone
	s.leave(e.Containers)
	for _, seen := range e.Containers {
		if !slices.ContainsFunc(s.local.containers, func(c container) bool { return c.id == seen.ID }) {
			actions = append(actions, s.appear(seen, now)...)
		}
	}
	return append(actions, s.emptied(now)...)
}

// emptied reports, once, that no container has a process any more.
func (s *State) emptied(now time.Duration) []Action {
	if len(s.local.containers) > 0 {
		s.sight.full = true
		return nil
	}
	if !s.sight.full || !s.dying && !s.local.begun {
		return nil
	}
	s.sight.full = false
	return []Action{s.report(now, Record{Step: StepEmpty})}
}
