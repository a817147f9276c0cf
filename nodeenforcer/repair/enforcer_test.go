package repair

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

func TestRoundRepairs(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "cpu=100m", "memory<64Mi"), statetest.Pod("b")).make(statetest.AsPlanned)
	a := b.Path("a", "c")
	b.Cgroups.Set(a, "memory.max", "max")
	b.Process(a, 7, 100)

	r, writes := b.mustRound(true)
	if diff := cmp.Diff([]cgrouptest.Written{{Path: a, File: "memory.max", Value: "67108864"}}, writes); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	var written []string
	for _, op := range r.Written {
		written = append(written, op.File+" "+op.From+" to "+op.To)
	}
	if diff := cmp.Diff([]string{"memory.max max to 67108864", "oom_score_adj 100 to 993"}, written); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if got := strings.TrimSpace(b.Adj(7)); got != "993" {
		t.Errorf("oom_score_adj is %q", got)
	}
	if !r.Full || !r.Changed {
		t.Errorf("the first round is full %v, changed %v", r.Full, r.Changed)
	}

	r, writes = b.mustRound(true)
	if len(writes)+len(r.Written)+len(r.Diff.Drift)+len(r.Processes.Drift) > 0 || r.Changed {
		t.Errorf("the second round is not idle: %v, %v, changed %v", writes, r.Diff.Drift, r.Changed)
	}
}

// With cgroup v1 and systemd nothing of others is restored, and the plan says so.
func TestRoundWhereRepairIsRefused(t *testing.T) {
	for driver, want := range map[plan.Driver]v1alpha1.NodeMode{plan.Systemd: v1alpha1.NodeModeTune, plan.Cgroupfs: v1alpha1.NodeModeRepair} {
		b := newBed(t, statetest.Pod("a", "cpu=100m", "memory<64Mi"))
		b.Node.Version, b.Node.Driver = cgroupfile.V1, driver
		b.make(statetest.AsPlanned)
		b.Cgroups.Set(b.Path("a", "c"), "memory.limit_in_bytes", "9223372036854771712")
		r, writes := b.mustRound(true)
		unusable := len(r.Tree.Unusable())
		if refused := want == v1alpha1.NodeModeTune; r.Mode != want || (unusable == 1) != refused || (len(writes) == 0) != refused || len(r.Diff.Drift) != 1 {
			t.Errorf("%s: mode %s, wrote %v, drift %v, notes %v", driver, r.Mode, writes, r.Diff.Drift, r.Tree.Notes)
		}
		if r, _ := b.mustRound(false); r.Full {
			t.Errorf("%s: the second round is full, as after a change of the mode", driver)
		}
	}
}

// What does not write says what it would.
func TestRoundThatOnlyLooks(t *testing.T) {
	for name, tc := range map[string]struct {
		mode   v1alpha1.NodeMode
		dryRun bool
		would  int
	}{
		"Observe":         {v1alpha1.NodeModeObserve, false, 0},
		"unknown mode":    {"Anything", false, 0},
		"no mode":         {"", false, 0},
		"Repair, dry run": {v1alpha1.NodeModeRepair, true, 2},
		"Tune":            {v1alpha1.NodeModeTune, false, 0}, // all of it is the kubelet's and the runtime's
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, statetest.Pod("a", "cpu=100m", "memory<64Mi")).make(statetest.AsPlanned)
			b.Mode, b.enforcer.DryRun = tc.mode, tc.dryRun
			a := b.Path("a", "c")
			b.Cgroups.Set(a, "memory.max", "max")
			b.Process(a, 7, 1000)
			for range 3 {
				r, writes := b.mustRound(true)
				if len(writes)+len(r.Written) > 0 || strings.TrimSpace(b.Adj(7)) != "1000" {
					t.Fatalf("it wrote %v, %v, oom_score_adj %s", writes, r.Written, b.Adj(7))
				}
				if len(r.Diff.Drift) != 1 || len(r.Processes.Drift) != 1 || len(r.Diff.Operations)+len(r.Processes.Operations) != tc.would {
					t.Errorf("it found %v, %v and would do %v", r.Diff.Drift, r.Processes.Drift, r.Diff.Operations)
				}
			}
		})
	}
}

// A change of the mode is no change of the plan, and still a reason to look at everything.
func TestRoundUnderAnotherMode(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "memory<64Mi")).make(statetest.AsPlanned)
	b.Cgroups.Set(b.Path("a", "c"), "memory.max", "max")
	b.Mode = v1alpha1.NodeModeObserve
	b.mustRound(true)
	b.Mode = v1alpha1.NodeModeRepair
	if r, writes := b.mustRound(false); !r.Full || r.Changed || len(writes) != 1 {
		t.Errorf("full %v, changed %v, wrote %v", r.Full, r.Changed, writes)
	}
}

