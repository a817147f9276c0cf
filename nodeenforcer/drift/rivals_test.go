package drift_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

var rivalStart = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// rivalLoop is the agent's loop on one file: observe, diff, write.
type rivalLoop struct {
	t      *testing.T
	rivals *drift.Rivals
	want   *plan.Tree
	have   drift.Have
	now    time.Time
	writes int
	told   []drift.Revert
}

func newRivalLoop(t *testing.T) *rivalLoop {
	return &rivalLoop{t: t, rivals: drift.NewRivals(3, time.Hour), want: diffTree("/a io.weight nobody default 50"), have: diffHave("/a io.weight default 100"), now: rivalStart}
}

func (l *rivalLoop) turn() {
	l.now = l.now.Add(10 * time.Second)
	options := drift.Options{GivenUp: l.rivals.GivenUp}
	l.told = append(l.told, l.rivals.Observe(l.now, l.want, l.have, options)...)
	for _, op := range drift.Diff(l.want, l.have, v1alpha1.NodeModeTune, options).Operations {
		l.have[op.Path].Files[op.File] = op.To
		l.rivals.Wrote(op)
		l.writes++
	}
}

func (l *rivalLoop) revert() { l.have["/a"].Files["io.weight"] = "default 100" }

func (l *rivalLoop) expect(writes, told int) {
	l.t.Helper()
	if l.writes != writes || len(l.told) != told {
		l.t.Fatalf("%d writes, told %v; want %d and %d", l.writes, l.told, writes, told)
	}
}

// fight lets somebody revert after every third turn.
func (l *rivalLoop) fight(rounds int) {
	for range rounds {
		l.turn()
		l.turn()
		l.turn()
		l.revert()
	}
	l.turn()
}

func TestRivalsGiveUp(t *testing.T) {
	t.Parallel()
	l := newRivalLoop(t)
	l.fight(2)
	l.expect(3, 0)
	l.fight(10)
	l.expect(3, 1) // written, written again twice, and then no more
	if r := l.told[0]; r.Path != "/a" || r.File != "io.weight" || r.Wrote != "default 50" || r.Found != "default 100" || r.Times != 3 || r.Pod.Name != "p" {
		t.Errorf("told %+v", r)
	}
}

func TestRivalsTryAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(l *rivalLoop)
		writes int
	}{
		"the plan changes":               {func(l *rivalLoop) { l.want = diffTree("/a io.weight nobody default 60") }, 6},
		"the plan says the same":         {func(l *rivalLoop) { l.want = diffTree("/a io.weight nobody 50") }, 3},
		"the group is recreated":         {func(l *rivalLoop) { l.have = drift.Have{}; l.turn(); l.have = diffHave("/a io.weight default 100") }, 6},
		"the plan no longer has it":      {func(l *rivalLoop) { w := l.want; l.want = &plan.Tree{}; l.turn(); l.want = w }, 6},
		"the value is there after all":   {func(l *rivalLoop) { l.have["/a"].Files["io.weight"] = "default 50" }, 4},
		"a third one writes other value": {func(l *rivalLoop) { l.have["/a"].Files["io.weight"] = "default 70" }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newRivalLoop(t)
			l.fight(4)
			l.expect(3, 1)
			tc.change(l)
			l.fight(10)
			if l.writes != tc.writes {
				t.Errorf("%d writes, want %d", l.writes, tc.writes)
			}
		})
	}
}

// A hand that changes the file now and then is no rival.
func TestRivalsForgetWhatIsLongAgo(t *testing.T) {
	t.Parallel()
	l := newRivalLoop(t)
	for range 20 {
		l.turn()
		l.revert()
		l.now = l.now.Add(31 * time.Minute)
	}
	l.expect(20, 0)
}

func TestRivalsOfProcesses(t *testing.T) {
	t.Parallel()
	tree := &plan.Tree{Processes: []plan.Process{{Path: "/a", Container: "c", OOMScoreAdj: 900, Started: 1000, Owner: plan.Nobody}}}
	rivals := drift.NewRivals(3, time.Hour)
	have := map[string]map[int]int{}
	writes, told := 0, 0
	turn := func(revert bool) {
		options := drift.Options{GivenUp: rivals.GivenUp}
		// What is read of files does not touch what is known of processes, and the other way round.
		rivals.Observe(rivalStart, tree, drift.Have{}, options)
		told += len(rivals.ObserveProcesses(rivalStart, tree, have))
		for _, op := range drift.ProcessOperations(tree, have, v1alpha1.NodeModeTune, options).Operations {
			writes++
			rivals.WroteProcess(op)
			if !revert {
				have[op.Path][op.PID] = op.To
			}
		}
	}
	for pid := range 10 { // what the runtime starts is no revert
		have["/a"] = map[int]int{pid: 1000}
		turn(false)
		turn(false)
	}
	if writes != 10 || told != 0 {
		t.Fatalf("%d writes, told %d times", writes, told)
	}
	have["/a"] = map[int]int{10: 1000}
	for range 10 {
		turn(true)
	}
	if writes != 13 || told != 1 {
		t.Fatalf("%d writes, told %d times", writes, told)
	}
}

// Processes that live only from one round to the next and set their own value are a rival, as one that lives on is.
func TestRivalsOfShortLivedProcesses(t *testing.T) {
	t.Parallel()
	tree := &plan.Tree{Processes: []plan.Process{{Path: "/a", Container: "c", OOMScoreAdj: 500, Started: 400, Owner: plan.Nobody}}}
	rivals := drift.NewRivals(3, time.Hour)
	writes, told := 0, 0
	for pid := range 50 {
		have := map[string]map[int]int{"/a": {pid: 1000}}
		told += len(rivals.ObserveProcesses(rivalStart.Add(time.Duration(pid)*30*time.Second), tree, have))
		for _, op := range drift.ProcessOperations(tree, have, v1alpha1.NodeModeTune, drift.Options{GivenUp: rivals.GivenUp}).Operations {
			writes++
			rivals.WroteProcess(op)
		}
	}
	if writes != 3 || told != 1 {
		t.Errorf("%d writes, told %d times", writes, told)
	}
}

// What the kubelet writes at a resize is no revert: it does not write it again. What somebody writes afterwards is.
func TestRivalsOfAResizedPod(t *testing.T) {
	pod := types.NamespacedName{Namespace: "shop", Name: "a"}
	where := drift.Where{Path: "/p", Level: plan.LevelPod, Pod: pod}
	tree := &plan.Tree{Groups: []plan.Group{{Path: "/p", Level: plan.LevelPod, Pod: pod, Files: map[string]plan.Value{"cpu.weight": {Want: "300", Owner: plan.Nobody}}}}}
	r, now := drift.NewRivals(2, time.Hour), time.Unix(1000, 0)
	for i, resized := range []bool{true, true, true, false, true, false} {
		r.Wrote(drift.Operation{Where: where, File: "cpu.weight", To: "300"})
		options := drift.Options{Resized: func(name types.NamespacedName) bool { return resized && name == pod }}
		gone := r.Observe(now, tree, diffHave("/p cpu.weight 4"), options)
		if want := i == 5; (len(gone) > 0) != want || r.GivenUp("/p", "cpu.weight") != want {
			t.Errorf("look %d: given up %v", i, gone)
		}
		if again := r.Observe(now, tree, diffHave("/p cpu.weight 4"), drift.Options{}); i < 5 && len(again) > 0 {
			t.Errorf("look %d: counted later, %v", i, again)
		}
	}
}
