package cgrouptest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
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
		Make: s.makeSlice, Remove: s.removeSlice, Put: s.put, Get: s.get, Stopped: stopped,
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

// Systemd plays systemd on a tree of ordinary v2 files: it remembers the properties of units, and whenever one is set it writes
// the files of all of them, with their defaults where it remembers nothing. It is safe for concurrent use.
type Systemd struct {
	mountpoint string
	mu         sync.Mutex
	units      map[string]map[string]any // by unit: what it remembers
	calls      []Call
	dials      int
	connected  bool
	next       error
}

// Call is one that was made, with the properties sorted by name.
type Call struct {
	Unit       string
	Properties []dbus.Property
}

// NewSystemd takes the folder of the tree. No connection stands.
func NewSystemd(mountpoint string) *Systemd {
	return &Systemd{mountpoint: mountpoint, units: map[string]map[string]any{}}
}

var _ cgroup.Bus = (*Systemd)(nil)

// Dial is a cgroup.Dialer.
func (s *Systemd) Dial(context.Context) (cgroup.Bus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials, s.connected = s.dials+1, true
	return s, nil
}

// Dials is how many connections were made.
func (s *Systemd) Dials() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials
}

// Calls are those made so far.
func (s *Systemd) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// FailNext makes the next call fail.
func (s *Systemd) FailNext(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = err
}

// Connected implements cgroup.Bus.
func (s *Systemd) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connected
}

// Close implements cgroup.Bus; it is also the peer's going away.
func (s *Systemd) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connected = false
}

// SetUnitPropertiesContext implements cgroup.Bus. Like systemd it takes a slice that is not there, and no other unit.
func (s *Systemd) SetUnitPropertiesContext(_ context.Context, unit string, runtime bool, properties ...dbus.Property) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.next; err != nil {
		s.next = nil
		return err
	}
	if !s.connected {
		return godbus.ErrClosed
	}
	if !runtime {
		return errors.New("the properties would outlast the machine's next boot")
	}
	at := s.find(unit)
	if at == "" && filepath.Ext(unit) != ".slice" {
		return godbus.Error{Name: "org.freedesktop.systemd1.NoSuchUnit", Body: []any{"Unit " + unit + " not loaded."}}
	}
	call := Call{unit, slices.Clone(properties)}
	slices.SortFunc(call.Properties, func(a, b dbus.Property) int { return cmp.Compare(a.Name, b.Name) })
	s.calls = append(s.calls, call)
	if s.units[unit] == nil {
		s.units[unit] = map[string]any{}
	}
	for _, p := range properties {
		s.units[unit][p.Name] = p.Value.Value()
	}
	apply(at, s.units[unit])
	return nil
}

// Reload is daemon-reload: everything that is remembered is applied again.
func (s *Systemd) Reload() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for unit, remembered := range s.units {
		apply(s.find(unit), remembered)
	}
}

// find is the folder of a unit; empty: none.
func (s *Systemd) find(unit string) (at string) {
	_ = filepath.WalkDir(s.mountpoint, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == unit {
			at = path
		}
		return nil
	})
	return at
}

// apply writes what systemd has properties for.
func apply(at string, r map[string]any) {
	put(at, "cpu.weight", number(r, "CPUWeight", 100))
	perSecond, period := number(r, "CPUQuotaPerSecUSec", math.MaxUint64), number(r, "CPUQuotaPeriodUSec", 100_000)
	quota := "max"
	if perSecond != math.MaxUint64 {
		quota = strconv.FormatUint(perSecond*period/1_000_000, 10)
	}
	put(at, "cpu.max", fmt.Sprintf("%s %d", quota, period))
	put(at, "memory.min", number(r, "MemoryMin", 0))
	put(at, "memory.low", number(r, "MemoryLow", 0))
	put(at, "memory.high", number(r, "MemoryHigh", math.MaxUint64))
	put(at, "memory.max", number(r, "MemoryMax", math.MaxUint64))
	put(at, "memory.swap.max", number(r, "MemorySwapMax", math.MaxUint64))
	put(at, "pids.max", number(r, "TasksMax", math.MaxUint64))
	put(at, "io.weight", fmt.Sprintf("default %d", number(r, "IOWeight", 100)))
}

func number(remembered map[string]any, property string, otherwise uint64) uint64 {
	if value, ok := remembered[property].(uint64); ok {
		return value
	}
	return otherwise
}

// put writes a file if it exists: what can't be written systemd only logs.
func put(at, file string, value any) {
	text := fmt.Sprint(value)
	if text == strconv.FormatUint(math.MaxUint64, 10) {
		text = "max"
	}
	if _, err := os.Stat(filepath.Join(at, file)); err == nil {
		_ = os.WriteFile(filepath.Join(at, file), []byte(text+"\n"), 0o600)
	}
}
