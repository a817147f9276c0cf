package terminate

import (
	"time"

	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

// call is the request to the API server for the present kind.
type call struct {
	number   int
	inFlight bool
	// sent is the grace period of the last request, accepted that of the last accepted one; 0: none.
	sent, accepted int64
	tries          int
	// ready is when the next try is due.
	ready time.Duration
	// maybe: a request without an answer may have been accepted.
	maybe bool
	// busy: the last answer was that the API server has no time now. online: it was the API server's.
	busy, online bool
	// marked: the condition DisruptionTarget is set.
	marked bool
}

// refusal is what is known of what forbade the eviction: a disruption budget, or the API server. What it forbids is not done on the node either.
type refusal struct {
	step    Step
	times   int
	until   time.Duration
	message string
}

// request sends the request of the present kind, again until it is accepted with the present grace period.
func (s *State) request(now time.Duration) []Action {
	c := &s.call
	switch {
	case s.phase != active || s.awaits() || s.removed || c.inFlight || c.accepted > 0 && c.accepted <= s.graceSeconds:
		return nil
	case s.frost.stage == freezing && now < s.frost.patience: // so that the kubelet does not stop what is frozen after that
		s.wakeAt(s.frost.patience)
		return nil
	case now < c.ready:
		s.wakeAt(c.ready)
		return nil
	}
	c.number++
	c.tries++
	c.inFlight, c.sent = true, s.graceSeconds
	if s.kind == eviction.Soft {
		return []Action{Evict{Call: c.number, GraceSeconds: c.sent}}
	}
	return []Action{Delete{Call: c.number, GraceSeconds: c.sent, Mark: !c.marked}}
}

func (e Answered) learn(s *State, now time.Duration) []Action {
	s.removed = s.removed || e.Verdict == Gone
	softer := e.Call != s.call.number
	if softer && s.awaits() {
		return nil // the kubelet stops it softly, and this eviction stays withdrawn
	}
	s.dying = s.dying || e.Verdict == Accepted
	if softer || !s.call.inFlight || s.phase != active {
		return nil // the answer to a softer request, or one that came too late: nothing else of it counts
	}
	return e.settle(s, now)
}

// settle takes the answer to the present request.
func (e Answered) settle(s *State, now time.Duration) []Action {
	c := &s.call
	c.inFlight, c.marked = false, e.Unmarked == nil
	c.busy, c.online = e.Verdict == Busy, e.Online
	switch {
	case e.Verdict == Accepted:
		c.accepted = c.sent
		s.frost.acceptedAt(now, &s.limits)
		if c.sent == s.graceSeconds {
			s.kubeletBegins(now)
		}
		return []Action{s.report(now, Record{Step: StepAccepted, Try: c.tries, Err: e.Unmarked})}
	case e.Verdict == Gone:
		s.kubeletBegins(now)
	case e.Verdict == Budget && s.kind == eviction.Soft:
		return s.refuse(StepRefused, e, now)
	case e.Verdict == Refused && !s.dying:
		return s.refuse(StepForbidden, e, now)
	default:
		if e.Verdict == Unknown {
			c.maybe = true
			s.kubeletBegins(now)
		}
		c.ready = now + max(e.RetryAfter, s.limits.Retry.after(c.tries))
		return []Action{s.report(now, Record{Step: StepTrouble, Try: c.tries, RetryAfter: e.RetryAfter, Err: e.Err})}
	}
	return nil
}

// kubeletBegins sets the deadline: from now on the kubelet may be stopping the pod, and gets its whole time for that.
func (s *State) kubeletBegins(now time.Duration) {
	latest := now + s.kubelet + s.limits.Margin
	if s.local.deadline == 0 || latest < s.local.deadline {
		s.local.deadline = latest
	}
}

// refuse ends an attempt that is forbidden. The victim is kept for a while, so that a request that comes again at once is not
// sent to the API server.
func (s *State) refuse(step Step, e Answered, now time.Duration) []Action {
	b := &s.refusal
	b.step = step
	b.times++
	wait := max(e.RetryAfter, s.limits.Budget.after(b.times))
	b.until = now + wait
	if e.Err != nil {
		b.message = e.Err.Error()
	}
	s.phase = refused
	return []Action{s.report(now, Record{Step: step, Try: b.times, RetryAfter: wait, Message: b.message})}
}
