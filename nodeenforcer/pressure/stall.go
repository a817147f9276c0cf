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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// Waiter is woken when processes have stalled (Trigger).
type Waiter interface {
	Wait(ctx context.Context) error
	Close() error
}

// StallTrigger is the kernel's trigger on the node's stall on memory, armed as the policy says. Its zero value is not armed.
type StallTrigger struct {
	// Open is a test's; nil: OpenTrigger.
	Open  func(file string, want Stall) (Waiter, error)
	want  *Stall
	watch *stallWatch // nil: not armed
	// ready is when to try again at the earliest, and again how long to wait the next times.
	ready time.Time
	again wait.Backoff
}

// rearming is how long to wait before a trigger that could not be armed, or failed, is armed again.
var rearming = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 10, Cap: time.Minute}

// stallWatch waits for one trigger.
type stallWatch struct {
	news  chan struct{}
	fired atomic.Bool           // since Take was last called
	err   atomic.Pointer[error] // that ended the wait, but for the end of its context
	stop  func()
}

// Arm arms the trigger, again if the policy wants another one, or if it failed and some time has passed since. It is called in every step.
func (t *StallTrigger) Arm(procRoot string, want *Stall, now time.Time) error {
	again := rearming
	if same := ptr.Equal(t.want, want); same && (want == nil || t.Armed() || now.Before(t.ready)) {
		if now.Sub(t.ready) > rearming.Cap { // it lasts
			t.again = rearming
		}
		return nil
	} else if same {
		again = t.again
	}
	t.Close()
	if want == nil {
		return nil
	}
	pause := again.Step()
	t.want, t.ready, t.again = want, now.Add(pause), again
	open := t.Open
	if open == nil {
		open = func(file string, want Stall) (Waiter, error) { return OpenTrigger(file, want) }
	}
	trigger, err := open(filepath.Join(procRoot, "pressure", "memory"), *want)
	if err != nil {
		return fmt.Errorf("watch the stall on memory: %w", err)
	}
	t.watch = watchStall(trigger)
	return nil
}

func watchStall(trigger Waiter) *stallWatch {
	ctx, cancel := context.WithCancel(context.Background())
	w, ended := &stallWatch{news: make(chan struct{}, 1)}, make(chan struct{})
	go func() {
		defer close(ended)
		for {
			err := trigger.Wait(ctx)
			switch {
			case err == nil:
				w.fired.Store(true)
			case ctx.Err() != nil:
				return
			default:
				w.err.Store(&err)
			}
			select {
			case w.news <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	w.stop = func() {
		cancel()
		<-ended
		_ = trigger.Close() // nothing was written to it
	}
	return w
}

// Fired has a value after the stall was met, or the wait for it failed; nil, which blocks, if the trigger is not armed.
func (t *StallTrigger) Fired() <-chan struct{} {
	if t.watch == nil {
		return nil
	}
	return t.watch.news
}

// Armed reports whether a stall would be noticed. It is false once the wait for it failed: that nothing fires says nothing then.
func (t *StallTrigger) Armed() bool { return t.watch != nil && t.Err() == nil }

// Err is why the wait for a stall failed; nil if it did not.
func (t *StallTrigger) Err() error {
	if t.watch == nil {
		return nil
	}
	if err := t.watch.err.Load(); err != nil {
		return fmt.Errorf("watch the stall on memory: %w", *err)
	}
	return nil
}

// Take reports whether it fired since the last time.
func (t *StallTrigger) Take() bool { return t.watch != nil && t.watch.fired.Swap(false) }

// Close disarms it.
func (t *StallTrigger) Close() {
	if t.watch != nil {
		t.watch.stop()
	}
	*t = StallTrigger{Open: t.Open}
}

// Trigger fires when tasks have stalled for longer than a part of a time window (Documentation/accounting/psi.rst): as soon as the sum is
// reached, and at most once in a window. A wait blocks one thread and uses nothing else.
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
	line, ok := map[v1alpha1.StallKind]string{v1alpha1.StallSome: "some", v1alpha1.StallFull: "full"}[want.Kind]
	if !ok {
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
