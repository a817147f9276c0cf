package manypods

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/repair"
)

const (
	// Pods of the node.
	Pods = 500
	// leaving: one pod in so many is removed while a round writes; no multiple of the number of kinds.
	leaving = 9
	// withProcess is how many containers have a process: enough to see that those are found, and few for a small machine.
	withProcess = 20
)

// machine is a node full of pods on a kernel's cgroups.
type machine struct {
	*cgrouptest.Harness
	node plan.Node
	pods []*corev1.Pod
	pids map[string]int // by the container's path
}

// Test runs all on a tree of a version, below the harness's own root.
func Test(t *testing.T, h *cgrouptest.Harness, version cgroupfile.Version) {
	m := &machine{Harness: h, node: node(h.Root, version), pods: podsOf(Pods), pids: map[string]int{}}
	tree := m.plan()
	for _, g := range tree.Groups {
		m.Make(t, g.Path)
		t.Cleanup(func() { m.Remove(t, g.Path) })
	}
	if t.Failed() {
		return // a machine without room for them
	}
	m.populate(t, tree)
	e := m.enforcer(m.Tree)
	t.Run("OneRoundAppliesAll", func(t *testing.T) { m.applies(t, e) })
	t.Run("TheNextWritesNothing", func(t *testing.T) { m.calm(t, e) })
	t.Run("PodsGoWhileARoundWrites", m.vanish)
}

// node is a large one, with kubepods below root.
func node(root string, version cgroupfile.Version) plan.Node {
	return plan.Node{
		Name: "many", Version: version, Driver: plan.Cgroupfs, PageSize: int64(os.Getpagesize()), PIDs: 32768, KubeletVersion: "v1.36.3",
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("500")},
		Kubelet:  &kubeletv1beta1.KubeletConfiguration{CgroupRoot: root, CgroupDriver: "cgroupfs", PodPidsLimit: new(int64(100))},
	}
}

// policy asks for all that there is.
func policy() *v1alpha1.NodePolicySpec {
	return &v1alpha1.NodePolicySpec{
		Mode: v1alpha1.NodeModeRepair, QOSReserved: &v1alpha1.QOSReserved{MemoryPercent: 50}, OOM: &v1alpha1.NodeOOM{Order: v1alpha1.OOMOrderPriority},
		Memory: &v1alpha1.NodeMemory{Protection: v1alpha1.NodeMemoryProtectionTiered, ThrottlePercent: new(int32(90))},
	}
}

func (m *machine) plan() *plan.Tree { return plan.Build(m.node, policy(), m.pods) }

// populate starts processes in the first containers whose oom_score_adj is above 0, to which anybody may raise it, and does to containers what a
// runtime alone can do: nobody but it knows by which of two formulas it computes cpu.weight.
func (m *machine) populate(t *testing.T, tree *plan.Tree) {
	t.Helper()
	for _, g := range tree.Groups {
		for name, v := range g.Files {
			if v.Also != "" {
				m.Put(t, g.Path, name, v.Want)
			}
		}
	}
	for _, p := range tree.Processes {
		if p.OOMScoreAdj > 0 && len(m.pids) < withProcess {
			m.pids[p.Path] = m.Processes.Start(t, p.Path, 1)[0]
		}
	}
}

// enforcer is a new one: it remembers nothing.
func (m *machine) enforcer(tree cgroup.Tree) *repair.Enforcer {
	return &repair.Enforcer{Cgroups: tree, ProcRoot: "/proc", Clock: clock.RealClock{}, Rivals: drift.NewRivals(drift.RivalLimit, drift.RivalWindow)}
}

func (m *machine) round(t *testing.T, e *repair.Enforcer) repair.Round {
	t.Helper()
	r, err := e.Round(t.Context(), m.node, policy(), v1alpha1.NodeModeRepair, m.pods, true)
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d cgroups, %d writes, %s", len(r.Tree.Groups), len(r.Written), r.Took)
	return r
}

// applies: the kernel's defaults become the plan, in an order in which the kernel refuses nothing.
func (m *machine) applies(t *testing.T, e *repair.Enforcer) {
	r := m.round(t, e)
	if len(r.Written) < Pods || len(r.Diff.Missing)+len(r.Diff.Unavailable) > 0 {
		t.Errorf("%d files written, %d cgroups missing, unavailable: %v", len(r.Written), len(r.Diff.Missing), r.Diff.Unavailable)
	}
	for _, d := range r.Diff.Drift {
		if d.Why != "" {
			t.Errorf("%s %s: has %s, not %s: %s %s", d.Where, d.File, d.Have, d.Want, d.Why, d.Detail)
		}
	}
	m.asPlanned(t)
}

