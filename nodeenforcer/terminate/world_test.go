package terminate_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

var errAny = errors.New("failure")

// world is a node with one victim: its containers, an API server of any mood, and actions on their way.
type world struct {
	t       *rapid.T
	limits  terminate.Limits
	state   terminate.State
	now     time.Duration
	pending []pending

	containers []string // alive
	ids        int
	podGone    bool
	high       string
	slack      int64

	// What was promised and done.
	kinds    []terminate.Asked
	hardAt   time.Duration
	grace    int64 // the least that was asked for the present kind
	accepted time.Duration
	answered bool // accepted, or removed
	removed  bool
	stopped  bool
	// withdrawn: nothing more may be done, but to undo.
	withdrawn bool
	termed    map[string]time.Duration
	kills     []string
	lastSaw   map[string]bool
	deadline  time.Duration
	last      terminate.Step
	back      bool

	// Of freezing: what was asked for, what is so, and what the state knows.
	mayFreeze bool
	room      int64
	ice       ice
	open      map[int]bool // requests that may have been accepted, by number
}

// ice is what happened to the pod's processes.
type ice struct {
	frozen, known, stopped bool
	at                     time.Duration
	signalled              bool
	failed                 int // to thaw
}

// pending is an action that was begun. What a Look finds is what was there when it began.
type pending struct {
	action terminate.Action
	saw    terminate.Saw
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, limits: terminate.DefaultLimits(), high: "max", termed: map[string]time.Duration{}, lastSaw: map[string]bool{}, accepted: -1, open: map[int]bool{}}
	w.state = terminate.NewState(w.limits)
	for range rapid.IntRange(1, 3).Draw(t, "containers") {
		w.start()
	}
	return w
}

// start starts a container; those with an odd number are sidecars.
func (w *world) start() {
	w.ids++
	w.containers = append(w.containers, fmt.Sprint("c", w.ids))
}

func (w *world) look() terminate.Saw {
	if w.podGone {
		return terminate.Saw{PodGone: true}
	}
	saw := terminate.Saw{}
	for _, id := range w.containers {
		saw.Containers = append(saw.Containers, terminate.Seen{ID: id, Order: int(id[1]) % 2})
	}
	return saw
}

func (w *world) next(e terminate.Event) {
	w.note(e)
	before := w.state
	wasFinished := before.Finished()
	var actions []terminate.Action
	now := w.now
	if w.back {
		now -= time.Hour // taken as the latest time so far
	}
	w.state, actions = terminate.Next(before, now, e)
	if wasFinished && len(actions) > 0 {
		w.t.Fatalf("finished, and then %v", actions)
	}
	for _, a := range actions {
		w.check(a)
		if _, ok := a.(terminate.Report); !ok {
			w.pending = append(w.pending, pending{a, w.look()})
		}
	}
	if _, more := terminate.Next(w.state, now, terminate.Tick{}); len(more) > 0 {
		w.t.Fatalf("a tick at the same time does more: %v", more)
	}
	if at, ok := w.state.Wake(); ok && at <= now && !w.state.Finished() {
		w.t.Fatalf("wake at %s, now %s", at, w.now)
	}
	w.checkDeadline()
	w.checkIce()
}

