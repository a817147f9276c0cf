package main

import (
	"slices"
	"sync"
	"time"

	"github.com/podgrace/podgrace/e2e/chaos/plan"
)

// weather knows what is hit now, and until when what else was.
type weather struct {
	mu    sync.Mutex
	hit   []plan.Scope // one for each fault that is in force
	ended map[plan.Scope]time.Time
	spell map[plan.Scope]time.Time // when the last of its spells began
}

// spellEnds is after how long without a fault another one is not of the same spell: who lost the API server has it again by then, and one that was away again meanwhile may have kept him from that.
const spellEnds = keptAfterOutage

// begin is told before something is hit, and returns what is to be told once it is mended.
func (w *weather) begin(s plan.Scope) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.spell == nil {
		w.spell = map[plan.Scope]time.Time{}
	}
	if now := time.Now(); !slices.Contains(w.hit, s) && now.Sub(w.ended[s]) > spellEnds {
		w.spell[s] = now
	}
	w.hit = append(w.hit, s)
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		i := slices.Index(w.hit, s)
		w.hit = slices.Delete(w.hit, i, i+1)
		if w.ended == nil {
			w.ended = map[plan.Scope]time.Time{}
		}
		w.ended[s] = time.Now()
	})
}

// spellOf is when the last faults of a scope that followed each other closely began; zero: there were none.
func (w *weather) spellOf(s plan.Scope) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.spell[s]
}

// quietSince is since when nothing of some scopes has been hit: now, if something is, and at the earliest a time.
func (w *weather) quietSince(earliest time.Time, scopes []plan.Scope) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.ContainsFunc(w.hit, func(s plan.Scope) bool { return slices.Contains(scopes, s) }) {
		return time.Now()
	}
	for _, s := range scopes {
		if w.ended[s].After(earliest) {
			earliest = w.ended[s]
		}
	}
	return earliest
}
