package cgrouptest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// The sample files of each version. Quotas are whole percents of a CPU, and amounts of memory whole pages.
var (
	SamplesV2 = []Sample{
		{"cpu.weight", "50", "200"},
		{"cpu.max", "20000 100000", "max 100000"},
		{"memory.low", "4194304", "8388608"},
		{"memory.high", "134217728", "max"},
		{"pids.max", "200", "max"},
		{"memory.max", "268435456", "536870912"},
	}
	SamplesV1 = []Sample{
		{"cpu.shares", "102", "2048"},
		{"cpu.cfs_quota_us", "20000", "-1"},
		{"pids.max", "200", "max"},
		{"memory.limit_in_bytes", "268435456", "536870912"},
	}
)

// OnFake is the suite's harness for a Fake.
func OnFake(*testing.T) *Harness {
	f := NewFake()
	h := &Harness{
		Tree: f, Root: "/test", Files: SamplesV2, Absent: "cpu.absent", Refused: cgroup.File{Name: "memory.high", Value: "nonsense"}, Rounds: 500,
		Remove: func(_ testing.TB, path string) { f.Remove(path) },
		Put:    func(_ testing.TB, path, file, value string) { f.Set(path, file, value) },
		Get:    func(_ testing.TB, path, file string) string { value, _ := f.Get(path, file); return value },
	}
	f.Add(h.Root, nil)
	h.Make = func(_ testing.TB, path string) {
		f.Refuse(path, h.Refused, unix.EINVAL)
		f.Add(path, values(h.Files))
	}
	next := 1000
	start := func(_ testing.TB, path string, n int) []int {
		var pids []int
		for range n {
			next++
			pids = append(pids, next)
		}
		f.Add(path, nil, pids...)
		return pids
	}
	alive := func(pid int) bool {
		pids, _ := f.Processes("/")
		return slices.Contains(pids, pid)
	}
	h.Stopped = func(_ testing.TB, path string, _ int) bool { return f.Frozen(path) }
	h.Processes = &Processes{
		Start:        start,
		StartForking: func(t testing.TB, path string) { start(t, path, 1) },
		Alive:        alive,
		Ended: func(t testing.TB, pid int) {
			if alive(pid) {
				t.Errorf("process %d is alive", pid)
			}
		},
	}
	return h
}

// OnFiles is the suite's harness for a tree on ordinary files in a folder: everything but processes and the kernel's refusals.
// The folder looks like a v2 hierarchy.
func OnFiles(mountpoint string, tree cgroup.Tree, samples []Sample) *Harness {
	at := func(parts ...string) string { return filepath.Join(append([]string{mountpoint}, parts...)...) }
	h := &Harness{
		Tree: tree, Root: "/test", Files: samples, Absent: "cpu.absent", Rounds: 20,
		Put: func(t testing.TB, path, file, value string) {
			if err := os.WriteFile(at(path, file), []byte(value), 0o600); err != nil {
				t.Error(err)
			}
		},
		Get: func(t testing.TB, path, file string) string {
			text, err := os.ReadFile(at(path, file))
			if err != nil {
				t.Error(err)
			}
			return string(text)
		},
		Link: func(t testing.TB, path, target string) {
			if err := os.Symlink(at(target), at(path)); err != nil {
				t.Error(err)
			}
		},
	}
	h.Make = func(t testing.TB, path string) {
		// Complete before it appears, as the kernel makes it.
		making, err := os.MkdirTemp(mountpoint, ".making-")
		if err != nil {
			t.Error(err)
			return
		}
		for file, value := range values(samples) {
			if err := os.WriteFile(filepath.Join(making, file), []byte(value+"\n"), 0o600); err != nil {
				t.Error(err)
			}
		}
		if err := os.WriteFile(filepath.Join(making, "cgroup.procs"), nil, 0o600); err != nil {
			t.Error(err)
		}
		if err := os.Rename(making, at(path)); err != nil {
			t.Error(err)
		}
	}
	h.Remove = func(t testing.TB, path string) {
		// The folder goes before its files do, as the kernel removes it.
		removing, err := os.MkdirTemp(mountpoint, ".removing-")
		if err != nil {
			t.Error(err)
			return
		}
		if err := os.Rename(at(path), filepath.Join(removing, "it")); err != nil {
			t.Error(err)
		}
		// Without this one a cgroup is gone. The kernel's lock sees to it that no other file is missed before; here the order does.
		if err := os.Remove(filepath.Join(removing, "it", "cgroup.procs")); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(removing); err != nil {
			t.Error(err)
		}
	}
	return h
}

func values(samples []Sample) map[string]string {
	files := map[string]string{}
	for _, sample := range samples {
		files[sample.File] = sample.Two
	}
	return files
}

// NewFolder makes the folder of a tree of ordinary files, with the suite's own cgroup in it.
func NewFolder(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "test"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "test", "cgroup.procs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}
