package repair

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

// lockRetry is how often a second enforcer looks whether the first has ended.
const lockRetry = time.Second

// Lock lets one enforcer of a node write at a time. There are two for a moment where one is replaced by force, and for long where two are installed: by different
// policies they would write against each other, and each would take the other's values for those to put back. The lock is the kernel's, on a file in the
// runtime folder, so that it ends with its holder.
type Lock struct {
	file  string
	clock clock.Clock
	log   logr.Logger

	held  chan struct{} // closed once it is ours
	waits atomic.Bool
	fd    int
}

// NewLock returns the lock of a runtime folder. It is nobody's before Start.
func NewLock(folder string, c clock.Clock, log logr.Logger) *Lock {
	return &Lock{file: filepath.Join(folder, "lock"), clock: c, log: log, held: make(chan struct{}), fd: -1}
}

// Start waits until the lock is ours, and keeps it. Where there can be no such file it goes on without: then nothing can be noted there either, and what can't be
// noted is not written.
func (l *Lock) Start(ctx context.Context) error {
	for {
		holder, err := l.take()
		switch {
		case err != nil:
			l.log.Error(err, "failed to lock, a second node enforcer would not be noticed")
			fallthrough
		case holder == "":
			if l.waits.Swap(false) {
				l.log.Info("the other node enforcer has ended, this one enforces now")
			}
			close(l.held)
			<-ctx.Done()
			return nil
		case !l.waits.Swap(true):
			l.log.Info("another node enforcer runs on this node, nothing is written until it ends", "lock", l.file, "holder", holder)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.clock.After(lockRetry):
		}
	}
}

// take tries to take the lock, and says who has it if it is somebody else's.
func (l *Lock) take() (holder string, err error) {
	if err := os.MkdirAll(filepath.Dir(l.file), 0o700); err != nil {
		return "", fmt.Errorf("lock the node: %w", err)
	}
	fd, err := unix.Open(l.file, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return "", fmt.Errorf("lock the node: open %s: %w", l.file, err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer unix.Close(fd) //nolint:errcheck // nothing was written
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return "", fmt.Errorf("lock the node: lock %s: %w", l.file, err)
		}
		said := make([]byte, 64)
		n, _ := unix.Pread(fd, said, 0)
		if holder = strings.TrimSpace(string(said[:max(n, 0)])); holder == "" {
			holder = "not known"
		}
		return holder, nil
	}
	l.fd = fd
	_, _ = unix.Pwrite(fd, fmt.Appendf(nil, "process %-10d\n", os.Getpid()), 0) // for people only
	return "", nil
}

// Release is for the end of all that writes.
func (l *Lock) Release() {
	if l.fd >= 0 {
		_ = unix.Close(l.fd) // it has nothing that must last
		l.fd = -1
	}
}

// Alone has something run once the lock is ours.
func (l *Lock) Alone(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-l.held:
			return run(ctx)
		}
	}
}

// Held reports whether the lock was taken before everything ended.
func (l *Lock) Held() bool {
	select {
	case <-l.held:
		return true
	default:
		return false
	}
}

// Ready fails while another enforcer has the lock.
func (l *Lock) Ready() error {
	if l.waits.Load() {
		return errors.New("another node enforcer runs on this node")
	}
	return nil
}
