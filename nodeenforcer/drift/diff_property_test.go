package drift_test

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/cpuset"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// diffCase is a plan and what was read, as hostile as they come: any value below any other, files and groups that are not there.
type diffCase struct {
	want *plan.Tree
	have drift.Have
}

// few distinct values, so that equal ones and small steps are frequent.
func drawContent(t *rapid.T, file string) string {
	small := rapid.SampledFrom([]int{0, 1, 2, 3, 5, 8})
	switch {
	case file == "memory.limit_in_bytes" && rapid.IntRange(0, 3).Draw(t, "unlimited") == 0:
		return "9223372036854771712"
	case file == "cpu.max" && rapid.IntRange(0, 3).Draw(t, "unlimited") == 0:
		return "max 100000"
	case file == "cpu.max":
		return fmt.Sprintf("%d %d", 10000*(1+small.Draw(t, "quota")), rapid.SampledFrom([]int{50000, 100000}).Draw(t, "period"))
	case file == "cpu.cfs_quota_us" && rapid.IntRange(0, 3).Draw(t, "unlimited") == 0:
		return "-1"
	case file == "cpu.cfs_quota_us":
		return strconv.Itoa(10000 * (1 + small.Draw(t, "quota")))
	case file == "cpu.cfs_period_us":
		return rapid.SampledFrom([]string{"50000", "100000", "200000"}).Draw(t, "period")
	case file == "cpuset.cpus":
		return cpuset.New(rapid.SliceOfN(rapid.IntRange(0, 3), 1, 3).Draw(t, "cpus")...).String()
	case file == "io.weight":
		return fmt.Sprintf("default %d", 1+small.Draw(t, "weight"))
	case strings.HasPrefix(file, "memory.") && file != "memory.min" && file != "memory.low" && rapid.IntRange(0, 3).Draw(t, "unlimited") == 0:
		return "max"
	default:
		return strconv.Itoa(4096 * small.Draw(t, "pages"))
	}
}

func drawDiffCase(t *rapid.T) diffCase {
	files := []string{"memory.min", "memory.low", "memory.high", "memory.max", "memory.limit_in_bytes", "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpuset.cpus", "io.weight"}
	files = rapid.SliceOfNDistinct(rapid.SampledFrom(files), 1, 4, rapid.ID).Draw(t, "files")
	c := diffCase{want: &plan.Tree{}, have: drift.Have{}}
	var grow func(p string, depth int)
	grow = func(p string, depth int) {
		g := plan.Group{Path: p, Files: map[string]plan.Value{}}
		seen := drift.Observed{Files: map[string]string{}, MemoryUsage: int64(4096*rapid.SampledFrom([]int{0, 0, 1, 2, 4}).Draw(t, "usage") + rapid.IntRange(-1, 1).Draw(t, "off"))}
		for _, file := range files {
			if rapid.IntRange(0, 9).Draw(t, "planned") > 0 {
				g.Files[file] = plan.Value{Want: drawContent(t, file), Owner: rapid.SampledFrom([]plan.Owner{plan.Nobody, plan.Nobody, plan.Kubelet, plan.Runtime}).Draw(t, "owner")}
			}
			switch rapid.IntRange(0, 19).Draw(t, "there") {
			case 0:
			case 1:
				seen.Files[file] = "nonsense"
			default:
				seen.Files[file] = drawContent(t, file)
			}
		}
		if rapid.IntRange(0, 19).Draw(t, "planned") > 0 {
			c.want.Groups = append(c.want.Groups, g)
		}
		if rapid.IntRange(0, 19).Draw(t, "there") > 0 {
			c.have[p] = seen
		}
		for i := range rapid.IntRange(0, 3-depth).Draw(t, "children") {
			grow(fmt.Sprintf("%s/%d", p, i), depth+1)
		}
	}
	grow("/r", 0)
	return c
}

var drawMode = rapid.SampledFrom([]v1alpha1.NodeMode{v1alpha1.NodeModeObserve, v1alpha1.NodeModeTune, v1alpha1.NodeModeRepair, v1alpha1.NodeModeRepair})

func cloneHave(have drift.Have) drift.Have {
	out := drift.Have{}
	for p, o := range have {
		out[p] = drift.Observed{Files: maps.Clone(o.Files), MemoryUsage: o.MemoryUsage}
	}
	return out
}

// number is a limit or a protection in the test's own words: a float, larger is more.
const unlimitedNumber = 1e30

