package lookup

import (
	"fmt"
	"slices"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/kube"
	"github.com/podgrace/podgrace/policy/enforcement"
	"github.com/podgrace/podgrace/webhook/exceptions"
)

// watched are the kinds whose informers must have synced before the webhook is ready. Pods and PersistentVolumeClaims are not watched: they are many,
// and rarely needed.
func watched() []client.Object {
	return []client.Object{
		&corev1.Namespace{}, &corev1.Service{}, &corev1.ReplicationController{}, &corev1.Node{},
		&appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &schedulingv1.PriorityClass{},
	}
}

// CacheOptions strip objects to what decisions read before informers store them; of kinds with many objects only name and selector are kept (type kept). Readers get
// the stored objects without a copy: nobody in this package changes one.
func CacheOptions() cache.Options {
	return cache.Options{
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Namespace{}: kube.Trimmed(func(o *corev1.Namespace) *corev1.Namespace {
				return &corev1.Namespace{ObjectMeta: withLabels(o.ObjectMeta)}
			}),
			&corev1.Service{}:               kube.Trimmed(keep[*corev1.Service]),
			&corev1.ReplicationController{}: kube.Trimmed(keep[*corev1.ReplicationController]),
			&appsv1.ReplicaSet{}:            kube.Trimmed(keep[*appsv1.ReplicaSet]),
			&appsv1.StatefulSet{}:           kube.Trimmed(keep[*appsv1.StatefulSet]),
			&schedulingv1.PriorityClass{}: kube.Trimmed(func(o *schedulingv1.PriorityClass) *schedulingv1.PriorityClass {
				return &schedulingv1.PriorityClass{ObjectMeta: kube.Identity(o.ObjectMeta), Value: o.Value, GlobalDefault: o.GlobalDefault, PreemptionPolicy: o.PreemptionPolicy}
			}),
			&corev1.Node{}: kube.Trimmed(func(o *corev1.Node) *corev1.Node {
				meta := withLabels(o.ObjectMeta)
				meta.Finalizers = o.Finalizers
				return &corev1.Node{ObjectMeta: meta, Spec: corev1.NodeSpec{Taints: o.Spec.Taints}, Status: corev1.NodeStatus{Conditions: enforced(o)}}
			}),
			// Policies are kept whole: the status controller reads all of PodPolicies, and by their managed fields it is known what is not read of them.
			&v1alpha1.PodPolicy{}:  {Transform: whole},
			&v1alpha1.NodePolicy{}: {Transform: whole},
			exceptions.New():       {Transform: exceptions.Trim},
		},
		DefaultTransform: cache.TransformStripManagedFields(),
	}
}

// whole is the transform that leaves an object as it is.
func whole(in any) (any, error) { return in, nil }

func withLabels(m metav1.ObjectMeta) metav1.ObjectMeta {
	labelled := kube.Identity(m)
	labelled.Labels = shared(m.Labels)
	return labelled
}

// kept is what an informer stores of a Service or of a controller of pods: name and selector. There are several such objects for each workload of a cluster,
// and even an empty ReplicaSet takes a kilobyte; the metadata alone take 250 bytes, with or without anything in them.
type kept struct {
	metav1.Object // noMeta, for what is not below

	namespace, name, resourceVersion string
	// selector is nil where nothing is selected, and for ReplicaSets scaled to 0, whose selector is read live if it is needed.
	selector *metav1.LabelSelector
}

// noMeta is shared by all kept objects: nobody changes one.
var noMeta = &metav1.ObjectMeta{}

// GetNamespace is for metav1.Object.
func (k *kept) GetNamespace() string { return k.namespace }

// GetName is for metav1.Object.
func (k *kept) GetName() string { return k.name }

// GetResourceVersion is for metav1.Object.
func (k *kept) GetResourceVersion() string { return k.resourceVersion }

// GetObjectKind is for client.Object. Nobody asks what kind it was.
func (k *kept) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject is for client.Object.
func (k *kept) DeepCopyObject() runtime.Object {
	c := *k
	c.selector = k.selector.DeepCopy()
	return &c
}

// keep reduces an object to what an informer stores of it.
func keep[T metav1.Object](o T) *kept {
	k := &kept{Object: noMeta, namespace: o.GetNamespace(), name: o.GetName(), resourceVersion: o.GetResourceVersion()}
	if s := selectorOf(o); s != nil && !idle(o) {
		k.selector = &metav1.LabelSelector{MatchLabels: shared(s.MatchLabels), MatchExpressions: s.MatchExpressions}
	}
	return k
}

// idle reports whether an object is a ReplicaSet scaled to 0: an old revision, of which a Deployment keeps ten.
func idle(o any) bool {
	r, ok := o.(*appsv1.ReplicaSet)
	return ok && r.Spec.Replicas != nil && *r.Spec.Replicas == 0
}

// shared returns labels with interned keys: few keys are different, and each decoded object has copies of its own.
func shared(labels map[string]string) map[string]string {
	if labels == nil {
		return nil
	}
	m := make(map[string]string, len(labels))
	for key, value := range labels {
		m[unique.Make(key).Value()] = value
	}
	return m
}

// KindOf names an object's kind for messages.
func KindOf(o client.Object) string { return fmt.Sprintf("%T", o)[1:] }

// enforced are those conditions of a Node that Podgrace reads, for the cache.
func enforced(n *corev1.Node) []corev1.NodeCondition {
	node := enforcement.NodeOf(n)
	if !node.Enforcer {
		return nil
	}
	return keptConditions[node.ReadOnly][slices.Index(enforcement.MemoryProtectors, node.Memory)+1]
}

// keptConditions are shared by all nodes of the cache, by whether the enforcer is read-only: first those of an enforcer that does not report who protects memory, then
// those by who does.
var keptConditions = map[bool][][]corev1.NodeCondition{
	false: conditionsWith(corev1.NodeCondition{Type: enforcement.NodeConditionEnforced}),
	true:  conditionsWith(corev1.NodeCondition{Type: enforcement.NodeConditionEnforced, Reason: enforcement.ReasonReadOnly}),
}

func conditionsWith(enforced corev1.NodeCondition) [][]corev1.NodeCondition {
	all := [][]corev1.NodeCondition{{enforced}}
	for _, p := range enforcement.MemoryProtectors {
		all = append(all, []corev1.NodeCondition{enforced, {Type: enforcement.NodeConditionMemoryProtection, Reason: string(p)}})
	}
	return all
}