// note keeps what the state may rely on.
func (w *world) note(e terminate.Event) {
	switch e := e.(type) {
	case terminate.Asked:
		hard := len(w.kinds) > 0 && w.kinds[len(w.kinds)-1].Kind == eviction.Hard
		anew := w.state.Refused() && w.now >= w.state.RefusedUntil()
		if w.state.Refused() {
			w.deadline = 0 // it begins again
		}
		switch {
		case len(w.kinds) == 0 || e.Kind == eviction.Hard && !hard || anew && e.Kind == w.kinds[len(w.kinds)-1].Kind:
			w.grace, w.deadline, w.slack = e.GraceSeconds, 0, e.Slack
			w.mayFreeze, w.room = e.Freeze, e.Room
			w.kinds = append(w.kinds, e)
			if e.Kind == eviction.Hard {
				w.hardAt, w.accepted = w.now, -1
			}
		case e.Kind == eviction.Hard || !hard:
			w.grace, w.slack = min(w.grace, e.GraceSeconds), min(w.slack, e.Slack)
			w.mayFreeze, w.room = w.mayFreeze && e.Freeze, min(w.room, e.Room)
			e.Kind = w.kinds[len(w.kinds)-1].Kind
			w.kinds = append(w.kinds, e)
		}
	case terminate.Termed:
		if e.Err == nil && !e.Gone {
			w.termed[e.ID] = w.now
		}
	case terminate.Saw:
		if e.Err == nil {
			w.lastSaw = map[string]bool{}
			for _, c := range e.Containers {
				w.lastSaw[c.ID] = true
			}
		}
	case terminate.Answered:
		softly := w.withdrawn && e.Call != w.state.Call()
		w.answered = w.answered || e.Verdict == terminate.Accepted && !softly
		w.removed = w.removed || e.Verdict == terminate.Gone
		if e.Verdict != terminate.Accepted && e.Verdict != terminate.Unknown {
			delete(w.open, e.Call)
		}
		if e.Verdict == terminate.Accepted && !softly || e.Verdict == terminate.Gone {
			w.withdrawn = false
		}
		if e.Verdict == terminate.Accepted && w.accepted < 0 {
			w.accepted = w.now
		}
	case terminate.Removed:
		w.removed = true
	case terminate.Stopped:
		w.stopped = true
	case terminate.Released:
		w.withdrawn = !w.state.Committed() && !w.removed
	}
}

func (w *world) hard() bool {
	return len(w.kinds) > 0 && w.kinds[len(w.kinds)-1].Kind == eviction.Hard
}

func (w *world) check(a terminate.Action) {
	t := w.t
	switch a.(type) {
	case terminate.Report, terminate.Thaw, terminate.Look, terminate.Restore, terminate.Forget, terminate.Peek:
	default:
		if w.withdrawn {
			t.Fatalf("%+v, and the eviction is withdrawn", a)
		}
	}
	switch a := a.(type) {
	case terminate.Report:
		w.last = a.Step
		return
	case terminate.Evict:
		w.open[a.Call] = true
		if w.hard() || a.GraceSeconds != w.grace || w.removed {
			t.Fatalf("%+v; hard %v, promised %d s, removed %v", a, w.hard(), w.grace, w.removed)
		}
	case terminate.Delete:
		w.open[a.Call] = true
		if !w.hard() || a.GraceSeconds != w.grace || w.removed {
			t.Fatalf("%+v; hard %v, promised %d s, removed %v", a, w.hard(), w.grace, w.removed)
		}
	case terminate.Term:
		w.checkTerm(a)
	case terminate.Kill:
		at, ok := w.termed[a.ID]
		promised := time.Duration(max(w.grace, 2)) * time.Second
		if !w.hard() || !ok || w.now-at < promised {
			t.Fatalf("kill %s at %s: signalled %v at %s, promised %s, hard %v", a.ID, w.now, ok, at, promised, w.hard())
		}
	case terminate.Contain:
		if !w.hard() || w.high != "max" {
			t.Fatalf("contained; hard %v, memory.high %s", w.hard(), w.high)
		}
		if a.Room != 0 && (a.Room != w.room || !w.ice.stopped) {
			t.Fatalf("room for %d bytes, asked for %d; %+v", a.Room, w.room, w.ice)
		}
	case terminate.Freeze:
		w.checkFreeze()
	case terminate.Loosen:
		if !w.hard() || !w.answered || w.high != a.Wrote || a.First != "4096" || a.Slack <= 0 || a.Slack != w.slack {
			t.Fatalf("%+v; hard %v, dying %v, memory.high %s, slack %d", a, w.hard(), w.answered, w.high, w.slack)
		}
	case terminate.Restore:
		if w.answered {
			t.Fatal("restored, and the API server let it go")
		}
		if w.high != a.Wrote {
			t.Fatalf("restored, and memory.high is %s", w.high)
		}
	}
	for _, p := range w.pending {
		if fmt.Sprintf("%T", p.action) == fmt.Sprintf("%T", a) && p.action == a {
			t.Fatalf("%#v is begun twice", a)
		}
	}
}

