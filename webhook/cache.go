package webhook

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/enforcement"
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
	trimmed := func(trim func(any) (any, error)) cache.ByObject {
		return cache.ByObject{Transform: trim, UnsafeDisableDeepCopy: new(true)}
	}
	return cache.Options{
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Namespace{}: trimmed(trim(func(o *corev1.Namespace) *corev1.Namespace {
				return &corev1.Namespace{ObjectMeta: withLabels(o.ObjectMeta)}
			})),
			&corev1.Service{}:               trimmed(trim(keep[*corev1.Service])),
			&corev1.ReplicationController{}: trimmed(trim(keep[*corev1.ReplicationController])),
			&appsv1.ReplicaSet{}:            trimmed(trim(keep[*appsv1.ReplicaSet])),
			&appsv1.StatefulSet{}:           trimmed(trim(keep[*appsv1.StatefulSet])),
			&schedulingv1.PriorityClass{}: trimmed(trim(func(o *schedulingv1.PriorityClass) *schedulingv1.PriorityClass {
				return &schedulingv1.PriorityClass{ObjectMeta: identity(o.ObjectMeta), Value: o.Value, GlobalDefault: o.GlobalDefault, PreemptionPolicy: o.PreemptionPolicy}
			})),
			&corev1.Node{}: trimmed(trim(func(o *corev1.Node) *corev1.Node {
				meta := withLabels(o.ObjectMeta)
				meta.Finalizers = o.Finalizers
				return &corev1.Node{ObjectMeta: meta, Spec: corev1.NodeSpec{Taints: o.Spec.Taints}, Status: corev1.NodeStatus{Conditions: enforced(o)}}
			})),
			// Policies are kept whole: the status controller reads all of them.
			&v1alpha1.PodPolicy{}: {Transform: cache.TransformStripManagedFields()},
			exceptions.New():      {Transform: exceptions.Trim},
		},
		DefaultTransform: cache.TransformStripManagedFields(),
	}
}

// trim is an informer's transform for one kind. Other things, such as tombstones, stay as they are.
func trim[T, K any](keep func(T) K) func(any) (any, error) {
	return func(in any) (any, error) {
		if o, ok := in.(T); ok {
			return keep(o), nil
		}
		return in, nil
	}
}

func identity(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion}
}

func withLabels(m metav1.ObjectMeta) metav1.ObjectMeta {
	labelled := identity(m)
	labelled.Labels = shared(m.Labels)
	return labelled
}

// KindOf names an object's kind for messages.
func KindOf(o client.Object) string { return fmt.Sprintf("%T", o)[1:] }

// enforced are those conditions of a Node that Podgrace reads, for the cache.
func enforced(n *corev1.Node) []corev1.NodeCondition {
	node := enforcement.NodeOf(n)
	if !node.Enforcer {
		return nil
	}
	return keptConditions[slices.Index(enforcement.MemoryProtectors, node.Memory)+1]
}

// keptConditions are shared by all nodes of the cache: those of an enforcer that does not say who protects memory, then by who does.
var keptConditions = func() [][]corev1.NodeCondition {
	kept := [][]corev1.NodeCondition{{{Type: enforcement.NodeConditionEnforced}}}
	for _, p := range enforcement.MemoryProtectors {
		kept = append(kept, []corev1.NodeCondition{{Type: enforcement.NodeConditionEnforced}, {Type: enforcement.NodeConditionMemoryProtection, Reason: string(p)}})
	}
	return kept
}()