func number(o drift.Observed, file string) (float64, bool) {
	amount := func(s string) (float64, bool) {
		if s == "max" || s == "-1" || s == "9223372036854771712" {
			return unlimitedNumber, true
		}
		n, err := strconv.ParseFloat(s, 64)
		return n, err == nil
	}
	s, ok := o.Files[file]
	if !ok {
		return 0, false
	}
	switch file {
	case "cpu.max":
		f := strings.Fields(s)
		q, ok := amount(f[0])
		if !ok || q == unlimitedNumber {
			return q, ok
		}
		p, ok := amount(f[1])
		return q / p, ok
	case "cpu.cfs_quota_us":
		q, ok := amount(s)
		if !ok || q == unlimitedNumber {
			return q, ok
		}
		period, there := o.Files["cpu.cfs_period_us"]
		if !there {
			period = "100000"
		}
		p, ok := amount(period)
		return q / p, ok
	default:
		return amount(s)
	}
}

// more reports whether a group has more than one above it, of one file.
func more(have drift.Have, child, above, file string) bool {
	if file == "cpuset.cpus" {
		a, errA := cpuset.Parse(have[child].Files[file])
		b, errB := cpuset.Parse(have[above].Files[file])
		_, thereA := have[child].Files[file]
		_, thereB := have[above].Files[file]
		return errA == nil && errB == nil && thereA && thereB && !a.IsSubsetOf(b)
	}
	a, okA := number(have[child], file)
	b, okB := number(have[above], file)
	limit := file != "memory.min" && file != "memory.low"
	return okA && okB && (!limit || a != unlimitedNumber) && a > b*(1+1e-12)
}

// broken lists promises that are broken: a group has more than the nearest one above it with a limit of its own.
func broken(c diffCase, have drift.Have) map[string]bool {
	out := map[string]bool{}
	for _, g := range c.want.Groups {
		for _, file := range []string{"memory.min", "memory.low", "memory.high", "memory.max", "memory.limit_in_bytes", "cpu.max", "cpu.cfs_quota_us", "cpuset.cpus"} {
			above := path.Dir(g.Path)
			for file != "memory.min" && file != "memory.low" {
				if n, ok := number(have[above], file); file == "cpuset.cpus" || !ok || n != unlimitedNumber {
					break
				}
				above = path.Dir(above)
			}
			if _, there := have[g.Path]; there && more(have, g.Path, above, file) {
				out[g.Path+" "+above+" "+file] = true
			}
		}
	}
	return out
}

// brokenPairs lists all groups that have more than any one above them: what a plan says or what was so before.
func brokenPairs(c diffCase, have drift.Have) map[string]bool {
	out := map[string]bool{}
	for _, g := range c.want.Groups {
		for above := path.Dir(g.Path); above != "/"; above = path.Dir(above) {
			for file := range have[g.Path].Files {
				if more(have, g.Path, above, file) {
					out[g.Path+" "+above+" "+file] = true
				}
			}
		}
	}
	return out
}

// planned is what was read with all the plan's values in place.
func (c diffCase) planned() drift.Have {
	out := cloneHave(c.have)
	for _, g := range c.want.Groups {
		for file, v := range g.Files {
			if _, ok := out[g.Path].Files[file]; ok {
				out[g.Path].Files[file] = v.Want
			}
		}
	}
	return out
}

// On the way no promise is broken that was not broken before nor is by the plan, and no limit falls under usage.
func TestDiffKeepsPromisesOnTheWay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawDiffCase(t)
		mode := drawMode.Draw(t, "mode")
		options := drift.Options{BelowUsage: rapid.IntRange(0, 3).Draw(t, "below usage") == 0}
		excused := brokenPairs(c, c.have)
		maps.Copy(excused, brokenPairs(c, c.planned()))
		have := cloneHave(c.have)
		for _, op := range drift.Diff(c.want, c.have, mode, options).Operations {
			if have[op.Path].Files[op.File] != op.From {
				t.Fatalf("%+v: it holds %q", op, have[op.Path].Files[op.File])
			}
			before, known := number(have[op.Path], op.File)
			have[op.Path].Files[op.File] = op.To
			for b := range broken(c, have) {
				if !excused[b] {
					t.Fatalf("after %+v: %s is broken", op, b)
				}
			}
			switch op.File {
			case "memory.max", "memory.high", "memory.limit_in_bytes":
				usage := have[op.Path].MemoryUsage
				if to, _ := number(have[op.Path], op.File); !options.BelowUsage && known && to < before && (usage < 0 || to < float64(usage)) {
					t.Fatalf("%+v: usage is %d", op, usage)
				}
			}
		}
	})
}