// checkFreeze: once, and not while anybody may be stopping the pod.
func (w *world) checkFreeze() {
	if !w.hard() || !w.mayFreeze || w.answered || w.removed || len(w.open) > 0 || w.ice != (ice{}) || w.stopped {
		w.t.Fatalf("frozen; hard %v, asked for %v, accepted %v, removed %v, requests %v, stopped %v, before %+v", w.hard(), w.mayFreeze, w.answered, w.removed, w.open, w.stopped, w.ice)
	}
	w.ice.at = w.now
}

// checkIce: what is frozen is thawed as soon as there is a reason to, and never left so.
func (w *world) checkIce() {
	i := &w.ice
	if w.state.Finished() && i.frozen && i.failed < 3 {
		w.t.Fatalf("left frozen: %+v", *i)
	}
	if !i.frozen || !i.known || i.failed > 0 || slices.ContainsFunc(w.pending, func(p pending) bool { _, ok := p.action.(terminate.Thaw); return ok }) {
		return
	}
	overdue := w.now >= i.at+w.limits.Frozen || w.accepted >= i.at && w.now >= w.accepted+w.limits.FrozenAccepted
	if i.signalled || overdue || w.removed || w.state.Refused() {
		w.t.Fatalf("still frozen at %s, accepted at %s, removed %v, refused %v: %+v", w.now, w.accepted, w.removed, w.state.Refused(), *i)
	}
}

// checkTerm: only containers that are there, only for hard evictions, and not before the kubelet had its whole time.
func (w *world) checkTerm(a terminate.Term) {
	if !w.hard() || !w.lastSaw[a.ID] || w.stopped {
		w.t.Fatalf("signal to %s; hard %v, seen %v, stopped %v", a.ID, w.hard(), w.lastSaw[a.ID], w.stopped)
	}
	asks := 0
	for _, k := range w.kinds {
		if k.Kind == eviction.Hard {
			asks++
		}
	}
	if last := w.kinds[len(w.kinds)-1]; asks == 1 {
		earliest := w.hardAt + w.limits.Patience
		if w.accepted >= w.hardAt {
			// An API server that answers later than Patience and Margin is away.
			earliest = min(w.accepted+last.Kubelet, w.hardAt+w.limits.Patience+w.limits.Margin+last.Kubelet)
		}
		if w.accepted < 0 || w.accepted <= w.hardAt+w.limits.Patience {
			if w.now < earliest {
				w.t.Fatalf("signal at %s, asked at %s, accepted at %s, not before %s", w.now, w.hardAt, w.accepted, earliest)
			}
		}
	}
}

func (w *world) checkDeadline() {
	d := w.state.Deadline()
	if !w.hard() {
		return
	}
	if d == 0 || w.deadline > 0 && d > w.deadline {
		w.t.Fatalf("the deadline went from %s to %s", w.deadline, d)
	}
	w.deadline = d
}

// deliver brings the result of an action; how it went is drawn.
func (w *world) deliver(i int) {
	p := w.pending[i]
	w.pending = slices.Delete(w.pending, i, i+1)
	fails := rapid.IntRange(0, 4).Draw(w.t, "fails") == 0
	var err error
	if fails {
		err = errAny
	}
	switch a := p.action.(type) {
	case terminate.Evict:
		w.next(terminate.Answered{Call: a.Call, Answer: w.answer()})
	case terminate.Delete:
		w.next(terminate.Answered{Call: a.Call, Answer: w.answer(), Unmarked: err})
	case terminate.Contain:
		if fails {
			w.next(terminate.Contained{Err: err})
			return
		}
		w.high = "4096"
		w.next(terminate.Contained{Was: "max", Wrote: "4096"})
	case terminate.Freeze:
		i := &w.ice
		i.frozen = !fails || rapid.Bool().Draw(w.t, "halfway")
		i.known, i.stopped = true, !fails
		w.next(terminate.Froze{Asked: i.frozen, Err: err})
	case terminate.Peek:
		signalled := rapid.IntRange(0, 3).Draw(w.t, "signalled") == 0
		w.ice.signalled = w.ice.signalled || signalled
		w.next(terminate.Peeked{Signalled: signalled})
	case terminate.Thaw:
		w.ice.frozen = fails
		if fails {
			w.ice.failed++
		}
		w.next(terminate.Thawed{Err: err})
	case terminate.Loosen:
		if fails {
			w.next(terminate.Loosened{Err: err})
			return
		}
		w.high = "8192"
		w.next(terminate.Loosened{Wrote: "8192", Done: rapid.Bool().Draw(w.t, "done")})
	case terminate.Restore:
		w.high = a.Was
		w.next(terminate.Restored{})
	case terminate.Look:
		if fails {
			p.saw = terminate.Saw{Err: err}
		}
		w.next(p.saw)
	case terminate.Term:
		w.next(terminate.Termed{ID: a.ID, Err: err, Gone: !slices.Contains(w.containers, a.ID)})
	case terminate.Kill:
		gone := !slices.Contains(w.containers, a.ID)
		if !fails {
			w.exit(a.ID)
		}
		w.kills = append(w.kills, a.ID)
		w.next(terminate.Killed{ID: a.ID, Err: err, Gone: gone && !fails})
	}
}

