package terminate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// victim runs the actions of one state.
type victim struct {
	t    *Terminator
	ref  Ref
	path string

	mu      sync.Mutex
	state   State
	members map[string]member
	message string
	timer   clock.Timer
}

// meet takes what a request knows of the pod.
func (v *victim) meet(r *Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.members == nil {
		v.members = map[string]member{}
	}
	maps.Copy(v.members, members(r.Pod))
	v.message = r.Message
}

func (v *victim) known(id string) (member, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m, ok := v.members[id]
	return m, ok
}

// step takes an event and begins what follows from it. false: the victim had ended before.
func (v *victim) step(e Event) bool {
	v.mu.Lock()
	if v.state.Finished() {
		v.mu.Unlock()
		return false
	}
	if v.timer != nil {
		v.timer.Stop()
	}
	now := v.t.now()
	state, actions := Next(v.state, now, e)
	v.state = state
	for _, a := range actions {
		v.begin(a)
	}
	if at, ok := state.Wake(); ok && !state.Finished() {
		v.timer = v.t.clock.AfterFunc(max(at-now, 0), func() { v.step(Tick{}) })
	}
	v.mu.Unlock()
	if state.Finished() {
		v.t.forget(v)
	}
	return true
}

// begin runs an action, beside all others but in order for what is only told.
func (v *victim) begin(a Action) {
	if r, ok := a.(Report); ok {
		v.t.recorder.Record(v.ref, r.Record)
		return
	}
	v.t.running.Go(func() {
		if e := v.run(a); e != nil {
			v.step(e)
		}
	})
}

// run does an action and returns what became of it. Only requests to the API server end with the Terminator: the rest is quick,
// and must be known.
func (v *victim) run(a Action) Event {
	ctx := context.WithoutCancel(v.t.requests)
	switch a := a.(type) {
	case Evict:
		return v.evict(a)
	case Delete:
		return v.remove(a)
	case Contain:
		return v.containPod(ctx)
	case Loosen:
		return v.loosen(ctx, a)
	case Restore:
		return Restored{Err: v.t.undo(ctx, v.entry(a.Was, a.Wrote, ""))}
	case Forget:
		// An entry too many does no harm: Recover finds no such cgroup, and drops it.
		_ = v.t.ledger.Drop(v.entry("", "", "").Key)
	case Look:
		return v.see()
	case Term:
		err := v.signal(a.ID)
		if errors.Is(err, ErrNoProcess) || errors.Is(err, cgroup.ErrGone) {
			return Termed{ID: a.ID, Gone: true}
		}
		return Termed{ID: a.ID, Err: err}
	case Kill:
		err := v.t.cgroups.Kill(ctx, v.path+"/"+a.ID)
		if errors.Is(err, cgroup.ErrGone) {
			return Killed{ID: a.ID, Gone: true}
		}
		return Killed{ID: a.ID, Err: err}
	}
	return nil
}

func (v *victim) evict(a Evict) Event {
	ctx, cancel := context.WithTimeout(v.t.requests, v.t.limits.SoftCall)
	defer cancel()
	return Answered{Call: a.Call, Answer: v.t.api.Evict(ctx, v.ref, a.GraceSeconds)}
}

func (v *victim) remove(a Delete) Event {
	ctx, cancel := context.WithTimeout(v.t.requests, v.t.limits.HardCall)
	defer cancel()
	var unmarked error
	if a.Mark {
		unmarked = v.mark(ctx)
	}
	return Answered{Call: a.Call, Answer: v.t.api.Delete(ctx, v.ref, a.GraceSeconds), Unmarked: unmarked}
}

// mark is best effort: without it a Job counts the pod as failed.
func (v *victim) mark(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, v.t.limits.Mark)
	defer cancel()
	v.mu.Lock()
	message := v.message
	v.mu.Unlock()
	return v.t.api.Mark(ctx, v.ref, message)
}

func (v *victim) standing() (Standing, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := &v.state
	st := Standing{Pod: v.ref, Kind: s.kind, Path: v.path, Dying: s.dying || s.local.begun}
	st.Stopping = s.stopping(v.t.now())
	st.Contained = slices.Contains([]holdStage{containing, held, loosening, restoring}, s.holding.stage)
	if s.phase == refused {
		st.RefusedFor = max(s.budget.until-v.t.now(), 0)
	}
	return st, s.phase != finished && s.phase != fresh
}
