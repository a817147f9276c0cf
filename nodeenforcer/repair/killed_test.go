package repair

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// mortal is a tree whose writer is killed when it is about to write once more than it may.
type mortal struct {
	*cgrouptest.Fake
	left int
}

// sigkill is what mortal panics with.
type sigkill struct{}

func (m *mortal) Write(ctx context.Context, at string, files []cgroup.File) (written int, err error) {
	for _, file := range files {
		if m.left == 0 {
			panic(sigkill{})
		}
		n, err := m.Fake.Write(ctx, at, []cgroup.File{file})
		m.left -= n
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// process starts an enforcer with this ledger, and returns the tree that it writes to. It is not killed yet.
func (b *bed) process(file string) *mortal {
	m := &mortal{Fake: b.Cgroups, left: -1}
	b.enforcer = &Enforcer{Cgroups: m, ProcRoot: b.ProcRoot, Clock: b.Clock, Rivals: drift.NewRivals(drift.RivalLimit, drift.RivalWindow), Undo: &ledger.Ledger{File: file}}
	return m
}

// killedAfter does a round of a process that is killed after so many writes, and reports whether it was.
func (b *bed) killedAfter(file string, writes int) (killed bool) {
	defer func() {
		if dead := recover(); dead != nil {
			if _, killed = dead.(sigkill); !killed {
				panic(dead)
			}
		}
	}()
	b.process(file).left = writes
	b.mustRound(true)
	return false
}

// An enforcer is killed after any write that applies a policy, and after any write that takes it back. The next process leaves the same values as one that was not killed.
func TestKilledAtEveryWrite(t *testing.T) {
	dir, cases, killed := t.TempDir(), 0, map[string]int{}
	rapid.Check(t, func(r *rapid.T) {
		b := drawBed(t, r)
		policy := b.Policy
		b.Policy = nil
		b.make(statetest.AsPlanned)
		b.mustRound(true) // as the kubelet and the runtime have it
		b.Policy = policy
		for _, g := range b.Tree().Groups { // and what they do not write has the kernel's defaults
			for file, v := range g.Files {
				if _, ok := b.Cgroups.Get(g.Path, file); !ok {
					b.Cgroups.Set(g.Path, file, rapid.SampledFrom([]string{"0", v.Want}).Draw(r, file))
				}
			}
		}
		before := b.snapshot()
		cases++
		file := filepath.Join(dir, fmt.Sprint(cases), "written")

		for range rapid.IntRange(1, 3).Draw(r, "processes that write") {
			if b.killedAfter(file, rapid.IntRange(0, 9).Draw(r, "writes")) {
				killed["while it wrote"]++
			}
		}
		if rapid.Bool().Draw(r, "the policy stays for a round") {
			b.process(file)
			b.mustRound(true)
			if again, _ := b.mustRound(true); len(again.Diff.Operations)+len(again.Processes.Operations) > 0 {
				r.Fatalf("still to do: %v, %v", again.Diff.Operations, again.Processes.Operations)
			}
		}

		b.Policy = nil
		for range rapid.IntRange(0, 3).Draw(r, "processes that take back") {
			if b.killedAfter(file, rapid.IntRange(0, 9).Draw(r, "writes back")) {
				killed["while it took back"]++
			}
		}
		b.process(file)
		b.mustRound(true)
		left, err := b.enforcer.Undo.All()
		b.Policy = policy
		if wrote := differing(before, b.snapshot()); len(wrote) > 0 || len(left) > 0 || err != nil {
			slices.Sort(wrote)
			r.Fatalf("left behind: %v; noted: %v, %v", wrote, left, err)
		}
	})
	t.Logf("killed: %v", killed)
}