func (w *world) answer() terminate.Answer {
	a := terminate.Answer{Verdict: terminate.Verdict(rapid.SampledFrom([]int{0, 0, 1, 2, 3, 3, 4, 4, 5, 6}).Draw(w.t, "verdict"))}
	if a.Verdict != terminate.Accepted {
		a.Err, a.Online = errAny, rapid.Bool().Draw(w.t, "online")
		a.RetryAfter = time.Duration(rapid.IntRange(0, 3).Draw(w.t, "retry after")) * time.Second
	}
	return a
}

func (w *world) exit(id string) {
	w.containers = slices.DeleteFunc(w.containers, func(c string) bool { return c == id })
}

func (w *world) advance(d time.Duration) {
	w.now += d
	w.next(terminate.Tick{})
}

func asked(t *rapid.T) terminate.Asked {
	grace := rapid.Int64Range(1, 60).Draw(t, "grace")
	return terminate.Asked{
		Kind: rapid.SampledFrom([]eviction.Kind{eviction.Soft, eviction.Hard}).Draw(t, "kind"), GraceSeconds: grace,
		Kubelet: time.Duration(max(grace, 2)) * time.Second, Contain: rapid.Bool().Draw(t, "contain"),
		Slack: rapid.SampledFrom([]int64{0, 1 << 20, 2 << 20}).Draw(t, "slack"), Freeze: rapid.Bool().Draw(t, "freeze"),
		Room: rapid.SampledFrom([]int64{0, 1 << 20, 2 << 20}).Draw(t, "room"),
	}
}

// live lets anything happen, in any order.
func (w *world) live(steps int) {
	t := w.t
	for range steps {
		switch rapid.SampledFrom([]string{"result", "result", "result", "wake", "wake", "wake", "short", "leap", "exit", "restart", "ask", "ask", "vanish", "removed", "late", "back"}).Draw(t, "what") {
		case "result":
			if len(w.pending) > 0 {
				w.deliver(rapid.IntRange(0, len(w.pending)-1).Draw(t, "which"))
			}
		case "wake":
			if at, ok := w.state.Wake(); ok {
				w.advance(max(at-w.now, 0))
			}
		case "short":
			w.advance(time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "short")))
		case "leap":
			w.advance(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "leap")))
		case "exit":
			if len(w.containers) > 0 {
				w.exit(rapid.SampledFrom(w.containers).Draw(t, "container"))
			}
		case "restart":
			if !w.podGone && len(w.containers) < 4 {
				w.start()
			}
		case "ask":
			w.next(asked(t))
		case "vanish":
			if rapid.IntRange(0, 5).Draw(t, "vanish") == 0 {
				w.podGone, w.containers = true, nil
			}
		case "removed":
			if rapid.IntRange(0, 5).Draw(t, "removed") == 0 {
				w.next(terminate.Removed{})
			}
		case "back":
			w.back = true
			if len(w.pending) > 0 {
				w.deliver(0)
			} else {
				w.next(terminate.Tick{})
			}
			w.back = false
		case "late":
			// Results that nobody waits for, of a life before.
			w.next(terminate.Answered{Call: 1000, Answer: terminate.Answer{Verdict: terminate.Failed, Err: errAny}})
			w.next(terminate.Killed{ID: "c99"})
			w.next(terminate.Termed{ID: "c99"})
		}
		if w.state.Finished() {
			return
		}
	}
}

// settle delivers what is on its way until nothing is.
func (w *world) settle() {
	for len(w.pending) > 0 {
		w.deliver(0)
	}
}
