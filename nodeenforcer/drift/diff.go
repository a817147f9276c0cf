package drift

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// Options change what Diff does.
type Options struct {
	// PageSize in bytes, to which the kernel rounds amounts of memory down; 0: 4096.
	PageSize int64
	// BelowUsage allows a memory limit below the current usage: the kernel then reclaims, throttles or kills.
	BelowUsage bool
	// GivenUp reports whether a file is given up, because another writer keeps reverting it (Rivals.GivenUp). nil: none.
	GivenUp func(path, file string) bool
	// Resized reports whether the kubelet may have written a pod's files since they were last looked at, by a resize: Rivals does not count that. nil: none.
	Resized func(types.NamespacedName) bool
	// Fresh reports whether a difference is held back, because the file's owner may be about to write it (Settling.Fresh). nil: none.
	Fresh func(Drift) bool
}

// page is the page size in bytes.
func (o Options) page() int64 {
	if o.PageSize <= 0 {
		return 4096
	}
	return o.PageSize
}

// Difference is what differs from the plan, and what to write.
type Difference struct {
	// Operations in the order in which they are to be performed.
	Operations []Operation
	// Drift is all that differs, whether it is written or not, in the order of the tree and of the files' names.
	Drift []Drift
	// Missing groups are planned and do not exist: pods come and go.
	Missing []Where
	// Unavailable files are planned and do not exist: their controller is not enabled.
	Unavailable []File
}

// File is a file of a group.
type File struct {
	Where
	File string
}

// Operation writes one file.
type Operation struct {
	Where
	File     string
	From, To string
	Owner    plan.Owner
	// Step is whether it widens or narrows, which decides its place in the order.
	Step Step
}

// Step is whether an operation raises or lowers a limit or a protection.
type Step string

// The steps, in their order.
const (
	// Widen raises a limit or a protection, ancestors first, or sets a value of which order does not matter, such as a weight.
	Widen Step = "widen"
	// Narrow lowers a limit or a protection, descendants first.
	Narrow Step = "narrow"
)

// Diff compares a plan with what was read and returns what to write. The order is such that at no time a group has a higher limit or
// protection than its ancestors, unless it had before or has by the plan itself; no memory limit falls below the usage. The result is
// deterministic, and once its operations are performed it has none left.
func Diff(want *plan.Tree, have Have, mode v1alpha1.NodeMode, options Options) Difference {
	var out Difference
	var all []*change
	for i := range want.Groups {
		g := &want.Groups[i]
		seen, ok := have[g.Path]
		if !ok {
			out.Missing = append(out.Missing, whereOf(g))
			continue
		}
		for _, file := range slices.Sorted(maps.Keys(g.Files)) {
			content, ok := seen.Files[file]
			switch {
			case !ok:
				out.Unavailable = append(out.Unavailable, File{Where: whereOf(g), File: file})
			case content != g.Files[file].Want:
				if c := compare(g, file, seen, mode, options); c != nil {
					all = append(all, c)
				}
			}
		}
	}
	if len(all) > 0 { // the usual case has no drift, and should cost nothing
		out.Operations = schedule(all, newModel(want, have, options))
	}
	for _, c := range all {
		out.Drift = append(out.Drift, c.Drift)
	}
	return out
}

// change is a file that differs.
type change struct {
	Drift
}

// compare returns the change that a file needs, with the reason if it is not to be written; nil if the actual and the planned value mean the
// same to the kernel.
func compare(g *plan.Group, file string, seen Observed, mode v1alpha1.NodeMode, options Options) *change {
	v := g.Files[file]
	c := &change{Drift{Where: whereOf(g), File: file, Have: seen.Files[file], Want: v.Want, Owner: v.Owner, Every: v.Every}}
	is, err := cgroupfile.Read(file, c.Have, options.page())
	if err != nil {
		c.Why, c.Detail = WhyUnreadable, err.Error()
		return c
	}
	should, err := cgroupfile.Read(file, c.Want, options.page())
	if err != nil {
		c.Why, c.Detail = WhyUnreadable, err.Error()
		return c
	}
	if is.Same(should) || v.Also != "" && means(file, c.Have, v.Also, options.PageSize) {
		return nil
	}
	if c.withhold(is, should, seen.MemoryUsage, mode, options); c.Why == "" && v.PerRuntime {
		c.Why = WhyFormula
	}
	return c
}

// withhold sets the reason why the change is not written, if there is one.
func (c *change) withhold(is, should cgroupfile.Value, usage int64, mode v1alpha1.NodeMode, options Options) {
	c.Why = withholds(mode, c.Owner)
	if c.Why == "" && options.GivenUp != nil && options.GivenUp(c.Path, c.File) {
		c.Why = WhyRival
	}
	if c.Why == "" && usageBound(c.File) && !options.BelowUsage && should.Within(is) {
		c.Why, c.Detail = underUsage(should, usage)
	}
	if c.Why == "" && options.Fresh != nil && options.Fresh(c.Drift) {
		c.Why = WhyFresh
	}
}

// underUsage is the reason why a memory limit can't be lowered now; empty if it can.
func underUsage(should cgroupfile.Value, usage int64) (Why, string) {
	switch {
	case usage < 0:
		return WhyUsageUnknown, ""
	case should.Number < usage:
		return WhyUsage, fmt.Sprintf("%d bytes", usage)
	default:
		return "", ""
	}
}

// usageBound reports whether a limit is on what Observed.MemoryUsage measures. (Usage with swap is at least as much.)
func usageBound(file string) bool {
	switch file {
	case "memory.max", "memory.high", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes":
		return true
	}
	return false
}

// ProcessOperation sets oom_score_adj of one process.
type ProcessOperation struct {
	Where
	PID      int
	From, To int
	Owner    plan.Owner
}

// ProcessDifference is what differs among the processes.
type ProcessDifference struct {
	// Operations in the order of the tree, then of the ids.
	Operations []ProcessOperation
	// Drift has one line for each container and value.
	Drift []Drift
}

// ProcessOperations compares oom_score_adj of the containers' processes with the plan. have is by path of the container's group
// and process id. What is not there is not missed: processes come and go.
func ProcessOperations(want *plan.Tree, have map[string]map[int]int, mode v1alpha1.NodeMode, options Options) ProcessDifference {
	var out ProcessDifference
	for _, p := range want.Processes {
		where := Where{Path: p.Path, Level: plan.LevelContainer, Pod: p.Pod, Container: p.Container}
		why := withholds(mode, p.Owner)
		if why == "" && options.GivenUp != nil && options.GivenUp(p.Path, plan.OOMScoreFile) {
			why = WhyRival
		}
		told := map[int]bool{p.OOMScoreAdj: true}
		for _, pid := range slices.Sorted(maps.Keys(have[p.Path])) {
			is := have[p.Path][pid]
			if is == p.OOMScoreAdj {
				continue
			}
			drift := Drift{Where: where, File: plan.OOMScoreFile, Have: strconv.Itoa(is), Want: strconv.Itoa(p.OOMScoreAdj), Owner: p.Owner, Why: why}
			if why == "" && options.Fresh != nil && options.Fresh(drift) {
				drift.Why = WhyFresh
			}
			if !told[is] {
				told[is] = true
				out.Drift = append(out.Drift, drift)
			}
			if drift.Why == "" {
				out.Operations = append(out.Operations, ProcessOperation{Where: where, PID: pid, From: is, To: p.OOMScoreAdj, Owner: p.Owner})
			}
		}
	}
	return out
}
