package terminate

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

const (
	fileHigh    = "memory.high"
	fileCurrent = "memory.current"
)

// containPod sets memory.high of the pod to what it uses. The ledger knows before the kernel does.
func (v *victim) containPod(ctx context.Context) Contained {
	files, err := v.t.cgroups.Read(v.path, fileHigh, fileCurrent)
	if err != nil {
		return Contained{Err: fmt.Errorf("contain pod %s: %w", v.ref, err)}
	}
	was, usage := files[fileHigh], files[fileCurrent]
	bytes, err := strconv.ParseInt(usage, 10, 64)
	if was == "" || err != nil {
		return Contained{Err: fmt.Errorf("contain pod %s: %s %q, %s %q: %w", v.ref, fileHigh, was, fileCurrent, usage, cgroup.ErrNoFile)}
	}
	if limit, err := strconv.ParseInt(was, 10, 64); err == nil && limit <= bytes {
		return Contained{}
	}
	entry := Entry{UID: v.ref.UID, Path: v.path, Was: was, Wrote: usage}
	if err := v.t.ledger.Put(entry); err != nil {
		return Contained{Err: err}
	}
	if _, err := v.t.cgroups.Write(ctx, v.path, []cgroup.File{{Name: fileHigh, Value: usage}}); err != nil {
		// The write may have been made: what is not undone here stays in the ledger.
		return Contained{Err: errors.Join(fmt.Errorf("contain pod %s: %w", v.ref, err), v.t.undo(context.WithoutCancel(ctx), entry))}
	}
	return Contained{Was: was, Wrote: usage}
}

// loosen lets a pod that was contained grow by the slack. The ledger knows both limits before the kernel does.
func (v *victim) loosen(ctx context.Context, a Loosen) Loosened {
	files, err := v.t.cgroups.Read(v.path, fileHigh, fileCurrent)
	if errors.Is(err, cgroup.ErrGone) || err == nil && files[fileHigh] != a.Wrote {
		return Loosened{Done: true} // it ended, or somebody else has written it since
	}
	usage, parseErr := strconv.ParseInt(files[fileCurrent], 10, 64)
	if err = errors.Join(err, parseErr); err != nil {
		return Loosened{Err: fmt.Errorf("loosen pod %s: %w", v.ref, err)}
	}
	to, done := looser(a.Was, a.First, a.Wrote, usage, a.Slack)
	if to == "" {
		return Loosened{Done: done}
	}
	if err := v.t.ledger.Put(Entry{UID: v.ref.UID, Path: v.path, Was: a.Was, Wrote: a.Wrote, Then: to}); err != nil {
		return Loosened{Err: err}
	}
	if _, err := v.t.cgroups.Write(ctx, v.path, []cgroup.File{{Name: fileHigh, Value: to}}); err != nil && !errors.Is(err, cgroup.ErrGone) {
		return Loosened{Err: fmt.Errorf("loosen pod %s: %w", v.ref, err)}
	}
	return Loosened{Wrote: to, Done: done}
}

// undo writes what memory.high was, unless somebody else has written it since, and drops the entry.
func (t *Terminator) undo(ctx context.Context, e Entry) error {
	files, err := t.cgroups.Read(e.Path, fileHigh)
	if err == nil && (files[fileHigh] == e.Wrote || e.Then != "" && files[fileHigh] == e.Then) {
		_, err = t.cgroups.Write(ctx, e.Path, []cgroup.File{{Name: fileHigh, Value: e.Was}})
	}
	if err != nil && !errors.Is(err, cgroup.ErrGone) {
		return fmt.Errorf("restore %s of %s: %w", fileHigh, e.Path, err)
	}
	return t.ledger.Drop(e.UID)
}
