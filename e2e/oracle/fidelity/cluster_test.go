package fidelity

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

const (
	namespace      = "shop"
	otherNamespace = "bank"
)

// The vocabulary of classes. "absent" never exists.
var classNames = []string{"web", "batch", "critical", "system-cluster-critical"}

const absentClass = "absent"

// drawClasses makes none to four classes. In a real cluster only one is the globalDefault, but for a race.
func drawClasses(s draw.Source) map[string]*schedulingv1.PriorityClass {
	classes := map[string]*schedulingv1.PriorityClass{}
	for _, name := range draw.Some(s, 11, classNames...) {
		classes[name] = &schedulingv1.PriorityClass{
			ObjectMeta:       metav1.ObjectMeta{Name: name},
			Value:            draw.Pick[int32](s, 0, 1000, -10, 1000, 1000000000, 1000000001, -2147483648, 2000000000),
			GlobalDefault:    s.Chance(5),
			PreemptionPolicy: draw.Maybe(s, 13, corev1.PreemptLowerPriority, corev1.PreemptNever),
		}
	}
	return classes
}

// owned are the objects that the scheduler derives its default selector from.
type owned struct {
	Services     []*corev1.Service
	Controllers  []*corev1.ReplicationController
	ReplicaSets  []*appsv1.ReplicaSet
	StatefulSets []*appsv1.StatefulSet
}

// ownerKinds are what a pod may be owned by: the three kinds that the scheduler knows, and some that only look like it.
var ownerKinds = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Version: "v1", Kind: "ReplicationController"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "apps", Version: "v1beta2", Kind: "ReplicaSet"},
	{Group: "example.org", Version: "v1", Kind: "ReplicaSet"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"},
}

func drawOwners(s draw.Source) []metav1.OwnerReference {
	var owners []metav1.OwnerReference
	if s.Chance(2) {
		owners = append(owners, ownerReference(draw.Pick(s, ownerKinds...), "bystander", draw.Maybe(s, 8, false)))
	}
	if s.Chance(13) {
		owners = append(owners, ownerReference(draw.Pick(s, ownerKinds...), "owner", new(true)))
	}
	return owners
}

func ownerReference(kind schema.GroupVersionKind, name string, controller *bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: name, UID: "8f0c", Controller: controller}
}

// drawOwned makes Services, most of which select the pod, and the pod's owner, which is sometimes missing.
func drawOwned(s draw.Source, pod *corev1.Pod) owned {
	var o owned
	for range s.Below(4) {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: draw.Pick(s, namespace, namespace, namespace, otherNamespace), Name: "s" + string(rune('0'+len(o.Services)))}}
		switch s.Below(8) {
		case 0: // without a selector
		case 1:
			service.Spec.Selector = draw.Labels(s, 6)
		default:
			service.Spec.Selector = draw.Subset(s, 7, pod.Labels)
		}
		o.Services = append(o.Services, service)
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || s.Chance(2) {
		return o
	}
	meta := metav1.ObjectMeta{Namespace: draw.Pick(s, namespace, namespace, namespace, namespace, namespace, namespace, namespace, otherNamespace), Name: owner.Name}
	switch owner.Kind {
	case "ReplicationController":
		set := draw.Subset(s, 10, pod.Labels)
		if s.Rarely() {
			set = draw.Labels(s, 6)
		}
		o.Controllers = append(o.Controllers, &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: set}})
	case "ReplicaSet":
		o.ReplicaSets = append(o.ReplicaSets, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: draw.Selector(s, pod.Labels)}})
	case "StatefulSet":
		o.StatefulSets = append(o.StatefulSets, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: draw.Selector(s, pod.Labels)}})
	}
	return o
}

// addFacts looks up for Podgrace what the scheduler's listers hold.
func (o owned) addFacts(pod *corev1.Pod, facts *defaulting.Facts) {
	for _, s := range o.Services {
		if s.Namespace == namespace && s.Spec.Selector != nil {
			facts.ServiceSelectors = append(facts.ServiceSelectors, s.Spec.Selector)
		}
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || !defaulting.OwnerHasSelector(owner) {
		return
	}
	is := func(m metav1.ObjectMeta) bool { return m.Namespace == namespace && m.Name == owner.Name }
	for _, c := range o.Controllers {
		if is(c.ObjectMeta) {
			facts.OwnerSelector = &metav1.LabelSelector{MatchLabels: c.Spec.Selector}
		}
	}
	for _, r := range o.ReplicaSets {
		if is(r.ObjectMeta) {
			facts.OwnerSelector = r.Spec.Selector
		}
	}
	for _, f := range o.StatefulSets {
		if is(f.ObjectMeta) {
			facts.OwnerSelector = f.Spec.Selector
		}
	}
}
