package fidelity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const rackKey = "example.org/rack"

// drawNodes makes one to five nodes in few domains. Labels are missing now and then.
func drawNodes(s source) []*corev1.Node {
	count := 1 + s.below(5)
	nodes := make([]*corev1.Node, 0, count)
	for i := range count {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{}}}
		if s.chance(14) {
			n.Labels[corev1.LabelHostname] = n.Name
		}
		if s.chance(12) {
			n.Labels[corev1.LabelTopologyZone] = pick(s, "a", "b", "c", "")
		}
		if s.chance(6) {
			n.Labels[rackKey] = pick(s, "1", "2")
		}
		for _, effect := range some(s, 2, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: pick(s, "dedicated", "gpu"), Value: pick(s, "x", "y", ""), Effect: effect})
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// drawNeighbours makes pods on the nodes, also such as the scheduler must not count: terminating, or of another
// namespace.
func drawNeighbours(s source, nodes []*corev1.Node, alike map[string]string) []*corev1.Pod {
	count := s.below(10)
	pods := make([]*corev1.Pod, 0, count)
	for i := range count {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("neighbour%d", i), UID: "1", Labels: alike}}
		p.Spec.NodeName = pick(s, nodes...).Name
		switch s.below(8) {
		case 7:
			p.Labels = drawLabels(s, 9)
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
func counted(neighbours []*corev1.Pod) func(labels.Selector) ([]string, bool) {
	return func(selector labels.Selector) ([]string, bool) {
		var nodes []string
		for _, p := range neighbours {
			if p.Namespace == namespace && p.DeletionTimestamp == nil && selector.Matches(labels.Set(p.Labels)) {
				nodes = append(nodes, p.Spec.NodeName)
			}
		}
		return nodes, true
	}
}

func addNodeAffinity(s source, spec *corev1.PodSpec) {
	if s.chance(6) {
		spec.NodeSelector = map[string]string{pick(s, corev1.LabelTopologyZone, rackKey): pick(s, "a", "b", "1")}
	}
	if !s.chance(9) {
		return
	}
	selector := &corev1.NodeSelector{}
	for range 1 + s.below(2) {
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, drawNodeTerm(s))
	}
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}}
}

// drawNodeTerm also makes terms that the API server accepts and the scheduler can't parse: Gt with no number.
func drawNodeTerm(s source) corev1.NodeSelectorTerm {
	expression := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	switch s.below(8) {
	case 0:
		return expression(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "a", "b")
	case 1:
		return expression(corev1.LabelTopologyZone, corev1.NodeSelectorOpNotIn, "a")
	case 2:
		return expression(rackKey, corev1.NodeSelectorOpExists)
	case 3:
		return expression(rackKey, corev1.NodeSelectorOpDoesNotExist)
	case 4:
		return expression(rackKey, corev1.NodeSelectorOpGt, pick(s, "1", "0", "many"))
	case 5:
		return corev1.NodeSelectorTerm{} // selects nothing
	}
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: pick(s, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{pick(s, "n0", "n1")}}}}
}

func drawTolerations(s source) []corev1.Toleration {
	return some(s, 2,
		corev1.Toleration{Operator: corev1.TolerationOpExists},
		corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: "x", Effect: corev1.TaintEffectNoSchedule},
		corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists},
	)
}
