package cgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// lockPause is between two tries.
const lockPause = 2 * time.Millisecond

// lock keeps other enforcers from writing to a cgroup through systemd, until unlock. There are two for a moment where one is replaced by
// force: what systemd resets at the write of one would be what the other one takes for the value to be put back. The lock is the
// kernel's, on the cgroup's folder, so that it ends with its holder.
func (v *V2) lock(ctx context.Context, cgroup string) (unlock func(), err error) {
	g, err := v.open(cgroup)
	if err != nil {
		return nil, err
	}
	defer g.close()
	fd, err := openat(g.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, v.failed("opening", cgroup, err)
	}
	unlock = func() { _ = unix.Close(fd) } // nothing was written through it
	for {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return unlock, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			unlock()
			return nil, v.failed("locking", cgroup, err)
		}
		select {
		case <-ctx.Done():
			unlock()
			return nil, fmt.Errorf("locking %s, where somebody else writes: %w", cgroup, ctx.Err())
		case <-time.After(lockPause):
		}
	}
}
