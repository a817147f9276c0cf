package terminate

import "time"

// holding is what became of the pod's memory.high.
type holding struct {
	stage      holdStage
	was, wrote string
}

type holdStage int

const (
	free holdStage = iota
	containing
	held
	restoring
	over // not contained, or restored: not tried again
)

// containment stops the victim's growth once, when a hard eviction asks for it.
func (s *State) containment(time.Duration) []Action {
	if s.phase != active || !s.contain || s.holding.stage != free {
		return nil
	}
	s.holding.stage = containing
	return []Action{Contain{}}
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
	s.holding = holding{stage: held, was: e.Was, wrote: e.Wrote}
	return []Action{s.report(now, Record{Step: StepContained, Message: "memory.high " + e.Wrote})}
}

func (e Restored) learn(s *State, now time.Duration) []Action {
	s.holding.stage = over
	if e.Err != nil {
		return []Action{s.report(now, Record{Step: StepNotRestored, Err: e.Err})}
	}
	return []Action{s.report(now, Record{Step: StepRestored})}
}
