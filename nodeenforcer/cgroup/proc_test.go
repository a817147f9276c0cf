package cgroup_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
)

// On a folder that looks like /proc; e2e/vm/kernel has the real one.
func TestSetOOMScoreAdj(t *testing.T) {
	fake := cgrouptest.NewFake()
	fake.Add("/a/b", nil, 12, 14)
	for _, test := range []struct {
		name      string
		path      string
		pid, want int
		file      string
		wrote     bool
		is        error
	}{
		{"differs", "/a/b", 12, -998, "-998", true, nil},
		{"the same", "/a/b", 12, 968, "968\n", false, nil},
		{"in a cgroup below", "/a", 12, 100, "100", true, nil},
		{"another process's number", "/a/b", 13, 1, "968\n", false, nil},
		{"ended", "/a/b", 14, 1, "", false, nil},
		{"the cgroup is gone", "/c", 12, 1, "968\n", false, cgroup.ErrGone},
	} {
		t.Run(test.name, func(t *testing.T) {
			proc := t.TempDir()
			for _, pid := range []string{"12", "13"} {
				if err := os.Mkdir(filepath.Join(proc, pid), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(proc, pid, "oom_score_adj"), []byte("968\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			wrote, err := cgroup.SetOOMScoreAdj(proc, fake, test.path, []int{test.pid}, test.want)
			if slices.Contains(wrote, test.pid) != test.wrote || !errors.Is(err, test.is) {
				t.Errorf("wrote %v: %v", wrote, err)
			}
			if test.file == "" {
				return
			}
			text, err := os.ReadFile(filepath.Join(proc, map[int]string{12: "12", 13: "13"}[test.pid], "oom_score_adj"))
			// An ordinary file keeps what is longer than what was written; the kernel's is replaced.
			if got := string(text[:min(len(text), len(test.file))]); got != test.file || err != nil {
				t.Errorf("the file holds %q: %v", got, err)
			}
		})
	}
}

// counted counts the lists.
type counted struct {
	cgroup.Lister
	lists int
}

func (c *counted) Processes(path string) ([]int, error) {
	c.lists++
	return c.Lister.Processes(path)
}

// The cgroup is listed a few times for thousands of processes, and not once for each.
func TestSetOOMScoreAdjOfMany(t *testing.T) {
	fake, proc := cgrouptest.NewFake(), t.TempDir()
	var pids []int
	for pid := 1; pid <= 1000; pid++ {
		pids = append(pids, pid)
		if err := os.Mkdir(filepath.Join(proc, strconv.Itoa(pid)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, strconv.Itoa(pid), "oom_score_adj"), []byte("100"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fake.Add("/a", nil, pids...)
	tree := &counted{Lister: fake}
	wrote, err := cgroup.SetOOMScoreAdj(proc, tree, "/a", pids, 999)
	if !slices.Equal(wrote, pids) || err != nil || tree.lists > 4 {
		t.Errorf("wrote %d of %d, listed %d times: %v", len(wrote), len(pids), tree.lists, err)
	}
}
