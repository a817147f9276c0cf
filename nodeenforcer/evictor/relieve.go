package evictor

import (
	"context"
	"slices"
	"time"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

// pause is the shortest time between two looks at what all pods use, for one signal: memory itself is measured more often, but
// those who were chosen take longer than that to go.
const pause = 250 * time.Millisecond

// due says whether to look at the pods again, and remembers that it was done.
func (e *Evictor) due(met shortage) bool {
	now, least := e.Clock.Now(), pause
	if met.disk {
		least = diskPause
	}
	if last, looked := e.looked[met.Signal]; looked && now.Sub(last).Abs() < least {
		return false
	}
	e.looked[met.Signal] = now
	return true
}

// shortage is a threshold to act upon.
type shortage struct {
	pressure.Met
	// disk: of a file system, whose use by pods only the kubelet knows.
	disk bool
}

// relieve has as many pods ended as it takes.
func (e *Evictor) relieve(ctx context.Context, state state.State, met shortage) {
	candidates, err := e.candidates(ctx, state, met)
	if err != nil {
		e.Log.Error(err, "not every pod's usage is known", "signal", met.Signal)
	}
	free, flying := e.partition(met, candidates)
	choice := eviction.Choose(eviction.Need{Signal: met.Signal, Kind: met.Kind, Amount: met.Need}, free, flying)
	if outdated(met, choice, free, e.Clock.Now()) {
		e.Log.V(1).Info("waiting for the kubelet to measure who fills the disk", "signal", met.Signal, "short", choice.Short)
		choice.Victims = nil
	}
	victims := slices.Concat(choice.Hasten, choice.Victims)
	for _, v := range victims {
		e.end(state, met, v, leftFor(met.Met, len(victims)))
	}
	if len(victims) > 0 && choice.Short > 0 {
		e.Log.Info("evicting all that may be evicted will not be enough", "signal", met.Signal, "short", choice.Short)
	}
}

// partition tells those who may be chosen from those who are on their way.
func (e *Evictor) partition(met shortage, candidates []eviction.Candidate) (free []eviction.Candidate, flying []eviction.Flight) {
	standing := e.standing()
	for _, c := range candidates {
		s, flies := standing[c.Pod.UID]
		switch {
		case met.disk && e.releasing.has(c.Pod.UID): // below
		case !flies:
			free = append(free, c)
		case s.RefusedFor > 0 && met.Kind != eviction.Hard: // a budget forbids it for now
		default:
			if met.disk { // it goes on filling it until its end, and the measurement is older still
				c.Usage = nil
			}
			flying = append(flying, eviction.Flight{Candidate: c, Kind: s.Kind, Overdue: e.overdue(s)})
		}
	}
	if met.disk {
		flying = append(flying, e.releasing.flights()...)
	}
	return free, flying
}

// overdue says that a pod is waited for no longer: a budget forbids its end, or it should have ended and nothing goes on.
func (e *Evictor) overdue(s terminate.Standing) bool {
	return s.RefusedFor > 0 || e.Clock.Now().After(e.asked[s.Pod.UID]) && !s.Stopping
}

// end asks for the end of one pod; left is for its hooks.
func (e *Evictor) end(state state.State, met shortage, v eviction.Ranked, left int64) {
	grace := eviction.Grace(v.Pod, met.Kind, e.policy)
	cause := eviction.Cause{Node: state.Node.Name, Signal: met.Signal, Kind: met.Kind, Threshold: met.Bound, Available: met.Available, GraceSeconds: grace}
	reason := eviction.Reason(cause, v)
	if e.DryRun {
		if !e.would[v.Pod.UID] {
			e.would[v.Pod.UID] = true
			e.Log.Info("would evict", "pod", v.Pod.Namespace+"/"+v.Pod.Name, "because", reason)
		}
		return
	}
	request := terminate.Request{
		Pod: v.Pod, Path: e.Paths()[v.Pod.UID], Kind: met.Kind, GraceSeconds: grace, Message: reason, Left: left,
		Contain: met.Signal == v1alpha1.SignalMemoryAvailable || met.Signal == v1alpha1.SignalMemoryStall,
	}
	if err := e.Terminator.Ask(request); err != nil {
		e.Log.Error(err, "a pod can't be evicted", "pod", v.Pod.Namespace+"/"+v.Pod.Name)
		return
	}
	e.asked[v.Pod.UID] = e.Clock.Now().Add(terminate.Longest(v.Pod, grace))
	if met.disk {
		e.releasing[v.Pod.UID] = &released{pod: v.Pod}
	}
	e.Log.Info("evicting", "pod", v.Pod.Namespace+"/"+v.Pod.Name, "kind", met.Kind, "signal", met.Signal, "graceSeconds", grace, "because", reason)
	e.Events.Evicting(v.Pod, reason)
}
