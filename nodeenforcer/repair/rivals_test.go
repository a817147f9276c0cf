package repair

import (
	"slices"
	"testing"
	"time"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// The kubelet writes a pod's cpu.weight once a minute, say: it is told once, left alone, and remembered through partial rounds.
func TestRoundGivesUp(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "cpu=100m"), statetest.Pod("b", "cpu=100m")).make(statetest.AsPlanned)
	a := b.Path("a", "")
	b.Cgroups.Revert(a, "cpu.weight", "77", -1)
	b.Cgroups.Set(a, "cpu.weight", "77")
	told, wrote := 0, 0
	for range 10 {
		b.Clock.Step(time.Minute)
		r, writes := b.mustRound(true)
		wrote += len(writes)
		told += len(r.Reverts)
	}
	if told != 1 || wrote != drift.RivalLimit {
		t.Errorf("told %d times, written %d times", told, wrote)
	}
	for i, cpu := range []string{"200m", "300m", "400m"} {
		b.Clock.Step(time.Minute)
		b.Pods[1] = statetest.Pod("b", "cpu="+cpu)
		if r, writes := b.mustRound(false); r.Full || slices.ContainsFunc(writes, func(w cgrouptest.Written) bool { return w.Path == a }) {
			t.Errorf("partial round %d: full %v, wrote %v", i, r.Full, writes)
		}
	}
	r, writes := b.mustRound(true)
	of := slices.DeleteFunc(slices.Clone(r.Diff.Drift), func(d drift.Drift) bool { return d.Path != a })
	if len(writes)+len(r.Reverts) > 0 || len(of) != 1 || of[0].Why != drift.WhyRival {
		t.Errorf("wrote %v, told %v, drift %v", writes, r.Reverts, r.Diff.Drift)
	}
}

// The same for a process whose value somebody keeps putting back.
func TestRoundGivesUpProcesses(t *testing.T) {
	b := newBed(t, statetest.Pod("a")).make(statetest.AsPlanned)
	a := b.Path("a", "c")
	b.Process(a, 7, 0)
	told, wrote := 0, 0
	for range 10 {
		b.Clock.Step(time.Minute)
		r, _ := b.mustRound(true)
		wrote += len(r.Written)
		told += len(r.Reverts)
		b.SetAdj(7, 0)
		b.mustRound(false)
	}
	if told != 1 || wrote != drift.RivalLimit {
		t.Errorf("told %d times, written %d times", told, wrote)
	}
	if r, _ := b.mustRound(true); len(r.Processes.Drift) != 1 || r.Processes.Drift[0].Why != drift.WhyRival || len(r.Written) > 0 {
		t.Errorf("drift %v, wrote %v", r.Processes.Drift, r.Written)
	}
}

// Whoever starts processes must not make a round longer for others: of one container and in one round so many are written, and who was not
// looked at in one is in the next.
func TestRoundBoundsProcesses(t *testing.T) {
	b := newBed(t, statetest.Pod("a"), statetest.Pod("z")).make(statetest.AsPlanned)
	for pid := 10; pid < 10+maxProcessesOfContainer+100; pid++ {
		b.Process(b.Path("a", "c"), pid, 0)
	}
	b.Process(b.Path("z", "c"), 7, 0)
	r, _ := b.mustRound(true)
	if len(r.Written) != maxProcessesOfContainer+1 {
		t.Errorf("wrote %d", len(r.Written))
	}
}
