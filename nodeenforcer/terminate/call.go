package terminate

import (
	"time"

	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

// call is what was asked of the API server for the present kind.
type call struct {
	number   int
	inFlight bool
	// sent is the grace period of the last request, accepted that of the last accepted one; 0: none.
	sent, accepted int64
	tries          int
	// ready is when the next try is due.
	ready time.Duration
	// maybe: one without an answer may have been accepted.
	maybe bool
	// marked: the condition DisruptionTarget is set.
	marked bool
}

// budget is what is known of a disruption budget that forbade it.
type budget struct {
	times   int
	until   time.Duration
	message string
}

// request sends the present kind's request, until it is accepted with the present grace period.
func (s *State) request(now time.Duration) []Action {
	c := &s.call
	switch {
	case s.phase != active || s.removed || c.inFlight || c.accepted > 0 && c.accepted <= s.graceSeconds:
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
	s.dying = s.dying || e.Verdict == Accepted
	s.removed = s.removed || e.Verdict == Gone
	if e.Call != s.call.number || !s.call.inFlight || s.phase != active {
		return nil // of a softer kind, or too late; what counts of it is taken
	}
	c := &s.call
	c.inFlight, c.marked = false, e.Unmarked == nil
	switch {
	case e.Verdict == Accepted:
		c.accepted = c.sent
		if c.sent == s.graceSeconds {
			s.kubeletBegins(now)
		}
		return []Action{s.report(now, Record{Step: StepAccepted, Try: c.tries, Err: e.Unmarked})}
	case e.Verdict == Gone:
		s.kubeletBegins(now)
	case e.Verdict == Budget && s.kind == eviction.Soft:
		return s.refuse(e, now)
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

// kubeletBegins: from now on the kubelet may be stopping the pod, so its whole time is the latest deadline.
func (s *State) kubeletBegins(now time.Duration) {
	latest := now + s.kubelet + s.limits.Margin
	if s.local.deadline == 0 || latest < s.local.deadline {
		s.local.deadline = latest
	}
}

// refuse ends an attempt that a budget forbids. The victim is remembered for a while, so that asking again at once does not ask
// the API server.
func (s *State) refuse(e Answered, now time.Duration) []Action {
	b := &s.budget
	b.times++
	wait := max(e.RetryAfter, s.limits.Budget.after(b.times))
	b.until = now + wait
	if e.Err != nil {
		b.message = e.Err.Error()
	}
	s.phase = refused
	return []Action{s.report(now, Record{Step: StepRefused, Try: b.times, RetryAfter: wait, Message: b.message})}
}
