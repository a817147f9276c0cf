package cgrouptest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// kernel is a real hierarchy, or several side by side. Root is needed.
type kernel struct {
	mountpoints []string
	unified     bool
}

// OnV2 is the suite's harness for a real v2 hierarchy, below whose root no process may be.
func OnV2(t testing.TB, mountpoint string, tree cgroup.Tree) *Harness {
	k := kernel{mountpoints: []string{mountpoint}, unified: true}
	h := k.harness(t, tree)
	h.Files, h.Refused, h.Stopped = SamplesV2, cgroup.File{Name: "memory.high", Value: "nonsense"}, stopped
	return h
}

// OnV1 is the suite's harness for real v1 hierarchies, at these places.
func OnV1(t testing.TB, mountpoints []string, tree cgroup.Tree) *Harness {
	k := kernel{mountpoints: mountpoints}
	h := k.harness(t, tree)
	h.Files, h.Refused, h.Partial = SamplesV1, cgroup.File{Name: "cpu.shares", Value: "nonsense"}, true
	if slices.ContainsFunc(mountpoints, func(at string) bool { _, err := os.Stat(filepath.Join(at, h.Root, "freezer.state")); return err == nil }) {
		h.Stopped = stopped
	}
	return h
}

func (k kernel) harness(t testing.TB, tree cgroup.Tree) *Harness {
	h := &Harness{
		Tree: tree, Root: fmt.Sprintf("/podgrace-test-%d", os.Getpid()), Absent: "cpu.absent", Rounds: 100,
		Make: k.make, Remove: k.remove, Put: k.put, Get: k.get,
		Processes: &Processes{Start: k.start, StartForking: k.startForking, Ended: ended, Alive: alive},
	}
	k.make(t, h.Root)
	t.Cleanup(func() { k.remove(t, h.Root) })
	return h
}

// make makes a cgroup that can have children with the same controllers and, on v1, processes: the kernel takes none into one
// without CPUs.
func (k kernel) make(t testing.TB, path string) {
	t.Helper()
	for _, mountpoint := range k.mountpoints {
		at := filepath.Join(mountpoint, path)
		if k.unified {
			enableControllers(filepath.Dir(at))
		}
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Error(err)
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if text, err := os.ReadFile(filepath.Join(filepath.Dir(at), file)); err == nil && !k.unified {
				write(t, filepath.Join(at, file), strings.TrimSpace(string(text)))
			}
		}
	}
}

// enableControllers hands down what there is; what can't be is missed by the tests that need it.
func enableControllers(dir string) {
	text, _ := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	for controller := range strings.FieldsSeq(string(text)) {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o600)
	}
}

// remove waits for killed processes, which leave a moment after they are killed.
func (k kernel) remove(t testing.TB, path string) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	deadline := time.Now().Add(time.Minute)
	for _, mountpoint := range k.mountpoints {
		for {
			err := unix.Rmdir(filepath.Join(mountpoint, path))
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
				t.Errorf("removing %s in %s: %v", path, mountpoint, err)
				break
			}
			<-poll.C
		}
	}
}

// file finds the hierarchy that has it.
func (k kernel) file(path, file string) string {
	for _, mountpoint := range k.mountpoints {
		at := filepath.Join(mountpoint, path, file)
		if _, err := os.Stat(at); err == nil {
			return at
		}
	}
	return filepath.Join(k.mountpoints[0], path, file)
}

func (k kernel) put(t testing.TB, path, file, value string) {
	t.Helper()
	write(t, k.file(path, file), value)
}

func (k kernel) get(t testing.TB, path, file string) string {
	t.Helper()
	text, err := os.ReadFile(k.file(path, file))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func write(t testing.TB, at, value string) {
	t.Helper()
	if err := os.WriteFile(at, []byte(value), 0o600); err != nil {
		t.Error(err)
	}
}

// place starts a process in a cgroup: v2 by clone3, v1 by moving it while it waits.
func (k kernel) place(path string) func(*exec.Cmd, func() error) error {
	return func(cmd *exec.Cmd, start func() error) error {
		if k.unified {
			dir, err := os.Open(filepath.Join(k.mountpoints[0], path))
			if err != nil {
				return err
			}
			defer dir.Close()
			cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
			return start()
		}
		if err := start(); err != nil {
			return err
		}
		for _, mountpoint := range k.mountpoints {
			procs := filepath.Join(mountpoint, path, "cgroup.procs")
			if err := os.WriteFile(procs, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
				return err
			}
		}
		return nil
	}
}

func (k kernel) start(t testing.TB, path string, n int) []int {
	t.Helper()
	var pids []int
	for range n {
		pid, _, _ := start(t, "wait", k.place(path))
		pids = append(pids, pid)
	}
	return pids
}

func (k kernel) startForking(t testing.TB, path string) {
	t.Helper()
	_, begin, told := start(t, "fork", k.place(path))
	forking(t, begin, told)
}

// forking gives the word and returns when some generations have come and gone.
func forking(t testing.TB, begin io.Writer, told *bufio.Reader) {
	t.Helper()
	if _, err := begin.Write([]byte{'!'}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(told, make([]byte, 10)); err != nil {
		t.Fatalf("waiting for the processes to start others: %v", err)
	}
}
