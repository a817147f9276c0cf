package terminate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
)

const (
	fileHigh    = "memory.high"
	fileCurrent = "memory.current"
	fileFreeze  = "cgroup.freeze"
)

// containPod sets memory.high of the pod to its usage and some room. The ledger has it before the kernel does.
func (v *victim) containPod(ctx context.Context, room int64) Contained {
	files, err := v.t.cgroups.Read(v.path, fileHigh, fileCurrent)
	if err != nil {
		return Contained{Err: fmt.Errorf("contain pod %s: %w", v.ref, err)}
	}
	was, usage := files[fileHigh], files[fileCurrent]
	bytes, err := strconv.ParseInt(usage, 10, 64)
	if was == "" || err != nil {
		return Contained{Err: fmt.Errorf("contain pod %s: %s %q, %s %q: %w", v.ref, fileHigh, was, fileCurrent, usage, cgroup.ErrNoFile)}
	}
	if limit, err := strconv.ParseInt(was, 10, 64); err == nil && limit <= bytes+room {
		return Contained{}
	}
	usage = strconv.FormatInt(bytes+room, 10)
	high := was
	was = v.t.before(v.entry("", "", "").Key, high)
	entry := v.entry(was, usage, "")
	if was != high { // it holds what was written before, and does so still where the write fails
		entry = v.entry(was, high, usage)
	}
	if err := v.t.ledger.Put(entry); err != nil {
		return Contained{Err: err}
	}
	if _, err := v.t.cgroups.Write(ctx, v.path, []cgroup.File{{Name: fileHigh, Value: usage}}); err != nil {
		// The write may have been made: what can't be restored here stays in the ledger.
		return Contained{Err: errors.Join(fmt.Errorf("contain pod %s: %w", v.ref, err), v.t.undo(context.WithoutCancel(ctx), entry))}
	}
	return Contained{Was: was, Wrote: usage}
}

// loosen raises memory.high of a contained pod by an instalment. The ledger has both limits before the kernel does.
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
	if err := v.t.ledger.Put(v.entry(a.Was, a.Wrote, to)); err != nil {
		return Loosened{Err: err}
	}
	if _, err := v.t.cgroups.Write(ctx, v.path, []cgroup.File{{Name: fileHigh, Value: to}}); err != nil && !errors.Is(err, cgroup.ErrGone) {
		return Loosened{Err: fmt.Errorf("loosen pod %s: %w", v.ref, err)}
	}
	return Loosened{Wrote: to, Done: done}
}

// entry is the ledger's entry for the pod's memory.high.
func (v *victim) entry(was, wrote, then string) ledger.Entry {
	return ledger.Entry{Key: ledger.Key{Path: v.path, File: fileHigh}, Pod: v.ref.UID, Was: was, Wrote: wrote, Then: then}
}

// iceEntry is the ledger's entry for the pod being frozen.
func (v *victim) iceEntry() ledger.Entry {
	return ledger.Entry{Key: ledger.Key{Path: v.path, File: fileFreeze}, Pod: v.ref.UID, Was: "0", Wrote: "1"}
}

// freeze stops the pod's processes. The ledger has it before the kernel does. Only where there is memory.high, so with cgroup v2: with v1 SIGKILL does not end what is frozen.
func (v *victim) freeze(ctx context.Context) Froze {
	failed := func(err error) Froze { return Froze{Err: fmt.Errorf("freeze pod %s: %w", v.ref, err)} }
	files, err := v.t.cgroups.Read(v.path, fileHigh)
	if err != nil {
		return failed(err)
	}
	if files[fileHigh] == "" {
		return failed(cgroup.ErrNoFile)
	}
	if files, err = v.t.cgroups.Read(v.path, fileFreeze); err != nil {
		return failed(err)
	}
	entry := v.iceEntry()
	if files[fileFreeze] == entry.Wrote && !v.t.noted(entry) {
		return failed(errors.New("somebody else has frozen it"))
	}
	if err := v.t.ledger.Put(entry); err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithTimeout(ctx, v.t.limits.Freezing)
	defer cancel()
	err = v.t.cgroups.Freeze(ctx, v.path)
	switch {
	case err == nil:
		return Froze{Asked: true}
	case errors.Is(err, cgroup.ErrGone), errors.Is(err, cgroup.ErrNoFile):
		_ = v.t.ledger.Drop(entry.Key) // as for Forget
		return failed(err)
	}
	froze := failed(err)
	froze.Asked = true
	return froze
}

// thaw has the pod go on.
func (v *victim) thaw(ctx context.Context) error {
	if err := v.t.thaw(ctx, v.path); err != nil {
		return err
	}
	_ = v.t.ledger.Drop(v.iceEntry().Key) // as for Forget
	return nil
}

// aside are signals that come to a process by itself: they stop nothing.
var aside = []unix.Signal{unix.SIGALRM, unix.SIGCHLD, unix.SIGCONT, unix.SIGURG, unix.SIGVTALRM, unix.SIGPROF, unix.SIGWINCH, unix.SIGIO}

// peek looks whether a container's main process was sent a signal. Which one a container is stopped by is not always known (an image may name one), so any counts
// that says something. Processes do not come and go while the pod is frozen, so the main ones are found once. One that can't be read may be dying.
func (v *victim) peek() Peeked {
	mains, err := v.mainProcesses()
	if err != nil || len(mains) == 0 {
		return Peeked{Signalled: true}
	}
	return Peeked{Signalled: slices.ContainsFunc(mains, func(pid int) bool {
		pending, err := v.t.processes.Pending(pid)
		for _, s := range aside {
			pending &^= 1 << (s - 1)
		}
		return err != nil || pending != 0
	})}
}

// mainProcesses are those of the pod's containers.
func (v *victim) mainProcesses() ([]int, error) {
	if v.mains != nil { // one peek at a time
		return v.mains, nil
	}
	var mains []int
	children, err := v.t.cgroups.Children(v.path)
	if err != nil {
		return nil, err
	}
	for _, child := range children {
		if _, ok, err := v.seeContainer(child); err != nil || !ok {
			if err != nil {
				return nil, err
			}
			continue
		}
		pids, err := v.t.cgroups.Processes(v.path + "/" + child)
		if err != nil {
			return nil, err
		}
		pid, ok := v.mainProcess(pids)
		if !ok {
			return nil, ErrNoProcess
		}
		mains = append(mains, pid)
	}
	v.mains = mains
	return mains, nil
}
