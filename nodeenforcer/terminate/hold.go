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

// undo writes what memory.high was, unless somebody else has written it since, and drops the entry.
func (t *Terminator) undo(ctx context.Context, e Entry) error {
	files, err := t.cgroups.Read(e.Path, fileHigh)
	if err == nil && files[fileHigh] == e.Wrote {
		_, err = t.cgroups.Write(ctx, e.Path, []cgroup.File{{Name: fileHigh, Value: e.Was}})
	}
	if err != nil && !errors.Is(err, cgroup.ErrGone) {
		return fmt.Errorf("restore %s of %s: %w", fileHigh, e.Path, err)
	}
	return t.ledger.Drop(e.UID)
}
