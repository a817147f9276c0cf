package terminate

import (
	"time"

	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

// forgetAfter is how long a victim is remembered after the wait that a budget imposed, so that the next refusal waits longer.
const forgetAfter = 10 * time.Minute

// conclude says whether there is a reason to end.
func (s *State) conclude(now time.Duration) []Action {
	switch s.phase {
	case active:
		if last := s.conclusion(now); last != "" {
			s.end(last)
		}
	case refused:
		if s.removed {
			s.end(StepVanished)
			return nil
		}
		forget := s.budget.until + forgetAfter
		if now >= forget {
			s.end(StepForgotten)
			return nil
		}
		s.wakeAt(forget)
	case fresh, ending, finished:
	}
	return nil
}

// conclusion is the last step of an active victim; empty while there is none.
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

// finish undoes what was written, if the victim lives on, and then ends.
func (s *State) finish(now time.Duration) []Action {
	h := &s.holding
	switch {
	case s.phase != ending || h.stage == containing || h.stage == loosening || h.stage == restoring:
		return nil
	case h.stage == held && !s.dying && !s.removed && !s.sight.podGone:
		h.stage = restoring
		return []Action{Restore{Was: h.was, Wrote: h.wrote}}
	}
	actions := []Action{s.report(now, Record{Step: s.last})}
	if h.stage == held {
		actions = append(actions, Forget{})
	}
	if s.again == nil {
		s.phase = finished
		return actions
	}
	// What is on its way comes to the new round, and does it no harm: requests have numbers, signals and kills were sent.
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

func (Released) learn(s *State, _ time.Duration) []Action {
	if (s.phase == active || s.phase == refused) && !s.dying && !s.removed {
		s.end(StepReleased)
	}
	return nil
}

func (Stopped) learn(s *State, _ time.Duration) []Action {
	s.again = nil
	if s.phase != ending {
		s.end(StepAbandoned)
	}
	return nil
}
