package nodeenforcer

import (
	"time"

	"github.com/go-logr/logr"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"
)

// Saver keeps a state for a start without an API server.
type Saver interface {
	Save(State) error
}

// saveEvery is how often the checkpoint is written at most.
const saveEvery = 10 * time.Second

// saving has the checkpoint written when what follows from it changes: soon, but not for each of the changes of a pod that starts.
type saving struct {
	pending *State // what is to be saved; nil: the checkpoint says it
	last    State  // what was last to be saved
	tried   time.Time
	failed  bool
}

// offer takes a state from the API server; changed says whether its plan is another.
func (s *saving) offer(state State, changed bool) {
	if !state.Live || state.PolicyUnknown {
		return
	}
	// The mode and the thresholds are in no plan.
	changed = changed || s.pending != nil || !apiequality.Semantic.DeepEqual(s.last.Policy, state.Policy) || !apiequality.Semantic.DeepEqual(s.last.Config, state.Config)
	if changed {
		s.pending, s.last = &state, state
	}
}

// due has a value when it is time to save; nil, which blocks, where there is nothing to save.
func (s *saving) due(c clock.Clock) <-chan time.Time {
	if s.pending == nil {
		return nil
	}
	return c.After(saveEvery - c.Since(s.tried))
}

// save saves what is to be saved, if it is time or there will be no other (last). What could not be saved is tried again.
func (s *saving) save(to Source, c clock.PassiveClock, last bool, log logr.Logger) {
	saver, can := to.(Saver)
	if !can {
		s.pending = nil
	}
	if s.pending == nil || !last && !s.tried.IsZero() && c.Since(s.tried) < saveEvery {
		return
	}
	s.tried = c.Now()
	err := saver.Save(*s.pending)
	if err == nil {
		s.pending = nil
	} else if !s.failed {
		log.Error(err, "the checkpoint could not be saved; the last one counts")
	}
	s.failed = err != nil
}
