package plan_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

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
