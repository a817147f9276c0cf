package drift

import (
	"maps"
	"slices"
	"strconv"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// fileOOMScoreAdj is the name of a process's value, as /proc has it.
const fileOOMScoreAdj = "oom_score_adj"

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
		if why == "" && options.GivenUp != nil && options.GivenUp(p.Path, fileOOMScoreAdj) {
			why = WhyRival
		}
		told := map[int]bool{p.OOMScoreAdj: true}
		for _, pid := range slices.Sorted(maps.Keys(have[p.Path])) {
			is := have[p.Path][pid]
			if is == p.OOMScoreAdj {
				continue
			}
			drift := Drift{Where: where, File: fileOOMScoreAdj, Have: strconv.Itoa(is), Want: strconv.Itoa(p.OOMScoreAdj), Owner: p.Owner, Why: why}
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
