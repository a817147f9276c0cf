package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Freezer stops cgroups and has them go on.
type Freezer interface {
	// Freeze stops all processes in the cgroup and below it, those that they start meanwhile included, and returns when the kernel says that they
	// have stopped. One in the middle of a call that can't be interrupted stops when that is over. Where the context ends before, the cgroup stays
	// asked to freeze, and Thaw takes it back. ErrNoFile where it can't be frozen: v1 without the freezer, v2 before Linux 5.2.
	Freeze(ctx context.Context, path string) error
	// Thaw has them go on, and returns when the kernel says that they do. Below a frozen cgroup they don't.
	Thaw(ctx context.Context, path string) error
}

// freezable refuses what holds ourselves: nobody would be left to thaw it.
func freezable(cgroup string, list func(string) ([]int, error)) error {
	if cgroup == "/" {
		return errors.New("the root cgroup is never frozen")
	}
	pids, err := list(cgroup)
	if errors.Is(err, ErrTooMany) {
		return nil // a container's own cgroups: we are not in one
	}
	if err == nil && slices.Contains(pids, os.Getpid()) {
		return fmt.Errorf("%s is never frozen: we are in it", cgroup)
	}
	return err
}

// Freeze implements Freezer.
func (v *V2) Freeze(ctx context.Context, cgroup string) error {
	if err := freezable(cgroup, v.Processes); err != nil {
		return err
	}
	return v.setFrozen(ctx, cgroup, "1")
}

// Thaw implements Freezer.
func (v *V2) Thaw(ctx context.Context, cgroup string) error { return v.setFrozen(ctx, cgroup, "0") }

// setFrozen writes cgroup.freeze, which is what was asked for, and waits for cgroup.events, which is what came of it.
func (v *V2) setFrozen(ctx context.Context, cgroup, frozen string) error {
	g, err := v.open(cgroup)
	if err != nil {
		return err
	}
	defer g.close()
	if _, err := g.write("cgroup.freeze", frozen); err != nil {
		return err
	}
	return g.await(ctx, "cgroup.events", func(text string) bool { return field(text, "frozen") == frozen })
}

// Freeze implements Freezer.
func (v *V1) Freeze(ctx context.Context, cgroup string) error {
	if err := freezable(cgroup, v.Processes); err != nil {
		return err
	}
	return v.setFrozen(ctx, cgroup, frozenV1)
}

// Thaw implements Freezer.
func (v *V1) Thaw(ctx context.Context, cgroup string) error {
	return v.setFrozen(ctx, cgroup, thawedV1)
}

func (v *V1) setFrozen(ctx context.Context, cgroup, state string) error {
	freezer, ok := v.byController["freezer"]
	if !ok {
		if err := v.stillThere(cgroup); err != nil {
			return err
		}
		return fmt.Errorf("writing %s of %s: %w", stateFileV1, cgroup, ErrNoFile)
	}
	g, err := freezer.open(cgroup)
	if err != nil {
		return err
	}
	defer g.close()
	return g.awaitStateV1(ctx, state)
}

// The freezer of v1 (Documentation/admin-guide/cgroup-v1/freezer-subsystem.rst).
const (
	stateFileV1        = "freezer.state"
	frozenV1, thawedV1 = "FROZEN", "THAWED"
)

// awaitStateV1 asks for a state until the file says that it has come: before, it says FREEZING. It asks again each time, since a process that joined
// meanwhile is stopped by the next write only. Nobody is woken at a change of this file.
func (g *group) awaitStateV1(ctx context.Context, state string) error {
	for {
		if _, err := g.write(stateFileV1, state); err != nil {
			return err
		}
		text, ok, err := g.read(stateFileV1)
		if err != nil || ok && strings.TrimSpace(text) == state {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s of %s to say %s: %w", stateFileV1, g.path, state, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// awaitSlice is how long the end of the context may go unnoticed.
const awaitSlice = 5 * time.Millisecond

// await waits until a file holds what is waited for. The kernel wakes who polls it after a read (fs/kernfs/file.c kernfs_generic_poll).
func (g *group) await(ctx context.Context, file string, holds func(text string) bool) error {
	fd, err := openat(g.fd, file, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if errors.Is(err, unix.ENOENT) {
		if err := g.stillThere(); err != nil {
			return err
		}
		return fmt.Errorf("reading %s of %s: %w", file, g.path, ErrNoFile)
	}
	if err != nil {
		return g.of.failed("reading", g.path, err)
	}
	defer unix.Close(fd) //nolint:errcheck // read only
	for buffer := [4096]byte{}; ; {
		n, err := again(func() (int, error) { return unix.Pread(fd, buffer[:], 0) })
		if err != nil {
			return g.of.failed("reading", g.path, err)
		}
		if holds(string(buffer[:n])) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for %s of %s: %w", file, g.path, ctx.Err())
		}
		_, err = again(func() (int, error) {
			return unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}, int(awaitSlice/time.Millisecond))
		})
		if err != nil {
			return g.of.failed("waiting for", g.path, err)
		}
	}
}
