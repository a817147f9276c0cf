package cgroup

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

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
