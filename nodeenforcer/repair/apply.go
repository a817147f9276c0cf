package repair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// apply performs the operations in their order. A failed one holds back only those that depend on it (drift.Operation.DependsOn), so that a
// file near the root that can never be written does not block everything below it.
func (e *Enforcer) apply(ctx context.Context, r *Round) error {
	ops := r.Diff.Operations
	if r.unanswered {
		ops = nil
	}
	var errs []error
	var failed []drift.Operation
	processes := r.Processes.Operations
	if err := e.note(ops, processes); err != nil { // what is not in the ledger could not be restored: it is not written, nor what depends on it
		errs = append(errs, err)
		failed = slices.DeleteFunc(slices.Clone(ops), func(op drift.Operation) bool { return op.Owner != plan.Nobody })
		ops = slices.DeleteFunc(slices.Clone(ops), func(op drift.Operation) bool { return op.Owner == plan.Nobody })
		processes = slices.DeleteFunc(slices.Clone(processes), func(op drift.ProcessOperation) bool { return op.Owner == plan.Nobody })
	}
	var gone []string
	for run := range runs(ops) {
		path := run[0].Path
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if slices.ContainsFunc(gone, func(above string) bool { return strings.HasPrefix(path+"/", above+"/") }) {
			continue // the pod ended, and the cgroups below are gone with it
		}
		var err error
		if failed, err = e.write(ctx, r, run, failed); errors.Is(err, cgroup.ErrGone) {
			gone = append(gone, path)
		} else {
			errs = append(errs, err)
		}
		if errors.Is(err, cgroup.ErrUnanswered) {
			break // each further unit would be waited for as long; the next round tries again
		}
	}
	return errors.Join(append(errs, e.adjust(ctx, r, processes))...)
}

// write performs those operations on one group that do not depend on a failed one, and returns all failed ones, its own included.
func (e *Enforcer) write(ctx context.Context, r *Round, ops, failed []drift.Operation) ([]drift.Operation, error) {
	var free []drift.Operation
	var files []cgroup.File
	for _, op := range ops {
		if slices.ContainsFunc(failed, op.DependsOn) {
			failed = append(failed, op)
			continue
		}
		free, files = append(free, op), append(files, cgroup.File{Name: op.File, Value: op.To})
	}
	if len(free) == 0 {
		return failed, nil
	}
	_, err := e.Cgroups.Write(ctx, free[0].Path, files)
	switch {
	case err == nil:
		r.Written = append(r.Written, free...)
		for _, op := range free {
			e.Rivals.Wrote(op)
		}
	case errors.Is(err, cgroup.ErrGone) || errors.Is(err, cgroup.ErrUnanswered) || ctx.Err() != nil:
	case len(free) == 1:
		return append(failed, free[0]), fmt.Errorf("%s: %w", free[0].Where, err)
	default:
		return e.writeEach(ctx, r, free, failed)
	}
	return failed, err
}

// writeEach performs the operations one by one, to find those that the kernel refuses. A file that holds its value already is not written
// again.
func (e *Enforcer) writeEach(ctx context.Context, r *Round, ops, failed []drift.Operation) ([]drift.Operation, error) {
	var errs []error
	for i := range ops {
		var err error
		if failed, err = e.write(ctx, r, ops[i:i+1], failed); errors.Is(err, cgroup.ErrGone) {
			return failed, err
		}
		errs = append(errs, err)
	}
	return failed, errors.Join(errs...)
}

// adjust sets oom_score_adj of processes, those of a container together. One that has ended meanwhile is no error.
func (e *Enforcer) adjust(ctx context.Context, r *Round, ops []drift.ProcessOperation) error {
	var errs []error
	for len(ops) > 0 {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		byPID, pids := map[int]drift.ProcessOperation{}, []int(nil)
		first := ops[0]
		for ; len(ops) > 0 && ops[0].Path == first.Path; ops = ops[1:] {
			byPID[ops[0].PID], pids = ops[0], append(pids, ops[0].PID)
		}
		written, err := cgroup.SetOOMScoreAdj(e.ProcRoot, e.Cgroups, first.Path, pids, first.To)
		if err != nil && !errors.Is(err, cgroup.ErrGone) {
			errs = append(errs, fmt.Errorf("%s: %w", first.Where, err))
		}
		for _, pid := range written {
			op := byPID[pid]
			e.Rivals.WroteProcess(op)
			r.Written = append(r.Written, drift.Operation{Where: op.Where, File: plan.OOMScoreFile, From: strconv.Itoa(op.From), To: strconv.Itoa(op.To), Owner: op.Owner})
		}
	}
	return errors.Join(errs...)
}

// runs groups consecutive operations on the same cgroup: the properties of a systemd unit are set in one call.
func runs(ops []drift.Operation) func(yield func([]drift.Operation) bool) {
	return func(yield func([]drift.Operation) bool) {
		for len(ops) > 0 {
			n := 1
			for n < len(ops) && ops[n].Path == ops[0].Path {
				n++
			}
			if !yield(ops[:n]) {
				return
			}
			ops = ops[n:]
		}
	}
}
