package nodeenforcer

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// bed is a node in memory: cgroups, processes, a clock, and an enforcer of them.
type bed struct {
	t        testing.TB
	cgroups  *cgrouptest.Fake
	enforcer *Enforcer
	clock    *testclock.FakeClock
	node     plan.Node
	policy   *v1alpha1.NodePolicySpec
	mode     v1alpha1.NodeMode
	pods     []*corev1.Pod
}

// longAgo is when every test begins.
var longAgo = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func capacity() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")}
}

// newBed has these pods, in mode Repair on cgroup v2, and no cgroups yet.
func newBed(t testing.TB, pods ...*corev1.Pod) *bed {
	b := &bed{
		t: t, cgroups: cgrouptest.NewFake(), clock: testclock.NewFakeClock(longAgo), mode: v1alpha1.NodeModeRepair, pods: pods,
		policy: &v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeRepair},
		node: plan.Node{
			Name: "n", Version: cgroupfile.V2, Driver: plan.Cgroupfs, Capacity: capacity(), KubeletVersion: "v1.36.3", Kubelet: &kubeletconfigv1beta1.KubeletConfiguration{},
		},
	}
	b.enforcer = &Enforcer{Cgroups: b.cgroups, ProcRoot: t.TempDir(), Clock: b.clock, Rivals: drift.NewRivals(drift.RivalLimit, drift.RivalWindow)}
	return b
}

func (b *bed) tree() *plan.Tree { return plan.Build(b.node, b.policy, b.pods) }

// make makes the planned cgroups that are not there yet; their files hold what holds says.
func (b *bed) make(holds func(g plan.Group, file string) string) *bed {
	b.t.Helper()
	for _, g := range b.tree().Groups {
		if slices.Contains(b.cgroups.Paths(), g.Path) {
			continue
		}
		files := map[string]string{"memory.current": "0"}
		for file := range g.Files {
			files[file] = holds(g, file)
		}
		b.cgroups.Add(g.Path, files)
	}
	return b
}

// asPlanned is for make.
func asPlanned(g plan.Group, file string) string { return g.Files[file].Want }

// process puts a process into a cgroup.
func (b *bed) process(group string, pid, adj int) {
	b.t.Helper()
	b.cgroups.Add(group, nil, pid)
	b.setAdj(pid, adj)
}

// setAdj writes a file that is not cut before it is written, unlike the kernel's: what comes next is to be as long, or longer.
func (b *bed) setAdj(pid, adj int) {
	b.t.Helper()
	folder := filepath.Join(b.enforcer.ProcRoot, strconv.Itoa(pid))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "oom_score_adj"), []byte(fmt.Sprintln(adj)), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) adj(pid int) string {
	text, err := os.ReadFile(filepath.Join(b.enforcer.ProcRoot, strconv.Itoa(pid), "oom_score_adj"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// round does one, and returns also what it wrote.
func (b *bed) round(full bool) (Round, []cgrouptest.Written, error) {
	b.t.Helper()
	before := len(b.cgroups.Writes())
	r, err := b.enforcer.Round(b.t.Context(), b.node, b.policy, b.mode, b.pods, full)
	return r, b.cgroups.Writes()[before:], err
}

// mustRound does one that must succeed.
func (b *bed) mustRound(full bool) (Round, []cgrouptest.Written) {
	b.t.Helper()
	r, writes, err := b.round(full)
	if err != nil {
		b.t.Fatal(err)
	}
	return r, writes
}

// path is where a pod's container, or with no container the pod itself, is planned.
func (b *bed) path(pod, container string) string {
	b.t.Helper()
	for _, g := range b.tree().Groups {
		if g.Pod.Name == pod && g.Container == container {
			return g.Path
		}
	}
	b.t.Fatalf("container %q of pod %s is not planned", container, pod)
	return ""
}

// runs1 is a pod with one running container, c. Resources are pairs such as "cpu=100m", limits "cpu<200m".
func runs1(name string, resources ...string) *corev1.Pod {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, r := range resources {
		for i, into := range map[byte]corev1.ResourceList{'=': requests, '<': limits} {
			if at := slices.Index([]byte(r), i); at > 0 {
				into[corev1.ResourceName(r[:at])] = resource.MustParse(r[at+1:])
			}
		}
	}
	for name, limit := range maps.All(limits) {
		if _, set := requests[name]; !set {
			requests[name] = limit
		}
	}
	status := running("c")
	status.ContainerID = "containerd://" + name
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid." + name)},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{status}},
	}
}
