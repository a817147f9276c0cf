package kernel

import (
	"errors"
	"os"
	"slices"
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
		wrote, err := cgroup.SetOOMScoreAdj("/proc", h.Tree, at, []int{pid}, test.value)
		if slices.Contains(wrote, pid) != test.wrote || err != nil {
			t.Errorf("%s: wrote %v: %v", test.name, wrote, err)
		}
		if got, err := cgroup.OOMScoreAdj("/proc", pid); got != test.value || err != nil {
			t.Errorf("%s: got %d: %v", test.name, got, err)
		}
	}
	if wrote, err := cgroup.SetOOMScoreAdj("/proc", h.Tree, at, []int{os.Getpid()}, 1); len(wrote) > 0 || err != nil {
		t.Errorf("a process of another cgroup: wrote %v: %v", wrote, err)
	}
	if err := h.Tree.Kill(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	h.Processes.Ended(t, pid)
	if wrote, err := cgroup.SetOOMScoreAdj("/proc", h.Tree, at, []int{pid}, 1); len(wrote) > 0 || err != nil {
		t.Errorf("a process that has ended: wrote %v: %v", wrote, err)
	}
	if _, err := cgroup.OOMScoreAdj("/proc", pid); !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("a process that has ended: %v", err)
	}
}
