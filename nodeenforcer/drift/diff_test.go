package drift_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// diffTree builds a plan from lines "path file owner want"; want may have spaces. Groups come in the order of their first line.
func diffTree(lines ...string) *plan.Tree {
	tree := &plan.Tree{}
	at := map[string]int{}
	for _, line := range lines {
		f := strings.SplitN(line, " ", 4)
		i, ok := at[f[0]]
		if !ok {
			i = len(tree.Groups)
			at[f[0]] = i
			tree.Groups = append(tree.Groups, plan.Group{Path: f[0], Level: plan.LevelPod, Pod: types.NamespacedName{Namespace: "ns", Name: "p"}, Files: map[string]plan.Value{}})
		}
		tree.Groups[i].Files[f[1]] = plan.Value{Owner: plan.Owner(f[2]), Want: f[3]}
	}
	return tree
}

// diffHave builds what was read from lines "path file content", or "path usage bytes".
func diffHave(lines ...string) drift.Have {
	have := drift.Have{}
	for _, line := range lines {
		f := strings.SplitN(line, " ", 3)
		o, ok := have[f[0]]
		if !ok {
			o.Files = map[string]string{}
		}
		if f[1] == "usage" {
			fmt.Sscan(f[2], &o.MemoryUsage)
		} else {
			o.Files[f[1]] = f[2]
		}
		have[f[0]] = o
	}
	return have
}

func diffOps(ops []drift.Operation) []string {
	var out []string
	for _, op := range ops {
		out = append(out, fmt.Sprintf("%s %s %s %s -> %s", op.Step, op.Path, op.File, op.From, op.To))
	}
	return out
}