// The cgroups of reservations are beside kubepods, and what others write there is reported: as the kubelet's, so that only Repair writes back what the kubelet wrote when it started.
// One that is not there is no drift: the kubelet does not start without it.
func TestRoundOfReservedCgroups(t *testing.T) {
	for mode, want := range map[v1alpha1.NodeMode]drift.Why{v1alpha1.NodeModeObserve: drift.WhyObserve, v1alpha1.NodeModeTune: drift.WhyOwned, v1alpha1.NodeModeRepair: ""} {
		b := newBed(t)
		b.Mode = mode
		k := b.Node.Kubelet
		k.KubeReserved, k.SystemReserved = map[string]string{"cpu": "100m", "memory": "64Mi"}, map[string]string{"memory": "1Gi"}
		k.KubeReservedCgroup, k.SystemReservedCgroup, k.EnforceNodeAllocatable = "/runtime", "/system", []string{"pods", "kube-reserved", "system-reserved"}
		b.make(statetest.AsPlanned)
		b.Cgroups.Set("/runtime", "memory.max", "max")
		b.Cgroups.Remove("/system")
		r, writes := b.mustRound(true)
		if len(r.Diff.Drift) != 1 {
			t.Fatalf("%s: drift %v", mode, r.Diff.Drift)
		}
		if d := r.Diff.Drift[0]; d.Path != "/runtime" || d.Level != plan.LevelReserved || d.Have != "max" || d.Want != "67108864" || d.Owner != plan.Kubelet || d.Why != want {
			t.Errorf("%s: %+v", mode, d)
		}
		if repaired := slices.Equal(writes, []cgrouptest.Written{{Path: "/runtime", File: "memory.max", Value: "67108864"}}); repaired != (mode == v1alpha1.NodeModeRepair) || !repaired && len(writes) > 0 {
			t.Errorf("%s: wrote %v", mode, writes)
		}
	}
}

// A partial round reads the groups that are planned again and those above them, and no other.
func TestPartialRound(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "cpu=100m"), statetest.Pod("b", "cpu=100m"), statetest.Pod("g", "cpu<1", "memory<1Gi")).make(statetest.AsPlanned)
	w := b.watch()
	b.mustRound(false) // the first is full all the same
	if read := w.Seen(); len(read) != len(b.Tree().Groups) {
		t.Errorf("the first round read %v", read)
	}

	b.Cgroups.Set(b.Path("a", ""), "cpu.weight", "9")
	if r, writes := b.mustRound(false); r.Full || r.Changed || len(w.Seen())+len(writes) > 0 {
		t.Errorf("nothing is planned anew: it read, or wrote %v", writes)
	}

	b.Pods[1] = statetest.Pod("b", "cpu=900m", "memory=1Gi")
	r, _ := b.mustRound(false)
	want := []string{"/kubepods", "/kubepods/burstable", b.Path("b", ""), b.Path("b", "c")}
	if diff := cmp.Diff(want, slices.DeleteFunc(w.Seen(), func(p string) bool { return p == "/kubepods/besteffort" })); diff != "" || r.Full || !r.Changed {
		t.Errorf("full %v, changed %v, read (-want +got):\n%s", r.Full, r.Changed, diff)
	}
	if got, _ := b.Cgroups.Get("/kubepods/burstable", "cpu.weight"); got == "" || len(r.Written) == 0 {
		t.Errorf("wrote %v", r.Written)
	}
	if got, _ := b.Cgroups.Get(b.Path("a", ""), "cpu.weight"); got != "9" {
		t.Errorf("pod a was looked at: %s", got)
	}
	if _, writes := b.mustRound(true); len(writes) != 1 {
		t.Errorf("the next full round finds pod a: wrote %v", writes)
	}
}

// A pod that went leaves nothing to look at, and is news: the checkpoint has to forget it.
func TestRoundAfterAPodWent(t *testing.T) {
	b := newBed(t, statetest.Pod("a"), statetest.Pod("b")).make(statetest.AsPlanned)
	b.mustRound(true)
	b.Pods = b.Pods[:1] // BestEffort: no other group's plan depends on it
	if r, writes := b.mustRound(false); !r.Changed || r.Full || len(writes) > 0 {
		t.Errorf("changed %v, full %v, wrote %v", r.Changed, r.Full, writes)
	}
	if r, _ := b.mustRound(false); r.Changed {
		t.Error("it is news twice")
	}
}

