package plan_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// The plan names each parameter of the kernel that is not as the kubelet sets it, and what a kubelet would do about it. What is not known is no difference.
func TestNotesOnTheKernel(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		have    map[string]int64
		kubelet *kubeletconfigv1beta1.KubeletConfiguration
		want    string
	}{
		"as the kubelet":   {have: map[string]int64{"vm.overcommit_memory": 1, "vm.panic_on_oom": 0, "kernel.panic": 10, "kernel.panic_on_oops": 1}},
		"not known":        {},
		"two are not":      {have: map[string]int64{"vm.overcommit_memory": 2, "vm.panic_on_oom": 1}, want: "vm.overcommit_memory is 2, not 1: the kernel may refuse memory to a process within its limits; the kubelet sets it when it starts\nvm.panic_on_oom is 1, not 0: the node panics when memory runs out, where one process would have been killed; the kubelet sets it when it starts"},
		"a strict kubelet": {have: map[string]int64{"kernel.panic": 0, "kernel.panic_on_oops": 0}, kubelet: &kubeletconfigv1beta1.KubeletConfiguration{ProtectKernelDefaults: true}, want: "kernel.panic is 0, not 10: a node that panics restarts at another time, or stays down if it is 0; the kubelet does not start again (protectKernelDefaults)\nkernel.panic_on_oops is 0, not 1: a node goes on after a fault of its kernel, in an unknown state; the kubelet does not start again (protectKernelDefaults)"},
	} {
		tree := plan.Build(plan.Node{Version: cgroupfile.V2, KubeletVersion: "v1.36.3", Kernel: tt.have, Kubelet: tt.kubelet}, nil, nil)
		var got []string
		for _, n := range tree.OfKernel() {
			got = append(got, n.Message)
		}
		if strings.Join(got, "\n") != tt.want {
			t.Errorf("%s: %s", name, strings.Join(got, "\n"))
		}
	}
}

// The plan warns about thresholds above half of the node, also where the kubelet's configuration is not known. A pod of another operating system, which the kubelet rejects, has
// no cgroup.
func TestNotesOnThresholds(t *testing.T) {
	t.Parallel()
	pod := func(name string, os corev1.OSName) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{OS: &corev1.PodOS{Name: os}, Containers: []corev1.Container{{Name: "c"}}}}
	}
	node := plan.Node{Version: cgroupfile.V2, KubeletVersion: "v1.36.3", Capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourceCPU: resource.MustParse("4")}}
	policy := &v1alpha1.NodePolicySpec{Eviction: &v1alpha1.NodeEviction{Hard: []v1alpha1.EvictionThreshold{{Signal: v1alpha1.SignalMemoryAvailable, Value: "100Gi"}}}}
	tree := plan.Build(node, policy, []*corev1.Pod{pod("linux", corev1.Linux), pod("windows", corev1.Windows)})
	var said, planned []string
	for _, n := range tree.Notes {
		said = append(said, n.Message)
	}
	for _, g := range tree.Groups {
		if g.Level == plan.LevelPod {
			planned = append(planned, g.Pod.Name)
		}
	}
	if got := strings.Join(said, "\n"); !strings.Contains(got, "eviction.hard memory.available of 100Gi is more than half of a node's memory, 64Gi") {
		t.Errorf("notes:\n%s", got)
	}
	if got := strings.Join(planned, " "); got != "linux" {
		t.Errorf("planned are %q", got)
	}
}
