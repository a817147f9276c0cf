package fidelity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// drawNeighbours makes pods on the nodes, also such as the scheduler must not count: terminating, or of another
// namespace.
func drawNeighbours(s draw.Source, nodes []*corev1.Node, alike map[string]string) []*corev1.Pod {
	count := s.Below(10)
	pods := make([]*corev1.Pod, 0, count)
	for i := range count {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("neighbour%d", i), UID: "1", Labels: alike}}
		p.Spec.NodeName = draw.Pick(s, nodes...).Name
		switch s.Below(8) {
		case 7:
			p.Labels = draw.Labels(s, 9)
		case 6:
			p.Namespace = otherNamespace
		case 5:
			p.DeletionTimestamp = new(metav1.Unix(1, 0))
		}
		pods = append(pods, p)
	}
	return pods
}

// counted are the neighbours as Facts wants them.
func counted(neighbours []*corev1.Pod) func(labels.Selector) ([]defaulting.Neighbour, bool) {
	return func(selector labels.Selector) ([]defaulting.Neighbour, bool) {
		var pods []defaulting.Neighbour
		for _, p := range neighbours {
			if p.Namespace == namespace && p.DeletionTimestamp == nil && selector.Matches(labels.Set(p.Labels)) {
				pods = append(pods, defaulting.Neighbour{Node: p.Spec.NodeName, Priority: ptr.Deref(p.Spec.Priority, 0), Controller: defaulting.ControllerName("ReplicaSet", "other")})
			}
		}
		return pods, true
	}
}
