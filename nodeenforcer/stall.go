package nodeenforcer

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/state"
)

// waiter is woken when processes have stalled (pressure.Trigger).
type waiter interface {
	Wait(ctx context.Context) error
	Close() error
}

// openTrigger is the kernel's.
func openTrigger(file string, kind pressure.Kind, stall, window time.Duration) (waiter, error) {
	return pressure.OpenTrigger(file, kind, stall, window)
}

// stallTrigger is the kernel's trigger on the node's stall on memory, as the policy wants it. Its zero value is none.
type stallTrigger struct {
	// open is a test's; nil: openTrigger.
	open   func(file string, kind pressure.Kind, stall, window time.Duration) (waiter, error)
	want   *pressure.Stall
	news   chan struct{}
	stop   func()
	since  *atomic.Bool // it fired since it was last asked
	exists bool
}

// follow arms the trigger anew where it is another one.
func (t *stallTrigger) follow(machine state.Machine, want *pressure.Stall) error {
	if t.want == nil && want == nil || t.want != nil && want != nil && *t.want == *want {
		return nil
	}
	t.close()
	t.want = want
	if want == nil {
		return nil
	}
	kind := pressure.Some
	if want.Full {
		kind = pressure.Full
	}
	open := t.open
	if open == nil {
		open = openTrigger
	}
	trigger, err := open(filepath.Join(machine.ProcRoot, "pressure", "memory"), kind, want.Stall, want.Window)
	if err != nil {
		return fmt.Errorf("watch the stall on memory: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	news, since, ended := make(chan struct{}, 1), &atomic.Bool{}, make(chan struct{})
	go func() {
		defer close(ended)
		for trigger.Wait(ctx) == nil {
			since.Store(true)
			select {
			case news <- struct{}{}:
			default:
			}
		}
	}()
	t.news, t.since, t.exists = news, since, true
	t.stop = func() {
		cancel()
		<-ended
		_ = trigger.Close() // nothing was written to it
	}
	return nil
}

// fired has a value after the stall was met; nil, which blocks, where there is no trigger.
func (t *stallTrigger) fired() <-chan struct{} { return t.news }

func (t *stallTrigger) armed() bool { return t.exists }

// take says whether it fired since the last time.
func (t *stallTrigger) take() bool { return t.since.Swap(false) }

func (t *stallTrigger) close() {
	if t.stop != nil {
		t.stop()
	}
	*t = stallTrigger{open: t.open}
}
