package pressure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
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

// Trigger wakes when tasks have stalled for longer than a part of a time window (Documentation/accounting/psi.rst): at once when
// the sum is reached, and at most once a window. Who waits holds a thread, and nothing else.
type Trigger struct {
	path    string
	psi     int        // the pressure file; the trigger lives as long as it is open
	wake    int        // an eventfd that ends a wait
	waiting sync.Mutex // held while Wait or Close uses the two
	closed  atomic.Bool
}

// OpenTrigger arms a trigger on a pressure file: a cgroup's memory.pressure, or /proc/pressure/memory. It takes a stall of more
// than 0 within a window of 500 ms to 10 s, and CAP_SYS_RESOURCE (newer kernels let others have windows of whole multiples
// of 2 s). cgroup.ErrGone where the file does not exist; EOPNOTSUPP where the kernel was booted with psi=0.
func OpenTrigger(file string, want Stall) (*Trigger, error) {
	line, known := map[v1alpha1.StallKind]string{v1alpha1.StallSome: "some", v1alpha1.StallFull: "full"}[want.Kind]
	if !known {
		return nil, fmt.Errorf("arming a trigger on %s: %q is neither Some nor Full", file, want.Kind)
	}
	if want.Window < minWindow || want.Window > maxWindow || want.Stall < time.Microsecond || want.Stall > want.Window {
		return nil, fmt.Errorf("arming a trigger on %s: %s in %s is not a stall within a window of %s to %s", file, want.Stall, want.Window, minWindow, maxWindow)
	}
	psi, err := unix.Open(file, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, gone("arming a trigger on", file, err)
	}
	// With a closing zero byte: of /proc/pressure the kernel overwrites the last one.
	if _, err := unix.Write(psi, fmt.Appendf(nil, "%s %d %d\x00", line, want.Stall.Microseconds(), want.Window.Microseconds())); err != nil {
		_ = unix.Close(psi)
		return nil, gone("arming a trigger on", file, err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(psi)
		return nil, fmt.Errorf("arming a trigger on %s: making an eventfd: %w", file, err)
	}
	return &Trigger{path: file, psi: psi, wake: wake}, nil
}

// Wait returns nil when the trigger has fired since the last Wait, else when it does. It returns ctx's error when ctx ends,
// cgroup.ErrGone when the cgroup is removed, and os.ErrClosed after Close, also when that comes while it waits. Only one may wait.
//
// It polls by itself. Go's runtime does not ask for EPOLLPRI, and an epoll of our own below the runtime's loses events: to look
// whether a trigger has one takes it away (kernel/sched/psi.c, psi_trigger_poll), and the upper epoll looks first.
func (t *Trigger) Wait(ctx context.Context) error {
	t.waiting.Lock()
	defer t.waiting.Unlock()
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		t.interrupt()
	})
	defer func() {
		if !stop() { // it has started: let it end before the file can be closed, and take back what it wrote
			<-interrupted
			_, _ = unix.Read(t.wake, make([]byte, 8))
		}
	}()
	for {
		if t.closed.Load() {
			return t.failed(os.ErrClosed)
		}
		if err := ctx.Err(); err != nil {
			return t.failed(err)
		}
		files := []unix.PollFd{{Fd: int32(t.psi), Events: unix.POLLPRI}, {Fd: int32(t.wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(files, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return t.failed(err)
		}
		switch events := files[0].Revents; {
		case events&unix.POLLERR != 0:
			return t.failed(cgroup.ErrGone)
		case events&unix.POLLPRI != 0:
			return nil
		}
	}
}

// interrupt ends a wait.
func (t *Trigger) interrupt() {
	_, _ = unix.Write(t.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // fails only where 2^64 were written before
}

// Close disarms the trigger.
func (t *Trigger) Close() error {
	if t.closed.Swap(true) {
		return t.failed(os.ErrClosed)
	}
	t.interrupt()
	t.waiting.Lock()
	defer t.waiting.Unlock()
	if err := errors.Join(unix.Close(t.psi), unix.Close(t.wake)); err != nil {
		return fmt.Errorf("closing the trigger on %s: %w", t.path, err)
	}
	return nil
}

func (t *Trigger) failed(err error) error {
	return fmt.Errorf("waiting for pressure of %s: %w", t.path, err)
}

// gone adds ErrGone to what the kernel says of a cgroup that is not there (any more).
func gone(doing, file string, err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("%s %s: %w", doing, file, cgroup.ErrGone)
	}
	return fmt.Errorf("%s %s: %w", doing, file, err)
}
