package repair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// note records writes to files that nobody else owns in the ledger, before they are made: only so can they be undone when a policy is
// changed or deleted.
func (e *Enforcer) note(ops []drift.Operation, processes []drift.ProcessOperation) error {
	if e.Undo == nil || len(ops)+len(processes) == 0 {
		return nil
	}
	list, err := e.Undo.All()
	entries := make(map[ledger.Key]ledger.Entry, len(list))
	for _, entry := range list {
		entries[entry.Key] = entry
	}
	var news []ledger.Entry
	noted := func(path, file string, owner plan.Owner, from, to string) {
		if owner != plan.Nobody {
			return
		}
		key := ledger.Key{Path: path, File: file}
		entry, ok := entries[key]
		if !ok {
			entry = ledger.Entry{Key: key, Was: from}
		}
		entry.Wrote = to
		entries[key] = entry
		news = append(news, entry)
	}
	for _, op := range ops {
		noted(op.Path, op.File, op.Owner, op.From, op.To)
	}
	for _, op := range processes {
		noted(op.Path, plan.OOMScoreFile, op.Owner, fmt.Sprint(op.From), fmt.Sprint(op.To))
	}
	return errors.Join(err, e.Undo.Put(news...))
}

// leftovers are operations for the entries that the plan does not ask for any more. They write the value that the plan has for the file's
// regular owner, nothing into files that it keeps, else the value from before our first write. They are ordered by path, descendants first.
func leftovers(entries []ledger.Entry, tree *plan.Tree) []drift.Operation {
	groups, processes := map[string]*plan.Group{}, map[string]plan.Process{}
	for i := range tree.Groups {
		groups[tree.Groups[i].Path] = &tree.Groups[i]
	}
	for _, p := range tree.Processes {
		processes[p.Path] = p
	}
	var out []drift.Operation
	slices.SortFunc(entries, func(a, b ledger.Entry) int { return cmp.Or(cmp.Compare(b.Path, a.Path), cmp.Compare(a.File, b.File)) })
	for _, entry := range entries {
		key := entry.Key
		op := drift.Operation{Where: drift.Where{Path: key.Path}, File: key.File, From: entry.Wrote, To: entry.Was}
		if g := groups[key.Path]; g != nil {
			op.Where = drift.Where{Path: g.Path, Level: g.Level, Pod: g.Pod, Container: g.Container}
			if slices.Contains(g.Kept, key.File) {
				continue
			}
			if v, ok := g.Files[key.File]; ok {
				op.To, op.Owner = v.Want, v.Owner
			}
		}
		if p, ok := processes[key.Path]; ok && key.File == plan.OOMScoreFile {
			op.To, op.Owner = fmt.Sprint(p.OOMScoreAdj), p.Owner
		}
		if op.Owner != plan.Nobody {
			out = append(out, op)
		}
	}
	return out
}

// takeBack undoes our writes that the plan does not ask for any more, in any mode. A file that holds another value by now was written by
// somebody else since, and is left alone.
func (e *Enforcer) takeBack(ctx context.Context, r *Round) error {
	entries, err := e.Undo.All()
	errs := []error{err}
	var over []ledger.Key
	for _, op := range leftovers(entries, r.Tree) {
		if e.Contained != nil && e.Contained(op.Path) {
			continue
		}
		done, err := e.takeBackOne(ctx, op)
		if err != nil && !errors.Is(err, cgroup.ErrGone) && !errors.Is(err, cgroup.ErrNoFile) {
			errs = append(errs, fmt.Errorf("undo %s of %s: %w", op.File, op.Path, err))
			if errors.Is(err, cgroup.ErrUnanswered) {
				r.unanswered = true
				break
			}
			continue
		}
		if done {
			r.Written = append(r.Written, op)
		}
		over = append(over, ledger.Key{Path: op.Path, File: op.File})
	}
	return errors.Join(append(errs, e.Undo.Drop(over...))...)
}

func (e *Enforcer) takeBackOne(ctx context.Context, op drift.Operation) (done bool, err error) {
	if op.File == plan.OOMScoreFile {
		to, err := strconv.Atoi(op.To)
		if err != nil {
			return false, err
		}
		of, err := e.adjustments(op.Path)
		maps.DeleteFunc(of, func(_, adj int) bool { return strconv.Itoa(adj) != op.From })
		written, writeErr := cgroup.SetOOMScoreAdj(e.ProcRoot, e.Cgroups, op.Path, slices.Sorted(maps.Keys(of)), to)
		return len(written) > 0, errors.Join(err, writeErr)
	}
	entry := ledger.Entry{Key: ledger.Key{Path: op.Path, File: op.File}, Wrote: op.From}
	return entry.Restore(ctx, e.Cgroups, op.To)
}
