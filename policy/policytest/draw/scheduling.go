package draw

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RevisionKey is the label by which a Deployment's ReplicaSets tell their pods apart.
const RevisionKey = appsv1.DefaultDeploymentUniqueLabelKey

const rackKey = "example.org/rack"

// The vocabulary of labels: few keys and values, so that things meet. The empty value is a valid one.
var (
	LabelKeys    = []string{"app", "tier", "example.org/part", RevisionKey, appsv1.StatefulSetRevisionLabel}
	LabelValues  = []string{"a", "b", ""}
	TopologyKeys = []string{corev1.LabelTopologyZone, corev1.LabelHostname, rackKey}
)

// Labels has each key in so many of 16 cases.
func Labels(s Source, of16 int) map[string]string {
	set := map[string]string{}
	for _, key := range Some(s, of16, LabelKeys...) {
		set[key] = Pick(s, LabelValues...)
	}
	return set
}

// Subset has each of the labels in so many of 16 cases.
func Subset(s Source, of16 int, set map[string]string) map[string]string {
	picked := map[string]string{}
	for _, key := range LabelKeys { // in order: a map's would not repeat
		if value, ok := set[key]; ok && s.Chance(of16) {
			picked[key] = value
		}
	}
	return picked
}

// Selector mostly selects the pod, and mostly names all labels of it that a controller would name.
func Selector(s Source, podLabels map[string]string) *metav1.LabelSelector {
	selector := &metav1.LabelSelector{MatchLabels: Subset(s, 10, podLabels)}
	if s.Chance(1) {
		selector.MatchLabels = Labels(s, 6)
	}
	for range s.Bits(1) * s.Below(3) {
		r := metav1.LabelSelectorRequirement{Key: Pick(s, LabelKeys...), Operator: Pick(s, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = append([]string{Pick(s, LabelValues...)}, Some(s, 5, LabelValues...)...)
		}
		selector.MatchExpressions = append(selector.MatchExpressions, r)
	}
	return selector
}

// Nodes makes one to so many nodes in few domains. Labels are missing now and then.
func Nodes(s Source, most int) []*corev1.Node {
	count := 1 + s.Below(most)
	nodes := make([]*corev1.Node, 0, count)
	for i := range count {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{}}}
		if s.Chance(14) {
			n.Labels[corev1.LabelHostname] = n.Name
		}
		if s.Chance(12) {
			n.Labels[corev1.LabelTopologyZone] = Pick(s, "a", "b", "c", "")
		}
		if s.Chance(6) {
			n.Labels[rackKey] = Pick(s, "1", "2")
		}
		for _, effect := range Some(s, 2, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: Pick(s, "dedicated", "gpu"), Value: Pick(s, "x", "y", ""), Effect: effect})
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// AddNodeAffinity may have a pod ask for some of the Nodes.
func AddNodeAffinity(s Source, spec *corev1.PodSpec) {
	if s.Chance(6) {
		spec.NodeSelector = map[string]string{Pick(s, corev1.LabelTopologyZone, rackKey): Pick(s, "a", "b", "1")}
	}
	if !s.Chance(9) {
		return
	}
	selector := &corev1.NodeSelector{}
	for range 1 + s.Below(2) {
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, NodeTerm(s))
	}
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}}
}

// NodeTerm also makes terms that the API server accepts and the scheduler can't parse: Gt with no number.
func NodeTerm(s Source) corev1.NodeSelectorTerm {
	expression := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	switch s.Below(8) {
	case 0:
		return expression(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "a", "b")
	case 1:
		return expression(corev1.LabelTopologyZone, corev1.NodeSelectorOpNotIn, "a")
	case 2:
		return expression(rackKey, corev1.NodeSelectorOpExists)
	case 3:
		return expression(rackKey, corev1.NodeSelectorOpDoesNotExist)
	case 4:
		return expression(rackKey, corev1.NodeSelectorOpGt, Pick(s, "1", "0", "many"))
	case 5:
		return corev1.NodeSelectorTerm{} // selects nothing
	}
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: Pick(s, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{Pick(s, "n0", "n1")}}}}
}

// Tolerations of the taints of Nodes.
func Tolerations(s Source) []corev1.Toleration {
	return Some(s, 2,
		corev1.Toleration{Operator: corev1.TolerationOpExists},
		corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: "x", Effect: corev1.TaintEffectNoSchedule},
		corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists},
	)
}
