package guard_test

import (
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
)

func raising(w *world) { w.facts.Policy.EvictionWithoutGrace = v1alpha1.GraceRaise }

func TestRaise(t *testing.T) {
	t.Parallel()
	evicted := func(options ...option) world {
		return dangerous(append([]option{on(guard.RoadEviction), raising}, options...)...)
	}
	for name, tc := range map[string]struct {
		world world
		want  int64 // 0: not raised
	}{
		"with grace 0":                {evicted(ownGrace(45)), 45},
		"with grace 0, own grace 0":   {evicted(ownGrace(0)), 30},
		"plain, own grace 0":          {evicted(noGrace, ownGrace(0)), 30},
		"plain":                       {evicted(noGrace), 0},
		"half-done":                   {evicted(halfDone), 0},
		"half-done, plain":            {evicted(halfDone, noGrace), 0},
		"shortens while terminating":  {evicted(terminating(new(int64(20)))), 30},
		"the policy refuses it":       {evicted(func(w *world) { w.facts.Policy.EvictionWithoutGrace = v1alpha1.GraceDeny }), 0},
		"the policy warns":            {evicted(action(v1alpha1.RemovalWarn)), 0},
		"unprotected":                 {evicted(unowned), 0},
		"confirmed":                   {evicted(confirmedAgo(0)), 0},
		"a node enforcer of another":  {evicted(by(enforcer)), 0},
		"no eviction, but a deletion": {dangerous(raising), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, raised := guard.Raise(tc.world.req, tc.world.facts, tc.world.decide())
			if raised != (tc.want != 0) || raised && got != tc.want {
				t.Errorf("got %d %v, want %d", got, raised, tc.want)
			}
		})
	}
}
