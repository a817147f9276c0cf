package schedulertest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Node is a node of a zone with two processors, 4 GiB and room for 110 pods.
func Node(name, zone string) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
}

// Pod is a pod with the label foo=bar that asks for so many thousandths of a processor, on a node or on none.
func Pod(name, node string, milli int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, Labels: map[string]string{"foo": "bar"}},
		Spec: corev1.PodSpec{NodeName: node, SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{
			Name: "c", Image: "example/app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}},
		}}},
	}
}

// SpreadPod wants to be spread over zones and hosts.
func SpreadPod(name string) *corev1.Pod {
	p := Pod(name, "", 100)
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelHostname} {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"foo": "bar"}},
		})
	}
	return p
}

// Example is a case of which a person knows where the pod fits.
type Example struct {
	Case
	Name string
	// Fits are the nodes, the best first.
	Fits []string
}

// Examples are of the design of topology spread: the zone wants n3, the hostname wants n2. The others are ways out of it.
func Examples() []Example {
	all := []Example{
		{Name: "contradiction"}, {Name: "more skew of zones", Fits: []string{"n2"}}, {Name: "more skew of hosts", Fits: []string{"n3"}},
		{Name: "zones as a wish", Fits: []string{"n2"}}, {Name: "hosts as a wish", Fits: []string{"n3"}}, {Name: "another empty node, B", Fits: []string{"n4"}},
	}
	for i := range all {
		all[i].Pod, all[i].Nodes = SpreadPod("web-new"), []*corev1.Node{Node("n1", "A"), Node("n2", "A"), Node("n3", "B")}
		for j, on := range []string{"n1", "n1", "n2", "n3", "n3"} {
			all[i].Pods = append(all[i].Pods, Pod(fmt.Sprint("web-", j), on, 100))
		}
	}
	constraint := func(i, j int) *corev1.TopologySpreadConstraint { return &all[i].Pod.Spec.TopologySpreadConstraints[j] }
	constraint(1, 0).MaxSkew = 2
	constraint(2, 1).MaxSkew = 2
	constraint(3, 0).WhenUnsatisfiable = corev1.ScheduleAnyway
	constraint(4, 1).WhenUnsatisfiable = corev1.ScheduleAnyway
	all[5].Nodes = append(all[5].Nodes, Node("n4", "B"))
	return all
}
