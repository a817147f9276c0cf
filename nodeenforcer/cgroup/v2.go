package cgroup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// V2 is a Tree on the files of the unified hierarchy. It keeps nothing open.
type V2 struct{ hierarchy }

// NewV2 takes where the hierarchy is mounted: /sys/fs/cgroup, or elsewhere in a container that has the host's.
func NewV2(mountpoint string) *V2 { return &V2{hierarchy{mountpoint}} }

var _ Tree = (*V2)(nil)

// Read implements Tree.
func (v *V2) Read(cgroup string, files ...string) (map[string]string, error) {
	return v.readFiles(cgroup, files)
}

// Write implements Tree.
func (v *V2) Write(ctx context.Context, cgroup string, files []File) (int, error) {
	g, err := v.open(cgroup)
	if err != nil {
		return 0, err
	}
	defer g.close()
	return writeInOrder(ctx, files, func(f File) (bool, error) { return g.write(f.Name, f.Value) })
}

// Children implements Tree.
func (v *V2) Children(cgroup string) ([]string, error) { return v.childrenOf(cgroup) }

// Processes implements Tree.
func (v *V2) Processes(cgroup string) ([]int, error) { return v.processesOf(cgroup) }

// Kill implements Tree by cgroup.kill, which no fork can outrun; it does not wait for the processes' end. Where there is no such
// file (before Linux 5.14) or it can't be used (a threaded cgroup), it kills one by one until the cgroup is empty.
func (v *V2) Kill(ctx context.Context, cgroup string) error {
	if err := killable(cgroup); err != nil {
		return err
	}
	g, err := v.open(cgroup)
	if err != nil {
		return err
	}
	defer g.close()
	err = g.writeFile("cgroup.kill", "1")
	if errors.Is(err, unix.ENOENT) {
		if gone := g.lives(); gone != nil {
			return gone
		}
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return killEach(ctx, cgroup, func() ([]int, error) { return v.processesOf(cgroup) })
	}
	if err != nil {
		return v.failed("killing", cgroup, err)
	}
	return nil
}

// readFiles reads those of the files that exist, trimmed.
func (h hierarchy) readFiles(cgroup string, files []string) (map[string]string, error) {
	g, err := h.open(cgroup)
	if err != nil {
		return nil, err
	}
	defer g.close()
	contents := make(map[string]string, len(files))
	for _, file := range files {
		text, ok, err := g.read(file)
		if err != nil {
			return nil, err
		}
		if ok {
			contents[file] = strings.TrimSpace(text)
		}
	}
	return contents, nil
}

func (h hierarchy) childrenOf(cgroup string) ([]string, error) {
	g, err := h.open(cgroup)
	if err != nil {
		return nil, err
	}
	defer g.close()
	return g.children()
}

// writeInOrder counts what had to be written, up to the first failure.
func writeInOrder(ctx context.Context, files []File, write func(File) (bool, error)) (int, error) {
	written := 0
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return written, fmt.Errorf("writing %s: %w", file.Name, err)
		}
		wrote, err := write(file)
		if err != nil {
			return written, err
		}
		if wrote {
			written++
		}
	}
	return written, nil
}

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
