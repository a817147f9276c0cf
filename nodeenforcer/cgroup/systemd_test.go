package cgroup_test

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
)

func TestSystemdConformsOnOrdinaryFiles(t *testing.T) {
	cgrouptest.Conformance(t, func(t *testing.T) *cgrouptest.Harness {
		root := cgrouptest.NewFolder(t)
		systemd := cgrouptest.NewSystemd(root)
		h := cgrouptest.OnFiles(root, cgroup.NewSystemd(cgroup.NewV2(root), cgroupfile.V2, systemd.Dial), cgrouptest.SamplesV2)
		h.Unit = func(_, word string) string { return word + ".slice" }
		h.Refused = cgroup.File{Name: "memory.high", Value: "nonsense"}
		return h
	})
}

// lab is a systemd with one unit, whose files are as given.
type lab struct {
	root    string
	systemd *cgrouptest.Systemd
	tree    *cgroup.Systemd
}

func newLab(t *testing.T, version cgroupfile.Version, unit string, files map[string]string) lab {
	t.Helper()
	root := t.TempDir()
	l := lab{root: root, systemd: cgrouptest.NewSystemd(root)}
	l.tree = cgroup.NewSystemd(cgroup.NewV2(root), version, l.systemd.Dial)
	t.Cleanup(l.tree.Close)
	if err := os.Mkdir(filepath.Join(root, unit), 0o700); err != nil {
		t.Fatal(err)
	}
	l.put(t, unit, "cgroup.procs", "")
	for file, value := range files {
		l.put(t, unit, file, value)
	}
	return l
}

