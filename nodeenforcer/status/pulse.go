package nodeenforcer

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// How long one round of the agent or one step of the evictor may take before the enforcer counts as not ready, and before the kubelet is to restart
// it. What hangs is a file of a cgroup, a file system whose server is away, or a full pipe of the log: a minute is beyond all that is only slow
// (cgroup.busPatience, the kubelet's client), and a restart loses little.
const (
	slowAfter = time.Minute
	hungAfter = 3 * time.Minute
)

// pulse knows since when a loop has been busy with one thing.
type pulse struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	since time.Time // zero: it is idle
}

// begin is called when the loop begins with something, and what it returns when that is done.
func (p *pulse) begin() (done func()) {
	p.set(p.clock.Now())
	return func() { p.set(time.Time{}) }
}

func (p *pulse) set(since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = since
}

// longer fails where the loop has been busy with one thing for longer.
func (p *pulse) longer(what string, limit time.Duration) error {
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

// pulses are those of the loops that must not hang.
type pulses struct{ round, step *pulse }

func newPulses(c clock.PassiveClock) pulses {
	return pulses{round: &pulse{clock: c}, step: &pulse{clock: c}}
}

// within fails where a loop has been busy with one thing for longer.
func (p pulses) within(limit time.Duration) error {
	if err := p.round.longer("a round of reconciling cgroups", limit); err != nil {
		return err
	}
	return p.step.longer("a step of the eviction loop", limit)
}
