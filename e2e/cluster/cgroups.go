package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cgroupMount is a mounted hierarchy: one for each controller on v1, a single one on v2.
type cgroupMount struct {
	point   string
	unified bool
}

// cgroupMounts finds them in the text of /proc/self/mountinfo.
func cgroupMounts(mountinfo string) []cgroupMount {
	var mounts []cgroupMount
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(kind) == 0 {
			continue
		}
		if kind[0] == "cgroup" || kind[0] == "cgroup2" {
			mounts = append(mounts, cgroupMount{point: unescape(fields[4]), unified: kind[0] == "cgroup2"})
		}
	}
	return mounts
}

// mountsUnder lists the mount points at or below dir, the one mounted last first.
func mountsUnder(mountinfo, dir string) []string {
	var points []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := unescape(fields[4]); point == dir || strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	slices.Reverse(points)
	return points
}

// unescape undoes the octal escapes of mountinfo.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// inCgroup says by the text of /proc/PID/cgroup whether a process is in a cgroup or below it, in any hierarchy.
func inCgroup(text, cgroup string) bool {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && (fields[2] == "/"+cgroup || strings.HasPrefix(fields[2], "/"+cgroup+"/")) {
			return true
		}
	}
	return false
}

// makeCgroups makes the kubelet's root in each hierarchy; a kubelet does not make it. On v2 it gets every
// controller that the parent can give.
func makeCgroups(mounts []cgroupMount) error {
	for _, mount := range mounts {
		if mount.unified && len(mounts) == 1 {
			enableControllers(mount.point)
		}
		if err := os.MkdirAll(filepath.Join(mount.point, nodeCgroup), 0o755); err != nil {
			return fmt.Errorf("making the node's cgroup: %w", err)
		}
	}
	return nil
}

// enableControllers hands controllers down. One that cannot be (real-time CPU, for one) is left out; the kubelet
// names those that it misses.
func enableControllers(dir string) {
	text, _ := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	for controller := range strings.FieldsSeq(string(text)) {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
	}
}

// removeCgroups removes a cgroup, by its path below the root, from every hierarchy. A killed process leaves its cgroup a
// moment later, so it tries until the context ends.
func removeCgroups(ctx context.Context, mounts []cgroupMount, path string) error {
	for _, mount := range mounts {
		root := filepath.Join(mount.point, path)
		if err := Until(ctx, "the end of "+root, func(context.Context) (bool, error) { return removeTree(root), nil }); err != nil {
			return err
		}
	}
	return nil
}

// removeTree removes folders from the leaves up, as cgroups want it, and reports whether all are gone. The files
// in them go with them.
func removeTree(root string) bool {
	var dirs []string
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	for _, dir := range slices.Backward(dirs) {
		_ = os.Remove(dir)
	}
	_, err := os.Stat(root)
	return errors.Is(err, fs.ErrNotExist)
}

// RemoveCgroups removes a cgroup with all below it, by its path below the root, from every hierarchy. It waits for the
// processes in it to end.
func RemoveCgroups(ctx context.Context, path string) error {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("finding cgroups: %w", err)
	}
	return removeCgroups(ctx, cgroupMounts(string(mountinfo)), path)
}
