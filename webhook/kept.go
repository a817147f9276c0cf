package webhook

import (
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kept is what an informer stores of a Service or of a controller of pods: name and selector. There are several such objects for each workload of a cluster,
// and even an empty ReplicaSet takes a kilobyte.
type kept struct {
	metav1.ObjectMeta
	// selector is nil where nothing is selected, and for ReplicaSets scaled to 0, whose selector is read live if it is needed.
	selector *metav1.LabelSelector
}

// GetObjectKind is for client.Object. Nobody asks what kind it was.
func (k *kept) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject is for client.Object.
func (k *kept) DeepCopyObject() runtime.Object {
	return &kept{*k.DeepCopy(), k.selector.DeepCopy()}
}

// keep reduces an object to what an informer stores of it.
func keep[T metav1.Object](o T) *kept {
	k := &kept{ObjectMeta: metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), ResourceVersion: o.GetResourceVersion()}}
	if s := selectorOf(o); s != nil && !idle(o) {
		k.selector = &metav1.LabelSelector{MatchLabels: shared(s.MatchLabels), MatchExpressions: s.MatchExpressions}
	}
	return k
}

// idle says whether an object is a ReplicaSet scaled to 0: an old revision, of which a Deployment keeps ten.
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
