package terminate

import (
	"slices"
	"time"

	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

// local is the local sequence: stop signal, grace period, SIGKILL, without the kubelet. Only hard evictions have it.
type local struct {
	// deadline is when it begins at the latest (for Soft: when the kubelet counts as late). It is never moved to a later time.
	deadline time.Duration
	begun    bool
	late     bool // StepLate was reported
	began    time.Duration
	restarts int
	// containers that have processes, as last seen.
	containers []container
	// unheard are those that had none any more before the result of their signal came.
	unheard []container
}

// container is one run of a container: a restarted one has another id.
type container struct {
	id    string
	order int
	stage stage
	// ready is when its next step is due.
	ready time.Duration
	// signalled is when its last signal was sent.
	signalled time.Duration
	// tries of the present step.
	tries int
}

type stage int

const (
	living stage = iota
	terming
	termed
	killing
	killed
)

// appear adds a container. One that appears after the local sequence began was restarted by the kubelet: it is stopped again, with a
// back-off.
func (s *State) appear(seen Seen, now time.Duration) []Action {
	c := container{id: seen.ID, order: seen.Order}
	var actions []Action
	if s.local.begun {
		s.local.restarts++
		c.ready = now + s.limits.Restart.after(s.local.restarts)
		actions = append(actions, s.report(now, Record{Step: StepRestarted, Container: c.id, Try: s.local.restarts}))
	}
	s.local.containers = append(s.local.containers, c)
	return actions
}

// beginLocal begins the local sequence when the kubelet's time has passed.
func (s *State) beginLocal(now time.Duration) (actions []Action) {
	l := &s.local
	if s.phase != active || s.awaits() || l.begun || l.deadline == 0 || len(l.containers) == 0 {
		return nil
	}
	reason := s.localReason(now)
	if reason == "" {
		s.wakeAt(l.deadline)
		return nil
	}
	if !l.late && now >= l.deadline && (s.dying || s.removed) {
		l.late = true
		actions = append(actions, s.report(now, Record{Step: StepLate}))
	}
	if s.kind != eviction.Hard {
		l.deadline = 0
		return actions
	}
	l.begun, l.began = true, now
	return append(actions, s.report(now, Record{Step: StepLocal, Message: reason}))
}

// localReason is why the local sequence begins; empty while the kubelet may still be stopping the pod. A request in flight, or one without an
// answer, may have reached the API server, and so the kubelet; and one that is busy takes the next.
func (s *State) localReason(now time.Duration) string {
	if now >= s.local.deadline {
		return "the kubelet's whole time is over"
	}
	if s.kind != eviction.Hard || s.call.inFlight || s.call.maybe || s.call.busy || s.dying || s.removed {
		return ""
	}
	if patience := s.began + s.limits.Patience; now < patience {
		s.wakeAt(patience)
		return ""
	}
	return "the API server accepts nothing"
}

// stopContainers does what is due for each container: its stop signal, and SIGKILL once its grace period has passed.
func (s *State) stopContainers(now time.Duration) (actions []Action) {
	if s.phase != active || s.awaits() || !s.local.begun {
		return nil
	}
	for i := range s.local.containers {
		c := &s.local.containers[i]
		due := c.ready
		switch c.stage {
		case living:
			due = max(due, s.turn(c))
		case termed:
			due = max(due, c.signalled+localGrace(s.graceSeconds))
		case killed:
		case terming, killing:
			continue
		}
		if now < due {
			s.wakeAt(due)
			continue
		}
		actions = append(actions, c.step())
	}
	return actions
}

// step is the next action for a container that is due.
func (c *container) step() Action {
	c.tries++
	if c.stage == living {
		c.stage = terming
		return Term{ID: c.id}
	}
	c.stage = killing
	return Kill{ID: c.id}
}

// turn is when a container may get its signal: at once, or, if others come first, when the grace period has passed, as the
// kubelet does (terminationOrdering, pkg/kubelet/kuberuntime/kuberuntime_termination_order.go, 1.36.3).
func (s *State) turn(c *container) time.Duration {
	first := !slices.ContainsFunc(s.local.containers, func(o container) bool { return o.order < c.order })
	if first {
		return 0
	}
	return s.local.began + time.Duration(s.graceSeconds)*time.Second
}

// stopping reports whether the local sequence is still within its time: a signal is being sent, or the last one was sent so recently that the
// process may still be freeing its memory (a gigabyte takes most of a second on a busy machine). Restarts by the kubelet do not extend it.
func (s *State) stopping(now time.Duration) bool {
	if !s.local.begun || s.local.restarts > 0 {
		return false
	}
	return slices.ContainsFunc(s.local.containers, func(c container) bool {
		switch c.stage {
		case termed:
			return now < c.signalled+localGrace(s.graceSeconds)+s.limits.Margin
		case killed:
			return now < c.signalled+s.limits.Margin
		}
		return c.tries <= 1
	})
}

// leave drops the containers that are not seen any more.
func (s *State) leave(seen []Seen) {
	s.local.containers = slices.DeleteFunc(s.local.containers, func(c container) bool {
		if slices.ContainsFunc(seen, func(s Seen) bool { return s.ID == c.id }) {
			return false
		}
		if c.stage == terming || c.stage == killing {
			s.local.unheard = append(s.local.unheard, c)
		}
		return true
	})
}

// container of which a result has come; nil: nobody waits for it. What is written to one that has left already changes nothing.
func (s *State) container(id string, at stage) *container {
	is := func(c container) bool { return c.id == id && c.stage == at }
	if i := slices.IndexFunc(s.local.containers, is); i >= 0 {
		return &s.local.containers[i]
	}
	if i := slices.IndexFunc(s.local.unheard, is); i >= 0 {
		c := s.local.unheard[i]
		s.local.unheard = slices.Delete(s.local.unheard, i, i+1)
		return &c
	}
	return nil
}

func (e Termed) learn(s *State, now time.Duration) []Action {
	c := s.container(e.ID, terming)
	switch {
	case c == nil:
		return nil
	case e.Gone:
		c.stage, c.ready = living, now+s.limits.LookMin
		return nil
	case e.Err != nil:
		c.stage, c.ready = living, now+s.limits.Again.after(c.tries)
		return []Action{s.report(now, Record{Step: StepNotSignalled, Container: c.id, Try: c.tries, Err: e.Err})}
	}
	r := Record{Step: StepSignalled, Container: c.id, Try: c.tries}
	c.stage, c.signalled, c.ready, c.tries = termed, now, 0, 0
	s.frost.signalled = true
	return []Action{s.report(now, r)}
}

func (e Killed) learn(s *State, now time.Duration) []Action {
	c := s.container(e.ID, killing)
	if c == nil {
		return nil
	}
	c.stage, c.signalled, c.ready = killed, now, now+s.limits.Again.after(c.tries)
	if e.Gone {
		return nil
	}
	r := Record{Step: StepKilled, Container: c.id, Try: c.tries, Err: e.Err}
	if e.Err != nil {
		r.Step = StepNotKilled
	}
	return []Action{s.report(now, r)}
}

// holding is the state of the pod's memory.high.
type holding struct {
	stage holdStage
	// first is what Contain wrote. due: the limit may be raised now. loose: it is not raised any further. told: StepLoosened was reported.
	first            string
	due, loose, told bool
	was, wrote       string
}

const (
	free holdStage = iota
	containing
	held
	loosening
	restoring
	over // not contained, or restored: not retried
)

type holdStage int

// containment stops the victim's growth once, if a hard eviction asks for it. The kubelet starts the pod's hooks when the API server has
// accepted the deletion, and not before: from then on the limit is raised by the hooks' slack, one instalment with each observation. If all
// of it came at once, processes that grow could use it up before the hooks start.
func (s *State) containment(now time.Duration) []Action {
	h := &s.holding
	switch {
	case s.phase == refused && h.stage == held && !s.dying && !s.removed:
		h.stage = restoring
		return []Action{Restore{Was: h.was, Wrote: h.wrote}}
	case s.phase != active || s.awaits() || !s.contain:
	case h.stage == free:
		return s.beginContainment(now)
	case h.stage == held && h.due && !h.loose && s.dying && s.slack > 0:
		h.stage, h.due = loosening, false
		return []Action{Loosen{Was: h.was, First: h.first, Wrote: h.wrote, Slack: s.slack}}
	}
	return nil
}

// beginContainment freezes the pod where that may be done, and then sets its limit.
func (s *State) beginContainment(now time.Duration) []Action {
	switch {
	case s.freezable():
		return s.freezeNow(now)
	case s.frost.stage == freezing && now < s.frost.patience:
		s.wakeAt(s.frost.patience)
		return nil
	}
	s.holding.stage = containing
	return []Action{Contain{Room: s.roomToStop()}}
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
	if e.Err != nil {
		s.holding.stage = over
		return []Action{s.report(now, Record{Step: StepNotRestored, Err: e.Err})}
	}
	s.holding = holding{} // it may be contained again, if it was refused and is asked for once more
	return []Action{s.report(now, Record{Step: StepRestored})}
}
