package kernel

import (
	"context"
	"errors"
	"path"
	"testing"

	"github.com/coreos/go-systemd/v22/dbus"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
)

// The sockets by which systemd can be reached.
const (
	systemBus   = "/run/dbus/system_bus_socket"
	privateSock = "/run/systemd/private"
)

func connect(t testing.TB) *dbus.Conn {
	t.Helper()
	conn, err := dbus.NewSystemdConnectionContext(context.Background()) // t.Context ends before the cleanups that need it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func systemdTree(t testing.TB, socket string) *cgroup.Systemd {
	t.Helper()
	tree := cgroup.NewSystemd(cgroup.NewV2(mountpoint), cgroupfile.V2, cgroup.DialSystemd(socket))
	t.Cleanup(tree.Close)
	return tree
}

func TestSystemdConforms(t *testing.T) {
	for name, socket := range map[string]string{"bus": systemBus, "private": privateSock} {
		t.Run(name, func(t *testing.T) {
			cgrouptest.Conformance(t, func(t *testing.T) *cgrouptest.Harness {
				return cgrouptest.OnSystemd(t, connect(t), mountpoint, systemdTree(t, socket))
			})
		})
	}
}

// What was written through systemd, and what was in the other files of that controller, survives a daemon-reload and the change of
// another property.
func TestSystemdWritesLast(t *testing.T) {
	conn := connect(t)
	tree := systemdTree(t, systemBus)
	h := cgrouptest.OnSystemd(t, conn, mountpoint, tree)
	at := path.Join(h.Root, h.Unit(h.Root, "lasts"))
	h.Make(t, at)
	t.Cleanup(func() { h.Remove(t, at) })
	h.Put(t, at, "memory.low", "4194304")
	h.Put(t, at, "pids.max", "77")
	files := []cgroup.File{{Name: "cpu.weight", Value: "7"}, {Name: "cpu.max", Value: "1500 100000"}, {Name: "memory.high", Value: "67108864"}, {Name: "memory.oom.group", Value: "1"}}
	if n, err := tree.Write(t.Context(), at, files); n != 4 || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	want := map[string]string{"cpu.weight": "7", "cpu.max": "2000 100000", "memory.high": "67108864", "memory.low": "4194304", "pids.max": "77"}
	holds := func(when string) {
		t.Helper()
		for file, value := range want {
			if got := h.Get(t, at, file); !cgroupfile.Holds(got, value) {
				t.Errorf("%s: %s holds %q, want %q", when, file, got, value)
			}
		}
	}
	holds("written")
	// It has no property. Our own writes put it back, but a daemon-reload resets it, and systemd has no setting for it.
	group := []cgroup.File{{Name: "memory.oom.group", Value: "1"}}
	if n, err := tree.Write(t.Context(), at, []cgroup.File{{Name: "cpu.weight", Value: "8"}}); n != 1 || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	want["cpu.weight"], files[0].Value = "8", "8"
	if n, err := tree.Write(t.Context(), at, group); n != 0 || err != nil {
		t.Errorf("memory.oom.group was lost under another file: wrote %d: %v", n, err)
	}
	if err := conn.ReloadContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	holds("after a daemon-reload")
	if n, err := tree.Write(t.Context(), at, []cgroup.File{{Name: "memory.max", Value: "134217728"}}); n != 1 || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	if err := conn.ReloadContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	want["memory.max"] = "134217728"
	holds("after another change and a daemon-reload")
	if n, err := tree.Write(t.Context(), at, files[:3]); n != 0 || err != nil {
		t.Errorf("a second time: wrote %d: %v", n, err)
	}
}

func TestSystemdUnitGone(t *testing.T) {
	h := cgrouptest.OnSystemd(t, connect(t), mountpoint, systemdTree(t, privateSock))
	_, err := h.Tree.Write(t.Context(), path.Join(h.Root, "podgracetest-none.scope"), []cgroup.File{{Name: "cpu.weight", Value: "1"}})
	if !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkSystemd(b *testing.B) {
	cgrouptest.Benchmark(b, cgrouptest.OnSystemd(b, connect(b), mountpoint, systemdTree(b, systemBus)))
}