func (l lab) put(t *testing.T, unit, file, value string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(l.root, unit, file), []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (l lab) get(t *testing.T, unit, file string) string {
	t.Helper()
	values, err := l.tree.Read("/"+unit, file)
	if err != nil {
		t.Fatal(err)
	}
	return values[file]
}

func property(name string, value any) dbus.Property {
	return dbus.Property{Name: name, Value: godbus.MakeVariant(value)}
}

var unlimited = uint64(math.MaxUint64)

// If one differs all are set, sorted here by name; what holds nothing is left out.
func TestSystemdProperties(t *testing.T) {
	tests := []struct {
		name    string
		version cgroupfile.Version
		have    map[string]string
		write   []cgroup.File
		written int
		want    []dbus.Property
	}{
		{
			"the weight takes everything along", cgroupfile.V2,
			map[string]string{"cpu.weight": "100", "cpu.max": "25000 100000", "memory.max": "4096", "cpuset.cpus": "", "hugetlb.2MB.max": "0"},
			[]cgroup.File{{Name: "cpu.weight", Value: "4"}}, 1,
			[]dbus.Property{property("CPUQuotaPerSecUSec", uint64(250_000)), property("CPUQuotaPeriodUSec", uint64(100_000)), property("CPUWeight", uint64(4)), property("MemoryMax", uint64(4096))},
		},
		{
			"one limit takes the others along", cgroupfile.V2,
			map[string]string{"memory.min": "4096", "memory.low": "0", "memory.high": "max", "memory.max": "8192", "memory.swap.max": "0"},
			[]cgroup.File{{Name: "memory.high", Value: "4096"}}, 1,
			[]dbus.Property{
				property("MemoryHigh", uint64(4096)), property("MemoryLow", uint64(0)), property("MemoryMax", uint64(8192)),
				property("MemoryMin", uint64(4096)), property("MemorySwapMax", uint64(0)),
			},
		},
		{
			"a quota is rounded up to a percent", cgroupfile.V2,
			map[string]string{"cpu.weight": "1", "cpu.max": "max 100000"},
			[]cgroup.File{{Name: "cpu.max", Value: "1500 100000"}}, 1,
			[]dbus.Property{property("CPUQuotaPerSecUSec", uint64(20_000)), property("CPUQuotaPeriodUSec", uint64(100_000)), property("CPUWeight", uint64(1))},
		},
		{
			"and is held then", cgroupfile.V2, map[string]string{"cpu.max": "2000 100000"},
			[]cgroup.File{{Name: "cpu.max", Value: "1500 100000"}}, 0, nil,
		},
		{
			"no limit", cgroupfile.V2, map[string]string{"cpu.max": "2000 100000", "pids.max": "7"},
			[]cgroup.File{{Name: "cpu.max", Value: "max 100000"}, {Name: "pids.max", Value: "max"}}, 2,
			[]dbus.Property{property("CPUQuotaPerSecUSec", unlimited), property("CPUQuotaPeriodUSec", uint64(100_000)), property("TasksMax", unlimited)},
		},
		{
			"no processes is one for systemd", cgroupfile.V2, map[string]string{"pids.max": "7"},
			[]cgroup.File{{Name: "pids.max", Value: "0"}}, 1, []dbus.Property{property("TasksMax", uint64(1))},
		},
		{
			"weights of devices stay", cgroupfile.V2, map[string]string{"io.weight": "default 100\n8:0 200"},
			[]cgroup.File{{Name: "io.weight", Value: "default 50"}}, 1, []dbus.Property{property("IOWeight", uint64(50))},
		},
		{
			"CPUs are a mask", cgroupfile.V2, map[string]string{"cpuset.cpus": "0-3", "cpuset.mems": "0"},
			[]cgroup.File{{Name: "cpuset.cpus", Value: "0,2-3,9"}}, 1,
			[]dbus.Property{property("AllowedCPUs", []byte{0b1101, 0b10}), property("AllowedMemoryNodes", []byte{1})},
		},
		{
			"plain files make no call", cgroupfile.V2, map[string]string{"memory.oom.group": "0", "memory.max": "8192"},
			[]cgroup.File{{Name: "memory.oom.group", Value: "1"}, {Name: "memory.max", Value: "8192"}}, 1, nil,
		},
		{
			"nothing differs", cgroupfile.V2, map[string]string{"cpu.weight": "4"},
			[]cgroup.File{{Name: "cpu.weight", Value: "4\n"}}, 0, nil,
		},
		{
			"v1", cgroupfile.V1,
			map[string]string{"cpu.shares": "1024", "cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000", "memory.limit_in_bytes": "9223372036854771712", "blkio.weight": "500"},
			[]cgroup.File{{Name: "cpu.shares", Value: "102"}, {Name: "cpu.cfs_quota_us", Value: "15001"}, {Name: "memory.limit_in_bytes", Value: "4096"}, {Name: "blkio.weight", Value: "10"}}, 4,
			[]dbus.Property{
				property("BlockIOWeight", uint64(10)), property("CPUQuotaPerSecUSec", uint64(160_000)), property("CPUQuotaPeriodUSec", uint64(100_000)),
				property("CPUShares", uint64(102)), property("MemoryLimit", uint64(4096)),
			},
		},
		{
			"v1 without a limit", cgroupfile.V1, map[string]string{"cpu.shares": "2", "cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"},
			[]cgroup.File{{Name: "cpu.shares", Value: "3"}}, 1,
			[]dbus.Property{property("CPUQuotaPerSecUSec", unlimited), property("CPUQuotaPeriodUSec", uint64(100_000)), property("CPUShares", uint64(3))},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, test.version, "a.slice", test.have)
			n, err := l.tree.Write(t.Context(), "/a.slice", test.write)
			if n != test.written || err != nil {
				t.Fatalf("wrote %d, want %d: %v", n, test.written, err)
			}
			var got []dbus.Property
			for _, call := range l.systemd.Calls() {
				got = append(got, call.Properties...)
			}
			if diff := cmp.Diff(test.want, got, cmp.Comparer(func(a, b godbus.Variant) bool { return cmp.Equal(a.Value(), b.Value()) })); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What was written through systemd is there after a daemon-reload, and so is what somebody else had written into the files beside
// it, of which systemd knew nothing.
func TestSystemdWritesLast(t *testing.T) {
	l := newLab(t, cgroupfile.V2, "a.slice", map[string]string{"cpu.weight": "100", "cpu.max": "max 100000", "pids.max": "max"})
	l.put(t, "a.slice", "cpu.max", "30000 100000")
	l.put(t, "a.slice", "pids.max", "70")
	if _, err := l.tree.Write(t.Context(), "/a.slice", []cgroup.File{{Name: "cpu.weight", Value: "7"}}); err != nil {
		t.Fatal(err)
	}
	l.put(t, "a.slice", "pids.max", "5")
	l.systemd.Reload()
	for file, want := range map[string]string{"cpu.weight": "7", "cpu.max": "30000 100000", "pids.max": "70"} {
		if got := l.get(t, "a.slice", file); got != want {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
}

func TestSystemdReconnects(t *testing.T) {
	l := newLab(t, cgroupfile.V2, "a.slice", map[string]string{"cpu.weight": "100"})
	write := func(value string) error {
		_, err := l.tree.Write(t.Context(), "/a.slice", []cgroup.File{{Name: "cpu.weight", Value: value}})
		return err
	}
	if err := write("1"); err != nil || l.systemd.Dials() != 1 {
		t.Fatalf("%d connections: %v", l.systemd.Dials(), err)
	}
	l.systemd.FailNext(godbus.ErrClosed)
	if err := write("2"); !errors.Is(err, godbus.ErrClosed) {
		t.Errorf("lost under a call: got %v", err)
	}
	if got := l.get(t, "a.slice", "cpu.weight"); got != "1" {
		t.Errorf("what systemd doesn't know was written: %q", got)
	}
	if err := write("3"); err != nil || l.systemd.Dials() != 2 {
		t.Errorf("%d connections: %v", l.systemd.Dials(), err)
	}
	l.systemd.Close()
	if err := write("4"); err != nil || l.systemd.Dials() != 3 {
		t.Errorf("lost meanwhile: %d connections: %v", l.systemd.Dials(), err)
	}
}

func TestSystemdErrors(t *testing.T) {
	refused := godbus.Error{Name: "org.freedesktop.DBus.Error.AccessDenied", Body: []any{"no"}}
	tests := []struct {
		name string
		err  error
		gone bool
	}{
		{"the unit is gone", godbus.Error{Name: "org.freedesktop.systemd1.NoSuchUnit"}, true},
		{"refused", refused, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, cgroupfile.V2, "a.scope", map[string]string{"cpu.weight": "100"})
			l.systemd.FailNext(test.err)
			_, err := l.tree.Write(t.Context(), "/a.scope", []cgroup.File{{Name: "cpu.weight", Value: "1"}})
			if err == nil || errors.Is(err, cgroup.ErrGone) != test.gone {
				t.Errorf("got %v", err)
			}
			if got := l.get(t, "a.scope", "cpu.weight"); got != "100" {
				t.Errorf("the file was written: %q", got)
			}
			if l.systemd.Dials() != 1 || !l.systemd.Connected() {
				t.Error("the connection was given up, which is in order")
			}
		})
	}
}

// A missing file means that its controller is not enabled; its property would enable it.
func TestSystemdEnablesNoController(t *testing.T) {
	l := newLab(t, cgroupfile.V2, "a.slice", map[string]string{"cpu.weight": "100"})
	_, err := l.tree.Write(t.Context(), "/a.slice", []cgroup.File{{Name: "io.weight", Value: "default 50"}})
	if !errors.Is(err, cgroup.ErrNoFile) || len(l.systemd.Calls()) > 0 {
		t.Errorf("%d calls, %v", len(l.systemd.Calls()), err)
	}
}

// A cgroup that is not a unit belongs to whoever made it.
func TestSystemdLeavesCgroupsBelowUnits(t *testing.T) {
	l := newLab(t, cgroupfile.V2, "init", map[string]string{"cpu.weight": "100"})
	n, err := l.tree.Write(t.Context(), "/init", []cgroup.File{{Name: "cpu.weight", Value: "1"}})
	if n != 1 || err != nil || l.systemd.Dials() > 0 {
		t.Errorf("wrote %d, %d connections: %v", n, l.systemd.Dials(), err)
	}
}

// A peer that accepts and says nothing must not hold us longer than the caller wants.
func TestDialingASilentPeerEnds(t *testing.T) {
	for _, name := range []string{"private", "system_bus_socket"} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), name)
			listener, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := cgroup.DialSystemd(socket)(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := cgroup.DialSystemd(filepath.Join(t.TempDir(), "none"))(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no socket: got %v", err)
	}
}
