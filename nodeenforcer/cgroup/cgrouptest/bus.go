package cgrouptest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

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
