package repair

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// Undo remembers what a policy made us write into files that nobody else owns, so that a policy that is changed or deleted leaves
// nothing behind. It outlives the enforcer in a file, but not the machine, as cgroups don't either.
type Undo struct {
	// File to keep it in, on a tmpfs such as /run; empty: it is forgotten with the process.
	File string

	loaded  bool
	dirty   bool
	entries map[undoKey]undoEntry
}

type undoKey struct{ Path, File string }

// undoEntry is what a file held before we wrote it first, and what we wrote last.
type undoEntry struct{ Was, Wrote string }

// stored is an entry as it is kept.
type stored struct {
	undoKey
	undoEntry
}

// fileOOMScoreAdj stands for the processes of a container.
const fileOOMScoreAdj = "oom_score_adj"

// load reads the file at the first use. One that can't be read is told once and begun anew.
func (u *Undo) load() error {
	if u.loaded {
		return nil
	}
	u.loaded, u.entries = true, map[undoKey]undoEntry{}
	if u.File == "" {
		return nil
	}
	text, err := os.ReadFile(u.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var list []stored
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return fmt.Errorf("read what was written before: %w", err)
	}
	for _, s := range list {
		u.entries[s.undoKey] = s.undoEntry
	}
	return nil
}

// note remembers writes of files that nobody else owns, before they are done: what is not noted can't be undone.
func (u *Undo) note(ops []drift.Operation, processes []drift.ProcessOperation) error {
	if u == nil {
		return nil
	}
	err := u.load()
	for _, op := range ops {
		u.noteOne(undoKey{op.Path, op.File}, op.Owner, op.From, op.To)
	}
	for _, op := range processes {
		u.noteOne(undoKey{op.Path, fileOOMScoreAdj}, op.Owner, fmt.Sprint(op.From), fmt.Sprint(op.To))
	}
	return errors.Join(err, u.save())
}

func (u *Undo) noteOne(key undoKey, owner plan.Owner, from, to string) {
	if owner != plan.Nobody {
		return
	}
	entry, known := u.entries[key]
	if known && entry.Wrote == to {
		return
	}
	if !known {
		entry.Was = from
	}
	entry.Wrote, u.dirty = to, true
	u.entries[key] = entry
}

func (u *Undo) save() error {
	if !u.dirty || u.File == "" {
		return nil
	}
	list := make([]stored, 0, len(u.entries))
	for key, entry := range u.entries {
		list = append(list, stored{key, entry})
	}
	slices.SortFunc(list, func(a, b stored) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.File, b.File)) })
	text, err := json.Marshal(list)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(u.File), 0o700)
	}
	if err == nil {
		err = renameio.WriteFile(u.File, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep what was written, to undo it: %w", err)
	}
	u.dirty = false
	return nil
}

// leftovers are the entries that the plan does not ask for any more, and what to write: what the plan wants there as somebody else's,
// else what was there before. In the order of paths, the groups below first.
func (u *Undo) leftovers(tree *plan.Tree) []drift.Operation {
	groups, processes := map[string]*plan.Group{}, map[string]plan.Process{}
	for i := range tree.Groups {
		groups[tree.Groups[i].Path] = &tree.Groups[i]
	}
	for _, p := range tree.Processes {
		processes[p.Path] = p
	}
	var out []drift.Operation
	for _, key := range slices.SortedFunc(maps.Keys(u.entries), func(a, b undoKey) int {
		return cmp.Or(cmp.Compare(b.Path, a.Path), cmp.Compare(a.File, b.File))
	}) {
		entry := u.entries[key]
		op := drift.Operation{Where: drift.Where{Path: key.Path}, File: key.File, From: entry.Wrote, To: entry.Was}
		if g := groups[key.Path]; g != nil {
			op.Where = drift.Where{Path: g.Path, Level: g.Level, Pod: g.Pod, Container: g.Container}
			if v, planned := g.Files[key.File]; planned {
				op.To, op.Owner = v.Want, v.Owner
			}
		}
		if p, planned := processes[key.Path]; planned && key.File == fileOOMScoreAdj {
			op.To, op.Owner = fmt.Sprint(p.OOMScoreAdj), p.Owner
		}
		if op.Owner != plan.Nobody {
			out = append(out, op)
		}
	}
	return out
}

// takeBack undoes what the plan does not ask for any more, in whatever mode: it is our own writing. A file that holds something
// else by now is somebody else's.
func (e *Enforcer) takeBack(ctx context.Context, r *Round) error {
	errs := []error{e.Undo.load()}
	for _, op := range e.Undo.leftovers(r.Tree) {
		if e.Contained != nil && e.Contained(op.Path) {
			continue
		}
		done, err := e.takeBackOne(ctx, op)
		if err != nil && !errors.Is(err, cgroup.ErrGone) && !errors.Is(err, cgroup.ErrNoFile) {
			errs = append(errs, fmt.Errorf("undo %s of %s: %w", op.File, op.Path, err))
			continue
		}
		if done {
			r.Written = append(r.Written, op)
		}
		delete(e.Undo.entries, undoKey{op.Path, op.File})
		e.Undo.dirty = true
	}
	return errors.Join(append(errs, e.Undo.save())...)
}

func (e *Enforcer) takeBackOne(ctx context.Context, op drift.Operation) (done bool, err error) {
	if op.File == fileOOMScoreAdj {
		of, err := e.adjustments(op.Path)
		for pid, is := range of {
			if fmt.Sprint(is) != op.From {
				continue
			}
			var to int
			if _, scanErr := fmt.Sscan(op.To, &to); scanErr != nil {
				return done, scanErr
			}
			written, writeErr := cgroup.SetOOMScoreAdj(e.ProcRoot, e.Cgroups, op.Path, pid, to)
			if writeErr != nil && !errors.Is(writeErr, cgroup.ErrGone) {
				err = errors.Join(err, writeErr)
			}
			done = done || written
		}
		return done, err
	}
	files, err := e.Cgroups.Read(op.Path, op.File)
	if err != nil || files[op.File] != op.From {
		return false, err
	}
	n, err := e.Cgroups.Write(ctx, op.Path, []cgroup.File{{Name: op.File, Value: op.To}})
	return n > 0, err
}
