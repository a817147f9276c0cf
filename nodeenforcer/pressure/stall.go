package pressure

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
)

// Waiter is woken when processes have stalled (Trigger).
type Waiter interface {
	Wait(ctx context.Context) error
	Close() error
}

// StallTrigger is the kernel's trigger on the node's stall on memory, as the policy wants it. Its zero value is none.
type StallTrigger struct {
	// Open is a test's; nil: OpenTrigger.
	Open   func(file string, want Stall) (Waiter, error)
	want   *Stall
	news   chan struct{}
	stop   func()
	since  *atomic.Bool // it fired since it was last asked
	exists bool
}

// Follow arms the trigger anew where it is another one.
func (t *StallTrigger) Follow(procRoot string, want *Stall) error {
	if t.want == nil && want == nil || t.want != nil && want != nil && *t.want == *want {
		return nil
	}
	t.Close()
	t.want = want
	if want == nil {
		return nil
	}
	open := t.Open
	if open == nil {
		open = func(file string, want Stall) (Waiter, error) { return OpenTrigger(file, want) }
	}
	trigger, err := open(filepath.Join(procRoot, "pressure", "memory"), *want)
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

// Fired has a value after the stall was met; nil, which blocks, where there is no trigger.
func (t *StallTrigger) Fired() <-chan struct{} { return t.news }

// Armed says whether there is one.
func (t *StallTrigger) Armed() bool { return t.exists }

// Take says whether it fired since the last time.
func (t *StallTrigger) Take() bool { return t.since.Swap(false) }

// Close disarms it.
func (t *StallTrigger) Close() {
	if t.stop != nil {
		t.stop()
	}
	*t = StallTrigger{Open: t.Open}
}
