package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFakeNodeLooksReady(t *testing.T) {
	taint := corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}
	node := fakeNode("a", map[string]string{corev1.LabelTopologyZone: "z1"}, []corev1.Taint{taint}, metav1.Now())
	for key, want := range map[string]string{corev1.LabelHostname: "a", corev1.LabelTopologyZone: "z1"} {
		if got := node.Labels[key]; got != want {
			t.Errorf("label %s: got %q, want %q", key, got, want)
		}
	}
	if len(node.Spec.Taints) != 1 || isNotReady(node.Spec.Taints[0]) {
		t.Errorf("taints %v", node.Spec.Taints)
	}
	if pods := node.Status.Allocatable.Pods().Value(); pods != 110 {
		t.Errorf("room for %d pods", pods)
	}
	if ready := node.Status.Conditions[0]; ready.Type != corev1.NodeReady || ready.Status != corev1.ConditionTrue {
		t.Errorf("condition %v", ready)
	}
	if len(node.Status.Addresses) != 0 {
		t.Errorf("a node that nobody serves has addresses: %v", node.Status.Addresses)
	}
}
