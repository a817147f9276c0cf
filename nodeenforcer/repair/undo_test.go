package repair

import (
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// What a policy made us write is taken back when no policy asks for it any more, also by the next process; what somebody else has
// written meanwhile is left, and what is the kubelet's again gets the kubelet's value.
func TestUndo(t *testing.T) {
	cgroups := cgrouptest.NewFake()
	cgroups.Add("/kubepods", map[string]string{"memory.low": "0", "memory.max": "max", "cpu.weight": "79", "io.weight": "default 100"})
	enforcer := func(file string) *Enforcer {
		return &Enforcer{Cgroups: cgroups, ProcRoot: t.TempDir(), Undo: &ledger.Ledger{File: file}}
	}
	files := func(owner plan.Owner, values map[string]string) *plan.Tree {
		g := plan.Group{Path: "/kubepods", Level: plan.LevelKubepods, Files: map[string]plan.Value{}}
		for name, value := range values {
			g.Files[name] = plan.Value{Want: value, Owner: owner}
		}
		return &plan.Tree{Groups: []plan.Group{g}}
	}
	file := filepath.Join(t.TempDir(), "run", "written")
	first := enforcer(file)
	wanted := map[string]string{"memory.low": "4096", "memory.max": "8192", "cpu.weight": "200", "io.weight": "default 300"}
	r := Round{Tree: files(plan.Nobody, wanted)}
	if err := first.takeBack(t.Context(), &r); err != nil || len(r.Written) != 0 {
		t.Fatalf("took back %v, %v", r.Written, err)
	}
	for name, to := range wanted {
		from, _ := cgroups.Get("/kubepods", name)
		r.Diff.Operations = append(r.Diff.Operations, drift.Operation{Where: drift.Where{Path: "/kubepods"}, File: name, From: from, To: to, Owner: plan.Nobody})
	}
	first.Rivals = drift.NewRivals(drift.RivalLimit, drift.RivalWindow)
	if err := first.apply(t.Context(), &r); err != nil {
		t.Fatal(err)
	}

	second := enforcer(file) // the first was killed
	cgroups.Set("/kubepods", "memory.max", "123")
	kept := files(plan.Nobody, map[string]string{"io.weight": "default 300"})
	kept.Groups[0].Files["cpu.weight"] = plan.Value{Want: "80", Owner: plan.Kubelet}
	r = Round{Tree: kept}
	if err := second.takeBack(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memory.low": "0", "memory.max": "123", "cpu.weight": "80", "io.weight": "default 300"} {
		if got, _ := cgroups.Get("/kubepods", name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if len(r.Written) != 2 {
		t.Errorf("took back %v", r.Written)
	}
	cgroups.Remove("/kubepods")
	third := enforcer(file)
	r = Round{Tree: &plan.Tree{}}
	if err := third.takeBack(t.Context(), &r); err != nil {
		t.Error(err)
	}
	if left, err := third.Undo.All(); err != nil || len(left) != 0 {
		t.Errorf("of a group that is gone %v is remembered, %v", left, err)
	}
}

func TestUndoDamaged(t *testing.T) {
	e := &Enforcer{Cgroups: cgrouptest.NewFake(), Undo: &ledger.Ledger{File: statetest.TextFile(t, "{")}}
	if err := e.takeBack(t.Context(), &Round{Tree: &plan.Tree{}}); err == nil {
		t.Error("a damaged file went unnoticed")
	}
	if err := e.takeBack(t.Context(), &Round{Tree: &plan.Tree{}}); err != nil {
		t.Errorf("it is told again: %v", err)
	}
}

// What can't be noted is not written, since nobody could restore it; what has an owner, who does, is.
func TestNotNotedIsNotWritten(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "memory<64Mi")).make(statetest.AsPlanned)
	b.enforcer.Undo = &ledger.Ledger{File: filepath.Join(t.TempDir(), "written")}
	if err := os.Mkdir(b.enforcer.Undo.File+".new", 0o700); err != nil { // in the way
		t.Fatal(err)
	}
	a := b.Path("a", "c")
	b.Cgroups.Set(a, "memory.max", "max")
	r, _ := b.mustRound(true)
	b.Cgroups.Set(a, "memory.max", "max")
	r.Written = nil
	r.Diff.Operations = []drift.Operation{
		{Where: drift.Where{Path: a}, File: "io.weight", From: "default 100", To: "default 300", Owner: plan.Nobody},
		{Where: drift.Where{Path: a}, File: "memory.max", From: "max", To: "67108864", Owner: plan.Runtime},
	}
	b.Cgroups.Set(a, "io.weight", "default 100")
	err := b.enforcer.apply(t.Context(), &r)
	weight, _ := b.Cgroups.Get(a, "io.weight")
	most, _ := b.Cgroups.Get(a, "memory.max")
	if weight != "default 100" || most != "67108864" || err == nil || len(r.Written) != 1 {
		t.Errorf("io.weight %s, memory.max %s, wrote %v: %v", weight, most, r.Written, err)
	}
}

// One pod more, and the requests of the classes above are all that is allocatable: the class that is to yield keeps its limit. It is restored when
// nothing is reserved any more.
func TestReservedKeepsTheLimit(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "cpu<1", "memory<1Gi"), statetest.Pod("low"))
	b.Policy = &v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune, QOSReserved: &v1alpha1.QOSReserved{MemoryPercent: 100}}
	b.Mode = v1alpha1.NodeModeTune
	b.enforcer.Undo = &ledger.Ledger{}
	class := path.Dir(b.Path("low", ""))
	b.make(func(g plan.Group, file string) string {
		if file == "memory.max" && g.Path == class {
			return "max"
		}
		return statetest.AsPlanned(g, file)
	})
	limit := func(what string) string {
		t.Helper()
		b.mustRound(true)
		value, _ := b.Cgroups.Get(class, "memory.max")
		t.Log(what, value)
		return value
	}
	before := limit("with room")
	b.Pods = append(b.Pods, statetest.Pod("b", "cpu<1", "memory<1Ti"))
	if after := limit("with none"); before == "max" || after != before {
		t.Errorf("the limit was %s, and became %s", before, after)
	}
	b.Policy.QOSReserved = nil
	if after := limit("without the policy"); after != "max" {
		t.Errorf("without the policy it is %s", after)
	}
}
