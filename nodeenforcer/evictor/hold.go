package evictor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/state"
)

// hold is why no pod is evicted though a threshold is met.
type hold int

const (
	_            hold = iota
	holdTrial         // it was met when it was applied
	holdUnusable      // not even the eviction of all pods would be enough
	holdVain          // what is used is not held by pods that can be evicted
	holdRate          // maxEvictionsPerMinute
	holdObserve       // the mode
)

// heldSignal is a hold and what it is about.
type heldSignal struct {
	subject
	hold hold
}

// reason is that of the Event.
func (h heldSignal) reason() string {
	switch h.hold {
	case holdTrial:
		return "ThresholdOnTrial"
	case holdUnusable:
		return "ThresholdUnusable"
	case holdVain:
		return "EvictionsInVain"
	case holdRate:
		return "EvictionsLimited"
	}
	return "EvictionObserved"
}

// String is the hold in the Node's condition and in the Event. It has no number that changes: the Node would be written at each step.
func (h heldSignal) String() string {
	text := ""
	switch h.hold {
	case holdTrial:
		text = fmt.Sprintf("the threshold was met when it was applied. Pods are evicted when it has been met for %s: correct it if it is wrong, or set eviction.evictImmediately", pressure.TrialTime)
	case holdUnusable:
		text = "no pod is evicted, because the threshold can't be kept: it was never kept on this node, and evicting all pods would not free enough. Correct it"
	case holdVain:
		text = "pods are evicted seldom or not at all, because that does not help: what is used is not held by pods that can be evicted. Look at the node's own processes, its images and hostPath volumes"
	case holdRate:
		text = "no more pods are evicted this minute, because of eviction.maxEvictionsPerMinute"
	case holdObserve:
		text = "no pod is evicted, because the NodePolicy's eviction is in mode Observe"
	}
	return fmt.Sprintf("%s threshold %s: %s", h.kind, h.signal, text)
}

// holds are all of them, by signal.
func (e *Evictor) holds(state state.State, verdict pressure.Verdict) (all []heldSignal) {
	held := maps.Clone(e.held)
	for _, met := range verdict.Waiting {
		if met.Unproved {
			held[subject{met.Signal, met.Kind}] = holdTrial
		}
	}
	if e.observes(state) {
		for _, met := range verdict.Due {
			held[subject{met.Signal, met.Kind}] = holdObserve
		}
	}
	// A stall is one moment: the Node would be written twice for each.
	maps.DeleteFunc(held, func(s subject, _ hold) bool { return s.signal == v1alpha1.SignalMemoryStall })
	for s, h := range held {
		all = append(all, heldSignal{s, h})
	}
	slices.SortFunc(all, func(a, b heldSignal) int { return cmp.Or(cmp.Compare(a.signal, b.signal), cmp.Compare(a.kind, b.kind)) })
	return all
}
