package statetest

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
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/state"
)

// Bed is a node in memory: cgroups, processes and a clock.
type Bed struct {
	T        testing.TB
	Cgroups  *cgrouptest.Fake
	ProcRoot string
	Clock    *testclock.FakeClock
	Node     plan.Node
	Policy   *v1alpha1.NodePolicySpec
	Mode     v1alpha1.NodeMode
	Pods     []*corev1.Pod
}

// LongAgo is when every test begins.
var LongAgo = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// Capacity of the node.
func Capacity() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")}
}

// NewBed has these pods, in mode Repair on cgroup v2, and no cgroups yet.
func NewBed(t testing.TB, pods ...*corev1.Pod) *Bed {
	return &Bed{
		T: t, Cgroups: cgrouptest.NewFake(), ProcRoot: t.TempDir(), Clock: testclock.NewFakeClock(LongAgo), Mode: v1alpha1.NodeModeRepair, Pods: pods,
		Policy: &v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeRepair},
		Node: plan.Node{
			Name: "n", Version: cgroupfile.V2, Driver: plan.Cgroupfs, Capacity: Capacity(), KubeletVersion: "v1.36.3", Kubelet: &kubeletconfigv1beta1.KubeletConfiguration{},
		},
	}
}

// Tree is as planned.
func (b *Bed) Tree() *plan.Tree { return plan.Build(b.Node, b.Policy, b.Pods) }

// Make makes the planned cgroups that are not there yet; their files hold what holds says.
func (b *Bed) Make(holds func(g plan.Group, file string) string) *Bed {
	b.T.Helper()
	for _, g := range b.Tree().Groups {
		if slices.Contains(b.Cgroups.Paths(), g.Path) {
			continue
		}
		files := map[string]string{"memory.current": "0"}
		for file := range g.Files {
			files[file] = holds(g, file)
		}
		b.Cgroups.Add(g.Path, files)
	}
	return b
}

// AsPlanned is for Make.
func AsPlanned(g plan.Group, file string) string { return g.Files[file].Want }

// Process puts a process into a cgroup.
func (b *Bed) Process(group string, pid, adj int) {
	b.T.Helper()
	b.Cgroups.Add(group, nil, pid)
	b.SetAdj(pid, adj)
}

// SetAdj writes a file that is not cut before it is written, unlike the kernel's: what comes next is to be as long, or longer.
func (b *Bed) SetAdj(pid, adj int) {
	b.T.Helper()
	folder := filepath.Join(b.ProcRoot, strconv.Itoa(pid))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		b.T.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "oom_score_adj"), []byte(fmt.Sprintln(adj)), 0o600); err != nil {
		b.T.Fatal(err)
	}
}

// Adj is what that file holds.
func (b *Bed) Adj(pid int) string {
	text, err := os.ReadFile(filepath.Join(b.ProcRoot, strconv.Itoa(pid), "oom_score_adj"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Live is a state of the bed's pods under a mode, from the API server.
func (b *Bed) Live(mode v1alpha1.NodeMode) func(*state.State) {
	return func(s *state.State) {
		*s = state.State{
			Node:   &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Capacity: Capacity()}},
			Policy: &v1alpha1.NodePolicy{Spec: v1alpha1.NodePolicySpec{Mode: mode}}, Pods: slices.Clone(b.Pods), Config: b.Node.Kubelet, Live: true,
		}
	}
}

// Path is where a pod's container, or with no container the pod itself, is planned.
func (b *Bed) Path(pod, container string) string {
	b.T.Helper()
	for _, g := range b.Tree().Groups {
		if g.Pod.Name == pod && g.Container == container {
			return g.Path
		}
	}
	b.T.Fatalf("container %q of pod %s is not planned", container, pod)
	return ""
}

// Pod is one with one running container, c. Resources are pairs such as "cpu=100m", limits "cpu<200m".
func Pod(name string, resources ...string) *corev1.Pod {
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
	status := corev1.ContainerStatus{Name: "c", ContainerID: "containerd://" + name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid." + name)},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{status}},
	}
}