func diffReasons(drift []drift.Drift) []string {
	var out []string
	for _, d := range drift {
		if d.Why != "" {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", d.Path, d.File, d.Why, d.Detail)))
		}
	}
	return out
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		want    []string
		have    []string
		mode    v1alpha1.NodeMode
		options drift.Options
		ops     []string
		reasons []string
	}{
		"nothing differs": {
			want: []string{"/a cpu.max kubelet max 100000", "/a memory.high nobody 4096"},
			have: []string{"/a cpu.max max 100000", "/a memory.high 4096"},
		},
		"limits widen from the top and narrow from the bottom": {
			want: []string{"/a memory.max nobody 200", "/a/b memory.max nobody 200", "/c memory.max nobody 8192", "/c/d memory.max nobody 4096"},
			have: []string{"/a memory.max max", "/a/b memory.max max", "/c memory.max 4096", "/c/d memory.max 0"},
			ops: []string{
				"widen /c memory.max 4096 -> 8192", "widen /c/d memory.max 0 -> 4096",
				"narrow /a/b memory.max max -> 200", "narrow /a memory.max max -> 200",
			},
		},
		"protection widens from the top and narrows from the bottom": {
			want: []string{"/a memory.min nobody 8192", "/a/b memory.min nobody 8192", "/c memory.low nobody 0", "/c/d memory.low nobody 0"},
			have: []string{"/a memory.min 0", "/a/b memory.min 0", "/c memory.low 8192", "/c/d memory.low 8192"},
			ops: []string{
				"widen /a memory.min 0 -> 8192", "widen /a/b memory.min 0 -> 8192",
				"narrow /c/d memory.low 8192 -> 0", "narrow /c memory.low 8192 -> 0",
			},
		},
		"within a group the larger is raised first": {
			want: []string{"/a memory.min nobody 4096", "/a memory.low nobody 8192", "/a memory.high nobody 12288", "/a memory.max nobody 16384"},
			have: []string{"/a memory.min 0", "/a memory.low 0", "/a memory.high 0", "/a memory.max 0"},
			ops:  []string{"widen /a memory.max 0 -> 16384", "widen /a memory.high 0 -> 12288", "widen /a memory.low 0 -> 8192", "widen /a memory.min 0 -> 4096"},
		},
		"and the smaller lowered first": {
			want: []string{"/a memory.min nobody 4096", "/a memory.low nobody 8192", "/a memory.high nobody 12288", "/a memory.max nobody 16384"},
			have: []string{"/a memory.min 40960", "/a memory.low 40960", "/a memory.high 40960", "/a memory.max 40960"},
			ops:  []string{"narrow /a memory.min 40960 -> 4096", "narrow /a memory.low 40960 -> 8192", "narrow /a memory.high 40960 -> 12288", "narrow /a memory.max 40960 -> 16384"},
		},
		"v1: memsw never below the limit": {
			want: []string{"/a memory.limit_in_bytes kubelet 8192", "/a memory.memsw.limit_in_bytes kubelet 8192", "/b memory.limit_in_bytes kubelet 4096", "/b memory.memsw.limit_in_bytes kubelet 4096"},
			have: []string{"/a memory.limit_in_bytes 4096", "/a memory.memsw.limit_in_bytes 4096", "/b memory.limit_in_bytes 8192", "/b memory.memsw.limit_in_bytes 8192"},
			ops: []string{
				"widen /a memory.memsw.limit_in_bytes 4096 -> 8192", "widen /a memory.limit_in_bytes 4096 -> 8192",
				"narrow /b memory.limit_in_bytes 8192 -> 4096", "narrow /b memory.memsw.limit_in_bytes 8192 -> 4096",
			},
		},
		"from protection Min to Low: never without": {
			want: []string{"/a memory.min nobody 0", "/a memory.low nobody 8192"},
			have: []string{"/a memory.min 8192", "/a memory.low 0"},
			ops:  []string{"widen /a memory.low 0 -> 8192", "narrow /a memory.min 8192 -> 0"},
		},
		"not under usage": {
			want:    []string{"/a memory.max nobody 4096", "/a memory.high nobody 4096", "/b memory.limit_in_bytes nobody 4096", "/c memory.max nobody 4096", "/d memory.max nobody 4096"},
			have:    []string{"/a memory.max max", "/a memory.high 8192", "/a usage 4097", "/b memory.limit_in_bytes 9223372036854771712", "/b usage -1", "/c memory.max max", "/c usage 4096", "/d memory.max 0", "/d usage 8192"},
			ops:     []string{"widen /d memory.max 0 -> 4096", "narrow /c memory.max max -> 4096"},
			reasons: []string{"/a memory.high BelowUsage 4097 bytes", "/a memory.max BelowUsage 4097 bytes", "/b memory.limit_in_bytes UsageUnknown"},
		},
		"under usage, if asked": {
			want:    []string{"/a memory.max nobody 4096", "/b memory.max nobody 4096"},
			have:    []string{"/a memory.max max", "/a usage 8192", "/b memory.max max", "/b usage -1"},
			options: drift.Options{BelowUsage: true},
			ops:     []string{"narrow /b memory.max max -> 4096", "narrow /a memory.max max -> 4096"},
		},
		"one that can't be lowered keeps those above it": {
			want:    []string{"/a memory.max nobody 8192", "/a/b memory.max nobody 4096"},
			have:    []string{"/a memory.max 65536", "/a usage 0", "/a/b memory.max 65536", "/a/b usage 16384"},
			reasons: []string{"/a memory.max Promise /a/b", "/a/b memory.max BelowUsage 16384 bytes"},
		},
		"one that can't be raised keeps those below it": {
			want:    []string{"/a memory.low kubelet 8192", "/a/b memory.low nobody 8192", "/a/b/c memory.low nobody 8192"},
			have:    []string{"/a memory.low 0", "/a/b memory.low 0", "/a/b/c memory.low 0"},
			mode:    v1alpha1.NodeModeTune,
			reasons: []string{"/a memory.low Owned", "/a/b memory.low Promise /a", "/a/b/c memory.low Promise /a/b"},
		},
		"but not where the plan itself says more": {
			want: []string{"/a memory.max nobody 8192", "/a/b memory.max runtime 16384"},
			have: []string{"/a memory.max max", "/a/b memory.max 16384"},
			ops:  []string{"narrow /a memory.max max -> 8192"},
		},
		"nor where it was more before": {
			want: []string{"/a memory.max nobody 8192", "/a/b memory.max kubelet 4096"},
			have: []string{"/a memory.max 12288", "/a/b memory.max 16384"},
			mode: v1alpha1.NodeModeTune,
			ops:  []string{"narrow /a memory.max 12288 -> 8192"}, reasons: []string{"/a/b memory.max Owned"},
		},
		"nor where the one below has no limit of its own": {
			want: []string{"/a memory.max nobody 8192", "/a/b memory.max kubelet 4096"},
			have: []string{"/a memory.max 12288", "/a/b memory.max max"},
			mode: v1alpha1.NodeModeTune,
			ops:  []string{"narrow /a memory.max 12288 -> 8192"}, reasons: []string{"/a/b memory.max Owned"},
		},
		"a limit holds through a group without one": {
			want: []string{"/a pids.max nobody 10", "/a/b pids.max nobody max", "/a/b/c pids.max kubelet 5"},
			have: []string{"/a pids.max 20", "/a/b pids.max max", "/a/b/c pids.max 15"},
			mode: v1alpha1.NodeModeTune, reasons: []string{"/a pids.max Promise /a/b/c", "/a/b/c pids.max Owned"},
		},
		"v1: quota and period, widened": {
			want: []string{"/a cpu.cfs_quota_us kubelet 200000", "/a cpu.cfs_period_us kubelet 100000", "/a/b cpu.cfs_quota_us kubelet 200000", "/a/b cpu.cfs_period_us kubelet 100000"},
			have: []string{"/a cpu.cfs_quota_us 100000", "/a cpu.cfs_period_us 100000", "/a/b cpu.cfs_quota_us 100000", "/a/b cpu.cfs_period_us 100000"},
			ops:  []string{"widen /a cpu.cfs_quota_us 100000 -> 200000", "widen /a/b cpu.cfs_quota_us 100000 -> 200000"},
		},
		"v1: the kernel checks after each of the two": {
			// The period alone would make it 4, the quota alone 1: the one below has 2 all the time, the one above 2.5.
			want: []string{"/a cpu.cfs_quota_us kubelet 250000", "/a/b cpu.cfs_quota_us kubelet 100000", "/a/b cpu.cfs_period_us kubelet 50000", "/a/b/c cpu.cfs_quota_us kubelet 200000"},
			have: []string{"/a cpu.cfs_quota_us 250000", "/a cpu.cfs_period_us 100000", "/a/b cpu.cfs_quota_us 200000", "/a/b cpu.cfs_period_us 100000", "/a/b/c cpu.cfs_quota_us 200000", "/a/b/c cpu.cfs_period_us 100000"},
			ops:  []string{"narrow /a/b cpu.cfs_quota_us 200000 -> -1", "narrow /a/b cpu.cfs_period_us 100000 -> 50000", "narrow /a/b cpu.cfs_quota_us -1 -> 100000"},
		},
		"cpusets that move: both in between": {
			want: []string{"/a cpuset.cpus kubelet 2-3", "/a/b cpuset.cpus kubelet 2"},
			have: []string{"/a cpuset.cpus 0-1", "/a/b cpuset.cpus 1"},
			ops:  []string{"widen /a cpuset.cpus 0-1 -> 0-3", "widen /a/b cpuset.cpus 1 -> 2", "narrow /a cpuset.cpus 0-3 -> 2-3"},
		},
		"weights and switches": {
			want: []string{"/a io.weight nobody default 50", "/a cpu.weight kubelet 79", "/a memory.oom.group runtime 1"},
			have: []string{"/a io.weight default 100\n8:16 200", "/a cpu.weight 80", "/a memory.oom.group 0"},
			ops:  []string{"widen /a cpu.weight 80 -> 79", "widen /a io.weight default 100\n8:16 200 -> default 50", "widen /a memory.oom.group 0 -> 1"},
		},
		"Tune": {
			want: []string{"/a io.weight nobody default 50", "/a cpu.weight kubelet 79", "/a memory.oom.group runtime 1"},
			have: []string{"/a io.weight default 100", "/a cpu.weight 80", "/a memory.oom.group 0"},
			mode: v1alpha1.NodeModeTune,
			ops:  []string{"widen /a io.weight default 100 -> default 50"}, reasons: []string{"/a cpu.weight Owned", "/a memory.oom.group Owned"},
		},
		"Observe": {
			want: []string{"/a io.weight nobody default 50"}, have: []string{"/a io.weight default 100"},
			mode: v1alpha1.NodeModeObserve, reasons: []string{"/a io.weight Observe"},
		},
		"a mode that nobody knows writes nothing": {
			want: []string{"/a io.weight nobody default 50"}, have: []string{"/a io.weight default 100"},
			mode: "Later", reasons: []string{"/a io.weight Observe"},
		},
		"given up": {
			want: []string{"/a io.weight nobody default 50", "/b io.weight nobody default 50"}, have: []string{"/a io.weight default 100", "/b io.weight default 100"},
			options: drift.Options{GivenUp: func(path, _ string) bool { return path == "/a" }},
			ops:     []string{"widen /b io.weight default 100 -> default 50"}, reasons: []string{"/a io.weight Rival"},
		},
		"not what a kernel prints": {
			want: []string{"/a memory.max nobody 4096", "/b memory.max nobody plenty", "/c cpu.max nobody max 0", "/d cpuset.cpus nobody 0-99999999999"},
			have: []string{"/a memory.max ", "/b memory.max max", "/c cpu.max max 100000", "/d cpuset.cpus 0"},
			reasons: []string{
				`/a memory.max Unreadable read "" as memory.max: strconv.ParseUint: parsing "": invalid syntax`,
				`/b memory.max Unreadable read "plenty" as memory.max: strconv.ParseUint: parsing "plenty": invalid syntax`,
				`/c cpu.max Unreadable read "max 0" as cpu.max: a period of 0`,
				`/d cpuset.cpus Unreadable read "0-99999999999" as cpuset.cpus: number "99999999999" is not below 65536`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.mode == "" {
				tc.mode = v1alpha1.NodeModeRepair
			}
			got := drift.Diff(diffTree(tc.want...), diffHave(tc.have...), tc.mode, tc.options)
			if diff := cmp.Diff(tc.ops, diffOps(got.Operations)); diff != "" {
				t.Errorf("operations (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.reasons, diffReasons(got.Drift)); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

// Both are the same to the kernel, or they are not.
func TestDiffKnowsWhatTheKernelPrints(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		file, want, have string
		same             bool
	}{
		{"cpu.max", "max", "max 100000", true},
		{"cpu.max", "max 100000", "max 50000", true}, // a period without a quota means nothing
		{"cpu.max", "25000", "25000 100000", true},
		{"cpu.max", "25000 100000", "50000 200000", false},
		{"cpu.cfs_quota_us", "-1", "-1", true},
		{"cpu.cfs_quota_us", "-1", "25000", false},
		{"io.weight", "100", "default 100", true},
		{"io.weight", "default 100", "default 100\n8:0 50", true},
		{"io.weight", "default 100", "default 101", false},
		{"blkio.bfq.weight", "100", "100", true},
		{"memory.high", "4097", "4096", true},
		{"memory.high", "8191", "4096", true},
		{"memory.high", "8192", "4096", false},
		{"memory.max", "max", "0", false},
		{"memory.limit_in_bytes", "-1", "9223372036854771712", true},
		{"memory.limit_in_bytes", "9223372036854775807", "9223372036854710272", true}, // pages of 64 KiB
		{"hugetlb.2MB.limit_in_bytes", "4611686018427387904", "4611686018427387904", true},
		{"hugetlb.2MB.limit_in_bytes", "4611686018427387904", "9223372036853727232", false},
		{"hugetlb.1GB.limit_in_bytes", "-1", "9223372035781033984", true},
		{"hugetlb.2MB.max", "2097153", "2097152", true},
		{"hugetlb.64KB.rsvd.max", "65536", "0", false},
		{"cpuset.cpus", "0-1,3", "0,1,3", true},
		{"cpuset.cpus", "0-1,3", "0-3", false},
		{"cpuset.mems", "", "0", false},
		{"pids.max", "max", "max", true},
		{"memory.oom.group", "1", "0", false},
		{"some.other", "a  b", "a b", true},
	} {
		got := drift.Diff(diffTree("/a "+tc.file+" nobody "+tc.want), diffHave("/a "+tc.file+" "+tc.have), v1alpha1.NodeModeRepair, drift.Options{})
		if same := len(got.Drift) == 0; same != tc.same {
			t.Errorf("%s: want %q, have %q: same %t, should be %t", tc.file, tc.want, tc.have, same, tc.same)
		}
		if len(got.Operations) != len(got.Drift) {
			t.Errorf("%s: want %q, have %q: operations %v", tc.file, tc.want, tc.have, diffOps(got.Operations))
		}
	}
}

func TestDiffMissingAndUnavailable(t *testing.T) {
	t.Parallel()
	got := drift.Diff(diffTree("/a io.weight nobody 50", "/a memory.max nobody max", "/gone memory.max nobody max"), diffHave("/a memory.max max"), v1alpha1.NodeModeRepair, drift.Options{})
	where := func(path string) drift.Where {
		return drift.Where{Path: path, Level: plan.LevelPod, Pod: types.NamespacedName{Namespace: "ns", Name: "p"}}
	}
	want := drift.Difference{Missing: []drift.Where{where("/gone")}, Unavailable: []drift.File{{Where: where("/a"), File: "io.weight"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDriftString(t *testing.T) {
	t.Parallel()
	got := drift.Diff(diffTree("/a memory.max nobody 4096"), diffHave("/a memory.max max", "/a usage 8192"), v1alpha1.NodeModeRepair, drift.Options{})
	want := `memory.max of pod ns/p is "max" and should be "4096" (owner: nobody); not written: the limit would fall under what is used now: 8192 bytes`
	if s := got.Drift[0].String(); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

func TestProcessOperations(t *testing.T) {
	t.Parallel()
	tree := &plan.Tree{Processes: []plan.Process{
		{Path: "/a", Container: "a", OOMScoreAdj: 900, Owner: plan.Nobody},
		{Path: "/b", Container: "b", OOMScoreAdj: -997, Owner: plan.Runtime},
		{Path: "/gone", OOMScoreAdj: 1000},
	}}
	have := map[string]map[int]int{"/a": {7: 1000, 5: 900, 6: 1000}, "/b": {9: 0, 8: 500}, "/other": {1: 1}}
	ops := func(got drift.ProcessDifference) (out []string) {
		for _, op := range got.Operations {
			out = append(out, fmt.Sprintf("%s %d %d -> %d", op.Path, op.PID, op.From, op.To))
		}
		return out
	}
	for _, tc := range []struct {
		mode           v1alpha1.NodeMode
		givenUp        string
		ops, withholds []string
	}{
		{mode: v1alpha1.NodeModeRepair, ops: []string{"/a 6 1000 -> 900", "/a 7 1000 -> 900", "/b 8 500 -> -997", "/b 9 0 -> -997"}},
		{mode: v1alpha1.NodeModeRepair, givenUp: "/b", ops: []string{"/a 6 1000 -> 900", "/a 7 1000 -> 900"}, withholds: []string{"/b oom_score_adj Rival", "/b oom_score_adj Rival"}},
		{mode: v1alpha1.NodeModeTune, ops: []string{"/a 6 1000 -> 900", "/a 7 1000 -> 900"}, withholds: []string{"/b oom_score_adj Owned", "/b oom_score_adj Owned"}},
		{mode: v1alpha1.NodeModeObserve, withholds: []string{"/a oom_score_adj Observe", "/b oom_score_adj Observe", "/b oom_score_adj Observe"}},
	} {
		got := drift.ProcessOperations(tree, have, tc.mode, drift.Options{GivenUp: func(path, _ string) bool { return path == tc.givenUp }})
		if diff := cmp.Diff(tc.ops, ops(got)); diff != "" {
			t.Errorf("%s: operations (-want +got):\n%s", tc.mode, diff)
		}
		if diff := cmp.Diff(tc.withholds, diffReasons(got.Drift)); diff != "" {
			t.Errorf("%s: reasons (-want +got):\n%s", tc.mode, diff)
		}
	}
}

// What another version of the runtime writes is no drift; a third value is.
func TestDiffAlso(t *testing.T) {
	tree := &plan.Tree{Groups: []plan.Group{{Path: "/c", Level: plan.LevelContainer, Files: map[string]plan.Value{
		"cpu.max": {Want: "16000 100000", Also: "15500 100000", Owner: plan.Runtime},
	}}}}
	for have, want := range map[string]bool{"16000 100000": false, "15500 100000": false, "15000 100000": true} {
		d := drift.Diff(tree, drift.Have{"/c": {Files: map[string]string{"cpu.max": have}, MemoryUsage: -1}}, v1alpha1.NodeModeRepair, drift.Options{})
		if got := len(d.Drift) > 0; got != want {
			t.Errorf("%s: drift %v", have, d.Drift)
		}
	}
}

// Of a value that the runtime's version decides either is right, and a third one is told in every mode and written in none.
func TestDiffPerRuntime(t *testing.T) {
	tree := &plan.Tree{Groups: []plan.Group{{Path: "/p", Level: plan.LevelContainer, Files: map[string]plan.Value{
		"cpu.weight": {Want: "17", Also: "4", PerRuntime: true, Owner: plan.Runtime},
	}}}}
	for have, drifts := range map[string]int{"17": 0, "4": 0, "100": 1} {
		for mode, why := range map[v1alpha1.NodeMode]drift.Why{v1alpha1.NodeModeObserve: drift.WhyObserve, v1alpha1.NodeModeTune: drift.WhyOwned, v1alpha1.NodeModeRepair: drift.WhyFormula} {
			got := drift.Diff(tree, diffHave("/p cpu.weight "+have), mode, drift.Options{})
			if len(got.Drift) != drifts || len(got.Operations) > 0 || drifts > 0 && got.Drift[0].Why != why {
				t.Errorf("%s in %s: drift %v, operations %v", have, mode, got.Drift, got.Operations)
			}
		}
	}
}
