package status

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// How long one round of the agent or one step of the evictor may take before the enforcer counts as not ready, and before the kubelet is to restart
// it. What hangs is a file of a cgroup, or a full pipe of the log: a minute is beyond all that is only slow
// (cgroup.busPatience, the kubelet's client), and a restart loses little.
const (
	SlowAfter = time.Minute
	HungAfter = 3 * time.Minute
)

// Pulse knows since when a loop has been busy with one thing.
type Pulse struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	since time.Time // zero: it is idle
}

// Begin is called when the loop begins with something, and what it returns when that is done.
func (p *Pulse) Begin() (done func()) {
	p.set(p.clock.Now())
	return func() { p.set(time.Time{}) }
}

func (p *Pulse) set(since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = since
}

// longer fails where the loop has been busy with one thing for longer.
func (p *Pulse) longer(what string, limit time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		return nil
	}
	if took := p.clock.Since(p.since); took > limit {
		return fmt.Errorf("%s has not ended for %s", what, took.Round(time.Second))
	}
	return nil
}

// Pulses are those of the loops that must not hang.
type Pulses struct{ Round, Step *Pulse }

// NewPulses returns those of loops that have not begun yet.
func NewPulses(c clock.PassiveClock) Pulses {
	return Pulses{Round: &Pulse{clock: c}, Step: &Pulse{clock: c}}
}

// Within fails where a loop has been busy with one thing for longer.
func (p Pulses) Within(limit time.Duration) error {
	if err := p.Round.longer("a round of reconciling cgroups", limit); err != nil {
		return err
	}
	return p.Step.longer("a step of the eviction loop", limit)
}