// A pod whose cgroups are not made yet, or are gone already, is no error.
func TestRoundOfMissingGroups(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "memory<64Mi"), statetest.Pod("b", "memory<64Mi"))
	if r, _ := b.mustRound(true); len(r.Diff.Missing) != len(b.Tree().Groups) {
		t.Errorf("missing: %v", r.Diff.Missing)
	}
	b.make(statetest.AsPlanned)
	b.Cgroups.Remove(b.Path("a", ""))
	b.Cgroups.Set(b.Path("b", "c"), "memory.max", "max")
	if r, writes := b.mustRound(true); len(writes) != 1 || len(r.Diff.Missing) != 2 {
		t.Errorf("wrote %v, missing %v", writes, r.Diff.Missing)
	}
}

// Processes come and go at every moment.
func TestRoundOfProcessesThatLeave(t *testing.T) {
	b := newBed(t, statetest.Pod("a"), statetest.Pod("b")).make(statetest.AsPlanned)
	a := b.Path("a", "c")
	b.Process(a, 7, 0)
	b.Cgroups.Add(a, nil, 8) // listed, and gone from /proc
	b.Process(b.Path("b", "c"), 9, 0)
	w := b.watch()
	w.Lists[b.Path("b", "c")] = cgroup.ErrGone
	r, _ := b.mustRound(true)
	if len(r.Processes.Operations) != 1 || strings.TrimSpace(b.Adj(7)) != "1000" || strings.TrimSpace(b.Adj(9)) != "0" {
		t.Errorf("operations %v; 7: %s, 9: %s", r.Processes.Operations, b.Adj(7), b.Adj(9))
	}

	// Another process has the number by now, in another cgroup: between list and write.
	b.SetAdj(7, 0)
	b.enforcer.Cgroups = &leaving{Watched: w, from: a}
	if r, _ := b.mustRound(true); len(r.Written) > 0 || strings.TrimSpace(b.Adj(7)) != "0" {
		t.Errorf("wrote %v: %s", r.Written, b.Adj(7))
	}
}

// leaving is a tree in which a group's processes are listed once.
type leaving struct {
	*cgrouptest.Watched
	from   string
	listed bool
}

func (l *leaving) Processes(path string) ([]int, error) {
	if path == l.from && l.listed {
		return nil, nil
	}
	l.listed = l.listed || path == l.from
	return l.Watched.Processes(path)
}

// What can't be read is an error that names it, nothing is written there, and the rest is done. The next round looks again.
func TestRoundThatCannotRead(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "memory<64Mi"), statetest.Pod("b", "memory<64Mi"), statetest.Pod("x")).make(statetest.AsPlanned)
	for _, pod := range []string{"a", "b"} {
		b.Cgroups.Set(b.Path(pod, "c"), "memory.max", "max")
	}
	w := b.watch()
	a := b.Path("a", "c")
	w.Refuse[a] = unix.EACCES
	w.Lists[b.Path("x", "c")] = unix.EIO
	b.Process(b.Path("b", "c"), 7, 1)
	if err := os.WriteFile(filepath.Join(b.enforcer.ProcRoot, "7", "oom_score_adj"), []byte("much\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, writes, err := b.round(true)
	if !errors.Is(err, unix.EACCES) || !errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), "process 7") {
		t.Errorf("got error %v", err)
	}
	if len(writes) != 1 || writes[0].Path != b.Path("b", "c") || r.Tree == nil {
		t.Errorf("wrote %v", writes)
	}
	w.Refuse, w.Lists = nil, nil
	b.SetAdj(7, 968)
	if r, writes := b.mustRound(false); !r.Full || len(writes) != 1 || writes[0].Path != a || r.Changed {
		t.Errorf("full %v, changed %v, wrote %v", r.Full, r.Changed, writes)
	}
}

// Where a promise above could not be written, what relies on it is not written either.
func TestRoundThatCannotWrite(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "cpu=100m", "memory<64Mi"), statetest.Pod("b", "cpu=100m", "memory<64Mi"))
	b.make(func(g plan.Group, file string) string {
		if file == "memory.max" && g.Pod.Name != "" {
			return "33554432"
		}
		return statetest.AsPlanned(g, file)
	})
	a := b.Path("a", "")
	b.Cgroups.Refuse(a, cgroup.File{Name: "memory.max"}, unix.EBUSY)
	_, writes, err := b.round(true)
	if !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), "pod shop/a") {
		t.Errorf("got error %v", err)
	}
	want := []cgrouptest.Written{{Path: b.Path("b", ""), File: "memory.max", Value: "67108864"}, {Path: b.Path("b", "c"), File: "memory.max", Value: "67108864"}}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("wrote (-want +got):\n%s", diff)
	}
	b.Cgroups.Refuse(a, cgroup.File{Name: "memory.max"}, nil)
	if _, writes := b.mustRound(false); len(writes) != 2 || writes[0].Path != a {
		t.Errorf("the next round wrote %v", writes)
	}
}

