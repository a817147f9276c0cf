package cgroup

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// ErrGone means that the cgroup does not exist (any more). A pod that ends takes its cgroups with it at any moment.
var ErrGone = errors.New("cgroup is gone")

// ErrNoFile means that the cgroup exists and has no such file: its controller is not enabled there, or the kernel is too old.
var ErrNoFile = errors.New("cgroup has no such file")

// ErrUnanswered means that systemd did not answer in time. The next write through it would wait as long.
var ErrUnanswered = errors.New("systemd does not answer")

// Tree is a node's cgroups, of either version. Paths are below the hierarchy's root with a leading slash
// (/kubepods.slice/kubepods-burstable.slice); in v1 the file's name tells the controller, cpu.shares is the cpu hierarchy's.
type Tree interface {
	// Read returns the contents of those of the files that exist, trimmed. ErrGone where the cgroup does not exist.
	Read(path string, files ...string) (map[string]string, error)
	// Write makes files hold these values, in this order, and reports how many it had to write: a file that holds its value
	// already is left alone. It fails with ErrGone or ErrNoFile, or with the kernel's error, at the first file that can't be
	// written.
	Write(ctx context.Context, path string, files []File) (written int, err error)
	// Children are the names of the cgroups directly below, sorted.
	Children(path string) ([]string, error)
	// Processes are the ids of the processes in the cgroup and below it; where there are very many cgroups below, of those that were looked
	// at. ErrTooMany where they have none, but others may.
	Processes(path string) ([]int, error)
	// Kill sends SIGKILL to all processes in the cgroup and below, those that they start meanwhile included.
	Kill(ctx context.Context, path string) error
	Freezer
	Counter
}

// File is a file of a cgroup and the value that it should hold, as the kernel prints it.
type File struct {
	Name, Value string
}

// Detect tells from its file system what is mounted at mountpoint: cgroup2, or a tmpfs below which are the hierarchies of v1
// (or one of them). Anything else is an error.
func Detect(mountpoint string) (cgroupfile.Version, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(mountpoint, &fs); err != nil {
		return 0, fmt.Errorf("detecting the cgroup version at %s: %w", mountpoint, err)
	}
	switch int64(fs.Type) { //nolint:unconvert // int32 on some architectures
	case unix.CGROUP2_SUPER_MAGIC:
		return cgroupfile.V2, nil
	case unix.CGROUP_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return cgroupfile.V1, nil
	}
	return 0, fmt.Errorf("no cgroups are mounted at %s: its file system has type %#x", mountpoint, fs.Type)
}
