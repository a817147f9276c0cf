package terminate

import "time"

// holding is what became of the pod's memory.high.
type holding struct {
	stage holdStage
	// first is what Contain wrote. due: it may be time to loosen. loose: there is no more to give. told: it was told.
	first            string
	due, loose, told bool
	was, wrote       string
}

type holdStage int

const (
	free holdStage = iota
	containing
	held
	loosening
	restoring
	over // not contained, or restored: not tried again
)

// containment stops the victim's growth once, when a hard eviction asks for it. When the API server has let the pod go, and not
// before, the kubelet starts its hooks: then it gets their slack, an instalment with each look. What grows takes of it too, and the
// hooks would find nothing if it were there at once.
func (s *State) containment(time.Duration) []Action {
	h := &s.holding
	switch {
	case s.phase != active || !s.contain:
	case h.stage == free:
		h.stage = containing
		return []Action{Contain{}}
	case h.stage == held && h.due && !h.loose && s.dying && s.slack > 0:
		h.stage, h.due = loosening, false
		return []Action{Loosen{Was: h.was, First: h.first, Wrote: h.wrote, Slack: s.slack}}
	}
	return nil
}

func (e Contained) learn(s *State, now time.Duration) []Action {
	switch {
	case e.Err != nil:
		s.holding = holding{stage: over}
		return []Action{s.report(now, Record{Step: StepNotContained, Err: e.Err})}
	case e.Wrote == "":
		s.holding = holding{stage: over}
		return []Action{s.report(now, Record{Step: StepContained, Message: "memory.high is not above its usage already"})}
	}
	s.holding = holding{stage: held, was: e.Was, wrote: e.Wrote, first: e.Wrote, due: true}
	return []Action{s.report(now, Record{Step: StepContained, Message: "memory.high " + e.Wrote})}
}

func (e Loosened) learn(s *State, now time.Duration) []Action {
	h := &s.holding
	h.stage, h.loose = held, e.Done || e.Err != nil
	if e.Err != nil {
		return []Action{s.report(now, Record{Step: StepNotLoosened, Err: e.Err})}
	}
	if e.Wrote == "" {
		return nil
	}
	h.wrote = e.Wrote
	if h.told {
		return nil
	}
	h.told = true
	return []Action{s.report(now, Record{Step: StepLoosened, Message: "memory.high " + e.Wrote})}
}

func (e Restored) learn(s *State, now time.Duration) []Action {
	s.holding.stage = over
	if e.Err != nil {
		return []Action{s.report(now, Record{Step: StepNotRestored, Err: e.Err})}
	}
	return []Action{s.report(now, Record{Step: StepRestored})}
}