// asPlanned reads everything past the enforcer.
func (m *machine) asPlanned(t *testing.T) {
	t.Helper()
	tree := m.plan()
	files := 0
	for _, g := range tree.Groups {
		for name, v := range g.Files {
			files++
			if got := strings.TrimSpace(m.Get(t, g.Path, name)); got != v.Want && (v.Also == "" || got != v.Also) {
				t.Errorf("%s of %s (%s %s) is %q, want %q", name, g.Path, g.Pod, g.Container, got, v.Want)
			}
		}
	}
	processes := 0
	for _, p := range tree.Processes {
		pid, runs := m.pids[p.Path]
		if !runs {
			continue
		}
		processes++
		if got, err := cgroup.OOMScoreAdj("/proc", pid); got != p.OOMScoreAdj || err != nil {
			t.Errorf("oom_score_adj of %s %s is %d, want %d, %v", p.Pod, p.Container, got, p.OOMScoreAdj, err)
		}
	}
	if processes != len(m.pids) {
		t.Errorf("%d processes run, %d are planned", len(m.pids), processes)
	}
	t.Logf("%d files and %d processes are as planned", files, processes)
}

func (m *machine) calm(t *testing.T, e *repair.Enforcer) {
	r := m.round(t, e)
	if len(r.Written)+len(r.Diff.Drift)+len(r.Processes.Drift)+len(r.Reverts) > 0 {
		t.Errorf("written %v, drift %v %v, reverts %v", r.Written, r.Diff.Drift, r.Processes.Drift, r.Reverts)
	}
	m.asPlanned(t)
}

// vanish: somebody changes a file of each pod and, while that is repaired, some pods go. They are still planned, as for the moment until
// the API server tells. The others are repaired all the same, nothing comes back, and once it has, only those above are written.
func (m *machine) vanish(t *testing.T) {
	file, value := "cpu.weight", "77"
	if m.node.Version == cgroupfile.V1 {
		file, value = "cpu.shares", "777"
	}
	tree := m.plan()
	gone := m.spoil(t, tree, file, value)
	stay := len(m.pods) - len(gone)
	at := &leave{Tree: m.Tree, after: len(m.pods) / 2, do: func() { m.remove(t, tree, gone) }}
	e := m.enforcer(at)
	r := m.round(t, e)
	if at.writes < stay {
		t.Fatalf("%d writes for %d pods that stay", at.writes, stay)
	}
	repaired := 0
	for _, op := range r.Written {
		if op.File == file && op.From == value {
			repaired++
		}
	}
	if repaired < stay || repaired >= len(m.pods) {
		t.Errorf("%d files repaired of %d pods that stay and %d that went meanwhile", repaired, stay, len(gone))
	}
	if r := m.round(t, e); len(r.Written) > 0 {
		t.Errorf("written after they went: %v", r.Written)
	}
	for path := range gone {
		if _, err := m.Tree.Read(path, file); !errors.Is(err, cgroup.ErrGone) {
			t.Errorf("%s is there again: %v", path, err)
		}
	}
	m.pods = slices.DeleteFunc(m.pods, func(p *corev1.Pod) bool { return gone[podPath(tree, p)] })
	for _, op := range m.round(t, e).Written {
		if op.Level != plan.LevelKubepods && op.Level != plan.LevelQOS {
			t.Errorf("%s of %s was written", op.File, op.Where)
		}
	}
	m.calm(t, e)
}

// spoil changes a file of each pod, and says whose pods' cgroups shall go.
func (m *machine) spoil(t *testing.T, tree *plan.Tree, file, value string) map[string]bool {
	t.Helper()
	gone := map[string]bool{}
	for i, p := range m.pods {
		path := podPath(tree, p)
		m.Put(t, path, file, value)
		if i%leaving == 0 {
			gone[path] = true
		}
	}
	return gone
}

// podPath is a pod's cgroup.
func podPath(tree *plan.Tree, p *corev1.Pod) string {
	i := slices.IndexFunc(tree.Groups, func(g plan.Group) bool { return g.Level == plan.LevelPod && g.UID == p.UID })
	return tree.Groups[i].Path
}

// remove ends what runs in pods and takes their cgroups away, from the leaves up.
func (m *machine) remove(t *testing.T, tree *plan.Tree, pods map[string]bool) {
	for pod := range maps.Keys(pods) {
		if err := m.Tree.Kill(context.WithoutCancel(t.Context()), pod); err != nil {
			t.Error(err)
		}
	}
	for _, g := range slices.Backward(tree.Groups) {
		pod := g.Path
		if g.Level == plan.LevelContainer {
			pod = g.Path[:strings.LastIndexByte(g.Path, '/')]
		}
		if pods[pod] {
			m.Remove(t, g.Path)
			delete(m.pids, g.Path)
		}
	}
}

// leave is a tree in which something happens after so many writes.
type leave struct {
	cgroup.Tree
	after, writes int
	do            func()
}

// Write implements cgroup.Tree.
func (l *leave) Write(ctx context.Context, path string, files []cgroup.File) (int, error) {
	if l.writes == l.after {
		l.do()
	}
	l.writes++
	return l.Tree.Write(ctx, path, files)
}
