package cgrouptest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// units is a real systemd on v2: cgroups are slices, and processes are in scopes.
type units struct {
	kernel
	conn *dbus.Conn
}

// OnSystemd is the suite's harness for a machine that systemd has booted with cgroup v2. Root is needed.
func OnSystemd(t testing.TB, conn *dbus.Conn, mountpoint string, tree cgroup.Tree) *Harness {
	s := units{kernel{mountpoints: []string{mountpoint}, unified: true}, conn}
	h := &Harness{
		Tree: tree, Root: fmt.Sprintf("/podgracetest%d.slice", os.Getpid()), Absent: "cpu.absent", Rounds: 5,
		Files: SamplesV2, Refused: cgroup.File{Name: "memory.high", Value: "nonsense"}, Partial: true,
		Unit: func(parent, word string) string {
			return strings.TrimSuffix(path.Base(parent), ".slice") + "-" + word + ".slice"
		},
		Make: s.makeSlice, Remove: s.removeSlice, Put: s.put, Get: s.get,
		Processes: &Processes{Start: s.startScopes, StartForking: s.startForkingScope, Ended: ended, Alive: alive},
	}
	s.makeSlice(t, h.Root)
	t.Cleanup(func() { s.removeSlice(t, h.Root) })
	return h
}

// makeSlice makes a transient slice with all controllers, as the kubelet's cgroup manager does for a pod. A weight enables that
// of the CPU, which accounting alone does not.
func (s units) makeSlice(t testing.TB, at string) {
	t.Helper()
	s.startUnit(t, path.Base(at),
		property("DefaultDependencies", false), property("CPUWeight", uint64(100)),
		property("MemoryAccounting", true), property("TasksAccounting", true), property("IOAccounting", true))
}

func (s units) startUnit(t testing.TB, unit string, properties ...dbus.Property) {
	t.Helper()
	done := make(chan string, 1)
	_, err := s.conn.StartTransientUnitContext(context.Background(), unit, "replace", properties, done)
	if err != nil {
		t.Errorf("starting %s: %v", unit, err)
		return
	}
	if how := <-done; how != "done" {
		t.Errorf("starting %s: %s", unit, how)
	}
}

// removeSlice stops it and removes its cgroup, as the kubelet's cgroup manager does (github.com/opencontainers/cgroups v0.0.6,
// systemd/v2.go, Destroy): systemd may leave it. It waits until the cgroup is gone.
func (s units) removeSlice(t testing.TB, at string) {
	t.Helper()
	done := make(chan string, 1)
	_, err := s.conn.StopUnitContext(context.Background(), path.Base(at), "replace", done)
	var answer godbus.Error
	if errors.As(err, &answer) && answer.Name == "org.freedesktop.systemd1.NoSuchUnit" {
		return
	}
	if err != nil {
		t.Errorf("stopping %s: %v", at, err)
		return
	}
	<-done
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-poll.C {
		err := os.Remove(filepath.Join(s.mountpoints[0], at))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s is still there: %v", at, err)
			return
		}
	}
}

// place starts a process and makes a scope for it below the slice.
func (s units) place(t testing.TB, at string) func(*exec.Cmd, func() error) error {
	return func(cmd *exec.Cmd, start func() error) error {
		if err := start(); err != nil {
			return err
		}
		pid := uint32(cmd.Process.Pid)
		s.startUnit(t, fmt.Sprintf("podgracetest-%d.scope", pid), property("PIDs", []uint32{pid}), property("Slice", path.Base(at)),
			property("DefaultDependencies", false), property("CollectMode", "inactive-or-failed"))
		return nil
	}
}

func (s units) startScopes(t testing.TB, at string, n int) []int {
	t.Helper()
	var pids []int
	for range n {
		pid, _, _ := start(t, "wait", s.place(t, at))
		pids = append(pids, pid)
	}
	return pids
}

func (s units) startForkingScope(t testing.TB, at string) {
	t.Helper()
	_, begin, told := start(t, "fork", s.place(t, at))
	forking(t, begin, told)
}

func property(name string, value any) dbus.Property {
	return dbus.Property{Name: name, Value: godbus.MakeVariant(value)}
}
