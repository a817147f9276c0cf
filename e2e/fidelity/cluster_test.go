package fidelity

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/defaulting"
)

const (
	namespace      = "shop"
	otherNamespace = "bank"
	revisionKey    = appsv1.DefaultDeploymentUniqueLabelKey
)

// The vocabulary of labels: few keys and values, so that things meet. The empty value is a valid one.
var (
	labelKeys   = []string{"app", "tier", "example.org/part", revisionKey, appsv1.StatefulSetRevisionLabel}
	labelValues = []string{"a", "b", ""}
)

func drawLabels(s source, of16 int) map[string]string {
	set := map[string]string{}
	for _, key := range some(s, of16, labelKeys...) {
		set[key] = pick(s, labelValues...)
	}
	return set
}

// The vocabulary of classes. "absent" never exists.
var classNames = []string{"web", "batch", "critical", "system-cluster-critical"}

const absentClass = "absent"

// drawClasses makes none to four classes. In a real cluster only one is the globalDefault, but for a race.
func drawClasses(s source) map[string]*schedulingv1.PriorityClass {
	classes := map[string]*schedulingv1.PriorityClass{}
	for _, name := range some(s, 11, classNames...) {
		classes[name] = &schedulingv1.PriorityClass{
			ObjectMeta:       metav1.ObjectMeta{Name: name},
			Value:            pick[int32](s, 0, 1000, -10, 1000, 1000000000, 1000000001, -2147483648, 2000000000),
			GlobalDefault:    s.chance(5),
			PreemptionPolicy: maybe(s, 13, corev1.PreemptLowerPriority, corev1.PreemptNever),
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

func drawOwners(s source) []metav1.OwnerReference {
	var owners []metav1.OwnerReference
	if s.chance(2) {
		owners = append(owners, ownerReference(pick(s, ownerKinds...), "bystander", maybe(s, 8, false)))
	}
	if s.chance(13) {
		owners = append(owners, ownerReference(pick(s, ownerKinds...), "owner", new(true)))
	}
	return owners
}

func ownerReference(kind schema.GroupVersionKind, name string, controller *bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: name, UID: "8f0c", Controller: controller}
}

// drawOwned makes Services, most of which select the pod, and the pod's owner, which is sometimes missing.
func drawOwned(s source, pod *corev1.Pod) owned {
	var o owned
	for range s.below(4) {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: pick(s, namespace, namespace, namespace, otherNamespace), Name: "s" + string(rune('0'+len(o.Services)))}}
		switch s.below(8) {
		case 0: // without a selector
		case 1:
			service.Spec.Selector = drawLabels(s, 6)
		default:
			service.Spec.Selector = subset(s, 7, pod.Labels)
		}
		o.Services = append(o.Services, service)
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || s.chance(2) {
		return o
	}
	meta := metav1.ObjectMeta{Namespace: pick(s, namespace, namespace, namespace, namespace, namespace, namespace, namespace, otherNamespace), Name: owner.Name}
	switch owner.Kind {
	case "ReplicationController":
		set := subset(s, 10, pod.Labels)
		if s.rarely() {
			set = drawLabels(s, 6)
		}
		o.Controllers = append(o.Controllers, &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: set}})
	case "ReplicaSet":
		o.ReplicaSets = append(o.ReplicaSets, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: drawSelector(s, pod.Labels)}})
	case "StatefulSet":
		o.StatefulSets = append(o.StatefulSets, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: drawSelector(s, pod.Labels)}})
	}
	return o
}

func subset(s source, of16 int, set map[string]string) map[string]string {
	picked := map[string]string{}
	for _, key := range labelKeys { // in order: a map's would not repeat
		if value, ok := set[key]; ok && s.chance(of16) {
			picked[key] = value
		}
	}
	return picked
}

// drawSelector mostly selects the pod, and mostly names all labels of it that a controller would name.
func drawSelector(s source, podLabels map[string]string) *metav1.LabelSelector {
	selector := &metav1.LabelSelector{MatchLabels: subset(s, 10, podLabels)}
	if s.chance(1) {
		selector.MatchLabels = drawLabels(s, 6)
	}
	for range s.bits(1) * s.below(3) {
		r := metav1.LabelSelectorRequirement{Key: pick(s, labelKeys...), Operator: pick(s, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = append([]string{pick(s, labelValues...)}, some(s, 5, labelValues...)...)
		}
		selector.MatchExpressions = append(selector.MatchExpressions, r)
	}
	return selector
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