// A file that is refused for good at the top holds back what relies on it there and below, and no other file.
func TestRoundRefusedAtTheTop(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "cpu=100m", "memory<64Mi"))
	b.make(func(g plan.Group, file string) string {
		switch file {
		case "memory.max":
			return "33554432"
		case "cpu.weight":
			return "7"
		}
		return statetest.AsPlanned(g, file)
	})
	b.Cgroups.Refuse("/kubepods", cgroup.File{Name: "memory.max"}, unix.EINVAL)
	r, writes, err := b.round(true)
	if !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "/kubepods") {
		t.Errorf("got error %v", err)
	}
	weights := 0
	for _, g := range b.Tree().Groups {
		if v, planned := g.Files["cpu.weight"]; planned && !v.PerRuntime {
			weights++
		}
	}
	if len(writes) != weights || len(r.Written) != weights || slices.ContainsFunc(writes, func(w cgrouptest.Written) bool { return w.File != "cpu.weight" }) {
		t.Errorf("wrote %v, told %v; want %d cpu.weight", writes, r.Written, weights)
	}
}

// One that is told to stop stops between two groups, and says so.
func TestRoundStops(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "memory<64Mi")).make(statetest.AsPlanned)
	b.Cgroups.Set(b.Path("a", "c"), "memory.max", "max")
	b.Process(b.Path("a", "c"), 7, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := b.enforcer.Round(ctx, b.Node, b.Policy, b.Mode, b.Pods, true)
	if !errors.Is(err, context.Canceled) || len(r.Written) > 0 || len(b.Cgroups.Writes()) > 0 || strings.TrimSpace(b.Adj(7)) != "0" {
		t.Errorf("wrote %v, %v", r.Written, err)
	}
}

// memory.high of a pod that is being evicted is the terminator's.
func TestRoundLeavesTheContainedAlone(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "cpu=100m"))
	b.make(statetest.AsPlanned)
	a := b.Path("a", "")
	b.enforcer.Contained = func(path string) bool { return path == a }
	b.Cgroups.Set(a, "memory.high", "1048576")
	if r, writes := b.mustRound(true); len(writes)+len(r.Diff.Drift) > 0 {
		t.Errorf("wrote %v, drift %v", writes, r.Diff.Drift)
	}
}

func TestChanged(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "cpu=100m"), statetest.Pod("g", "cpu<1", "memory<1Gi"))
	before := b.Tree()
	critical := func(p *corev1.Pod) {
		p.Spec.PriorityClassName, p.Spec.Priority = "system-node-critical", new(int32(2_000_001_000))
	}
	critical(b.Pods[1]) // as Guaranteed is
	if news := changed(before, b.Tree()); len(news) > 0 {
		t.Errorf("nothing is planned anew; got %v", news)
	}
	critical(b.Pods[0])
	want := map[string]bool{b.Path("a", "c"): true, b.Path("a", ""): true, "/kubepods/burstable": true, "/kubepods": true}
	if diff := cmp.Diff(want, changed(before, b.Tree())); diff != "" {
		t.Errorf("a process alone (-want +got):\n%s", diff)
	}
	if news := changed(&plan.Tree{}, before); len(news) != len(before.Groups) {
		t.Errorf("at first all is news; got %v", news)
	}
}

func TestRuns(t *testing.T) {
	op := func(path, file string) drift.Operation {
		return drift.Operation{Where: drift.Where{Path: path}, File: file}
	}
	var got [][]drift.Operation
	for run := range runs([]drift.Operation{op("/a", "1"), op("/a", "2"), op("/b", "1"), op("/a", "3")}) {
		got = append(got, run)
	}
	if len(got) != 3 || len(got[0]) != 2 || len(got[1]) != 1 || got[2][0].File != "3" {
		t.Errorf("got %v", got)
	}
	for range runs([]drift.Operation{op("/a", "1"), op("/b", "1")}) {
		break // the sequence may be left
	}
	for range runs(nil) {
		t.Error("there is nothing to do")
	}
}
