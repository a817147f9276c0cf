package terminate

import (
	"slices"
	"time"
)

// sight is what is known of the victim's processes.
type sight struct {
	inFlight bool
	// at is when the next look is due.
	at time.Duration
	// seen: at least one look succeeded. blind: the last one failed.
	seen, blind bool
	podGone     bool
	// full: a container was seen with a process since StepEmpty was reported.
	full bool
}

// look reads the victim's cgroups again and again. While a budget forbids the eviction they don't matter.
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
	s.local.containers = slices.DeleteFunc(s.local.containers, func(c container) bool {
		return !slices.ContainsFunc(e.Containers, func(seen Seen) bool { return seen.ID == c.id })
	})
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
