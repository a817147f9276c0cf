package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// unlimitedMemory is what the kernel prints for no limit in v1: the largest number of whole pages.
const unlimitedMemory = "9223372036854771712"

// otherwise is a value near the planned one that the kernel takes at any level, whatever the levels above hold.
func otherwise(file, want string) string {
	n, err := strconv.ParseInt(want, 10, 64)
	switch {
	case file == "cpu.cfs_quota_us" && n < 0:
		return "10000000" // a hundred CPUs
	case file == "cpu.cfs_quota_us":
		return "-1"
	case want == unlimitedMemory:
		return strconv.FormatInt(1<<40, 10)
	case want == "max":
		return "10000"
	case err != nil:
		return want
	case file == "cpu.cfs_period_us":
		return want // with a quota it can't be had everywhere
	case file == "pids.max":
		return strconv.FormatInt(n-1, 10) // more may be more than the kernel has
	case file == "memory.limit_in_bytes" || file == "memory.soft_limit_in_bytes":
		return strconv.FormatInt(n+mib, 10)
	}
	return strconv.FormatInt(n+1, 10)
}

// otherwiseAdj is an oom_score_adj near the planned one, which is not below 0.
func otherwiseAdj(want int) int {
	if want == 0 {
		return 1
	}
	return want - 1
}

// spoil makes every planned file, and every process, hold something else than planned, and returns of how many files and
// processes that could be done.
func (t *hostTree) spoil(ctx context.Context, tree *plan.Tree) (int, error) {
	spoilt := 0
	for _, g := range tree.Groups {
		var files []cgroup.File
		for _, name := range slices.Sorted(maps.Keys(g.Files)) {
			want := g.Files[name].Want
			if other := otherwise(name, want); other != want {
				files = append(files, cgroup.File{Name: name, Value: other})
			}
		}
		n, err := t.cgroups.Write(ctx, g.Path, files)
		if err != nil {
			return 0, fmt.Errorf("make %s drift: %w", g.Path, err)
		}
		spoilt += n
	}
	for _, p := range tree.Processes {
		pids, err := t.cgroups.Processes(p.Path)
		if err != nil {
			return 0, fmt.Errorf("make the processes of %s drift: %w", p.Path, err)
		}
		for _, pid := range pids {
			if err := setOOMScoreAdj(pid, otherwiseAdj(p.OOMScoreAdj)); err != nil {
				return 0, err
			}
			spoilt++
		}
	}
	return spoilt, nil
}
