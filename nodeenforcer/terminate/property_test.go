package terminate_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

// Nothing is killed without its grace, whatever happens in whatever order.
func TestGraceIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.next(asked(t))
		w.live(60)
	})
}

// However it is ended, all comes to an end, and memory.high of a pod that lives on is what it was.
func TestStopUndoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.next(asked(t))
		w.live(rapid.IntRange(0, 30).Draw(t, "steps"))
		if w.state.Finished() {
			return
		}
		lives := !w.answered && !w.removed && !w.podGone
		w.next(terminate.Stopped{})
		w.settle()
		if !w.state.Finished() {
			t.Fatal("not finished")
		}
		if lives && !w.answered && !w.removed && w.high != "max" {
			t.Fatalf("memory.high is left at %s", w.high)
		}
	})
}

// What is withdrawn is left alone, as it was, as soon as it is known that nobody accepted it; what was accepted all the same goes on.
func TestWithdrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.next(asked(t))
		w.live(rapid.IntRange(0, 20).Draw(t, "steps"))
		if w.state.Finished() {
			return
		}
		w.next(terminate.Released{})
		for n := rapid.IntRange(0, 10).Draw(t, "more"); n > 0 && !w.state.Finished(); n-- {
			if at, ok := w.state.Wake(); ok && rapid.Bool().Draw(t, "wake") {
				w.advance(max(at-w.now, 0))
			} else if len(w.pending) > 0 {
				w.deliver(rapid.IntRange(0, len(w.pending)-1).Draw(t, "which"))
			}
		}
		for w.withdrawn && len(w.pending) > 0 {
			w.deliver(0)
		}
		if !w.withdrawn {
			return
		}
		if !w.state.Finished() {
			t.Fatal("withdrawn, nothing is on its way, and it is not finished")
		}
		if !w.answered && !w.removed && !w.podGone && w.high != "max" {
			t.Fatalf("memory.high is left at %s", w.high)
		}
	})
}

// Without an API server, without a kubelet, a hard eviction still comes to its end: no container outlives its deadline, its turn,
// its grace and the back-off of what failed.
func TestHardAlwaysEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		e := asked(t)
		e.Kind = eviction.Hard
		w.next(e)
		grace := time.Duration(max(e.GraceSeconds, 2)) * time.Second
		bound := w.limits.Patience + e.Kubelet + w.limits.Margin + 2*grace + time.Minute
		for w.now < bound && len(w.containers) > 0 {
			for i := range slices.Backward(w.pending) {
				w.honest(i)
			}
			at, ok := w.state.Wake()
			if !ok {
				t.Fatal("nothing to wait for, and containers live")
			}
			w.advance(max(at-w.now, 0))
		}
		for len(w.pending) > 0 {
			w.honest(0)
		}
		if len(w.containers) > 0 {
			t.Fatalf("%v live after %s", w.containers, w.now)
		}
	})
}

// honest is deliver where only the API server and the kubelet are away.
func (w *world) honest(i int) {
	p := w.pending[i]
	w.pending = slices.Delete(w.pending, i, i+1)
	switch a := p.action.(type) {
	case terminate.Delete:
		verdict := rapid.SampledFrom([]terminate.Verdict{terminate.Failed, terminate.Unknown, terminate.Accepted}).Draw(w.t, "verdict")
		w.next(terminate.Answered{Call: a.Call, Answer: terminate.Answer{Verdict: verdict, Err: errAny}})
	case terminate.Contain:
		w.high = "4096"
		w.next(terminate.Contained{Was: "max", Wrote: "4096"})
	case terminate.Freeze:
		w.ice.frozen, w.ice.known, w.ice.stopped = true, true, true
		w.next(terminate.Froze{Asked: true})
	case terminate.Peek:
		w.next(terminate.Peeked{})
	case terminate.Thaw:
		w.ice.frozen = false
		w.next(terminate.Thawed{})
	case terminate.Loosen:
		w.high = "8192"
		w.next(terminate.Loosened{Wrote: "8192"})
	case terminate.Look:
		w.next(p.saw)
	case terminate.Term:
		w.next(terminate.Termed{ID: a.ID})
	case terminate.Kill:
		w.exit(a.ID)
		w.next(terminate.Killed{ID: a.ID})
	}
}

// A request whose kind nobody set is a soft eviction: it asks the Eviction API, and neither deletes nor signals, however long it takes.
func TestNoKindIsSoft(t *testing.T) {
	s, actions := terminate.Next(terminate.NewState(terminate.DefaultLimits()), 0, terminate.Asked{GraceSeconds: 1, Contain: true})
	evicts := false
	for now := time.Duration(0); now < time.Minute; now += time.Second {
		for _, a := range actions {
			switch a.(type) {
			case terminate.Evict:
				evicts = true
			case terminate.Delete, terminate.Contain, terminate.Term, terminate.Kill:
				t.Errorf("after %s: %#v", now, a)
			}
		}
		s, actions = terminate.Next(s, now, terminate.Tick{})
	}
	if !evicts {
		t.Error("the Eviction API is not asked")
	}
}