// Inside a group the order of min, low, high and max holds on the way, if it holds at both ends.
func TestDiffKeepsTheOrderWithinAGroup(t *testing.T) {
	t.Parallel()
	order := []string{"memory.min", "memory.low", "memory.high", "memory.max"}
	ordered := func(have drift.Have) bool {
		for _, o := range have {
			for i := range order[1:] {
				a, _ := number(o, order[i])
				b, _ := number(o, order[i+1])
				if a > b {
					return false
				}
			}
		}
		return true
	}
	rapid.Check(t, func(t *rapid.T) {
		c := diffCase{want: &plan.Tree{Groups: []plan.Group{{Path: "/r", Files: map[string]plan.Value{}}}}, have: drift.Have{"/r": {Files: map[string]string{}}}}
		pages := rapid.SliceOfN(rapid.IntRange(0, 9), 4, 4)
		is, should := slices.Sorted(slices.Values(pages.Draw(t, "is"))), slices.Sorted(slices.Values(pages.Draw(t, "should")))
		for i, file := range order {
			c.have["/r"].Files[file] = strconv.Itoa(4096 * is[i])
			c.want.Groups[0].Files[file] = plan.Value{Want: strconv.Itoa(4096 * should[i])}
		}
		for _, op := range drift.Diff(c.want, c.have, v1alpha1.NodeModeRepair, drift.Options{}).Operations {
			c.have[op.Path].Files[op.File] = op.To
			if !ordered(c.have) {
				t.Fatalf("after %+v: %v", op, c.have)
			}
		}
	})
}

// After the operations everything is as wanted but for what the drift gives a reason, and there are no operations left.
func TestDiffIsDoneAtOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawDiffCase(t)
		mode := drawMode.Draw(t, "mode")
		first := drift.Diff(c.want, c.have, mode, drift.Options{})
		have := cloneHave(c.have)
		owner := map[string]plan.Owner{}
		for _, g := range c.want.Groups {
			for file, v := range g.Files {
				owner[g.Path+" "+file] = v.Owner
			}
		}
		for _, op := range first.Operations {
			have[op.Path].Files[op.File] = op.To
			if mode == v1alpha1.NodeModeObserve || mode == v1alpha1.NodeModeTune && owner[op.Path+" "+op.File] != plan.Nobody {
				t.Fatalf("mode %s writes %+v", mode, op)
			}
		}
		second := drift.Diff(c.want, have, mode, drift.Options{})
		if len(second.Operations) > 0 {
			t.Fatalf("left after %v: %v", diffOps(first.Operations), diffOps(second.Operations))
		}
		withheld := func(d drift.Difference) (out []string) {
			for _, d := range d.Drift {
				if d.Why != "" {
					out = append(out, d.Path+" "+d.File)
				}
			}
			return out
		}
		if diff := cmp.Diff(withheld(first), withheld(second)); diff != "" || len(second.Drift) != len(withheld(second)) {
			t.Fatalf("reasons (-first +second):\n%s", diff)
		}
		if mode == v1alpha1.NodeModeRepair {
			for _, d := range second.Drift {
				if d.Why == drift.WhyOwned || d.Why == drift.WhyObserve {
					t.Fatalf("Repair leaves %v", d)
				}
			}
		}
	})
}

// With everything readable and unused, Repair reaches the plan.
func TestDiffRepairReachesThePlan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawDiffCase(t)
		for p, o := range c.have {
			o.MemoryUsage = 0
			for file, content := range o.Files {
				if content == "nonsense" {
					o.Files[file] = drawContent(t, file)
				}
			}
			c.have[p] = o
		}
		if got := diffReasons(drift.Diff(c.want, c.have, v1alpha1.NodeModeRepair, drift.Options{}).Drift); len(got) > 0 {
			t.Fatalf("not written: %v", got)
		}
	})
}

func TestDiffIsDeterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawDiffCase(t)
		a := drift.Diff(c.want, c.have, v1alpha1.NodeModeRepair, drift.Options{})
		for range 3 {
			if diff := cmp.Diff(a, drift.Diff(c.want, cloneHave(c.have), v1alpha1.NodeModeRepair, drift.Options{})); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// Whatever a file holds, Diff answers.
func FuzzDiff(f *testing.F) {
	f.Add("memory.max", "max", "4096")
	f.Add("cpu.max", "25000 100000", "max 0")
	f.Add("cpuset.cpus", "0-1,3", "3-1")
	f.Add("hugetlb.2MB.max", "2097152", "-5")
	f.Add("hugetlb.0KB.max", "1", "2")
	f.Add("cpu.cfs_period_us", "100000", "0")
	f.Add("io.weight", "default 100\n8:0 1", "default")
	f.Fuzz(func(t *testing.T, file, want, have string) {
		tree := &plan.Tree{Groups: []plan.Group{{Path: "/a", Files: map[string]plan.Value{file: {Want: want}}}, {Path: "/a/b", Files: map[string]plan.Value{file: {Want: want}}}}}
		seen := drift.Have{"/a": {Files: map[string]string{file: have}}, "/a/b": {Files: map[string]string{file: want}}}
		got := drift.Diff(tree, seen, v1alpha1.NodeModeRepair, drift.Options{})
		for _, op := range got.Operations {
			seen[op.Path].Files[op.File] = op.To
		}
		if again := drift.Diff(tree, seen, v1alpha1.NodeModeRepair, drift.Options{}); len(again.Operations) > 0 {
			t.Fatalf("left: %v", diffOps(again.Operations))
		}
	})
}
