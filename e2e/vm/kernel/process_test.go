package kernel

import (
	"errors"
	"os"
	"testing"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

func TestV2OOMScoreAdj(t *testing.T) {
	h, at := group(t)
	pid := h.Processes.Start(t, at, 1)[0]
	for _, test := range []struct {
		name  string
		value int
		wrote bool
	}{{"differs", 500, true}, {"the same", 500, false}, {"lower", -998, true}} {
		wrote, err := cgroup.SetOOMScoreAdj("/proc", h.Tree, at, pid, test.value)
		if wrote != test.wrote || err != nil {
			t.Errorf("%s: wrote %t: %v", test.name, wrote, err)
		}
		if got, err := cgroup.OOMScoreAdj("/proc", pid); got != test.value || err != nil {
			t.Errorf("%s: got %d: %v", test.name, got, err)
		}
	}
	if wrote, err := cgroup.SetOOMScoreAdj("/proc", h.Tree, at, os.Getpid(), 1); wrote || !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("a process of another cgroup: wrote %t: %v", wrote, err)
	}
	if err := h.Tree.Kill(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	h.Processes.Ended(t, pid)
	if _, err := cgroup.SetOOMScoreAdj("/proc", h.Tree, at, pid, 1); !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("a process that has ended: %v", err)
	}
	if _, err := cgroup.OOMScoreAdj("/proc", pid); !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("a process that has ended: %v", err)
	}
}
