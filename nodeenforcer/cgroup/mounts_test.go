package cgroup

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const mountinfo = `27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 23 0:28 / /host/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 /../.. /host/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /host/cgroup/memory rw,relatime - cgroup cgroup rw,memory
36 31 0:33 / /host/cgroup/with\040space rw,relatime - cgroup cgroup ro,xattr,pids
40 31 0:37 / /host/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /host/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
42 31 0:39 / /host/cgroups/freezer rw,relatime - cgroup cgroup rw,freezer
44 35 0:32 /docker/0a1b /host/cgroup/memory/docker/0a1b rw,relatime - cgroup cgroup rw,memory
43 31
`

func TestHierarchies(t *testing.T) {
	got := map[string]string{}
	for controller, h := range hierarchies(mountinfo, "/host/cgroup/") {
		got[controller] = h.mountpoint
	}
	want := map[string]string{
		"cpu": "/host/cgroup/cpu,cpuacct", "cpuacct": "/host/cgroup/cpu,cpuacct", "memory": "/host/cgroup/memory", "pids": "/host/cgroup/with space",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNewV1(t *testing.T) {
	proc := t.TempDir()
	if _, err := NewV1("/host/cgroup", proc); err == nil {
		t.Error("no mountinfo was taken")
	}
	if err := os.Mkdir(filepath.Join(proc, "self"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(proc, "self", "mountinfo"), []byte(mountinfo), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewV1("/elsewhere", proc); err == nil {
		t.Error("no hierarchies were taken")
	}
	v1, err := NewV1("/host/cgroup", proc)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/host/cgroup/with space", "/host/cgroup/memory", "/host/cgroup/cpu,cpuacct"}, v1.Mountpoints()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for file, want := range map[string]string{"cpu.shares": "cpu", "cpuacct.usage": "cpu", "memory.limit_in_bytes": "memory", "cgroup.procs": "pids", "tasks": "pids"} {
		if h, ok := v1.of(file); !ok || h != v1.byController[want] {
			t.Errorf("%s is in %s, %t", file, h.mountpoint, ok)
		}
	}
	if _, ok := v1.of("blkio.weight"); ok {
		t.Error("a controller that is not mounted has a hierarchy")
	}
	if got := slices.Sorted(maps.Keys(v1.byController)); len(got) != 4 {
		t.Errorf("got %q", got)
	}
}
