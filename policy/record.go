package policy

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// What a pod's controller is can be edited, so it is recorded when the pod is created, where it is why the pod is protected. It is a record of
// what the pod is, and not of what policies made of it: each level judges it by the owners that it names now, as it judges the controller that
// the pod has now. Hostname and volumes need none: nobody can change these, and a claim that was made anew counts as exclusive.

// Record is what AnnotationProtected has to say of a pod that is being created; empty: nothing.
func (p Protection) Record(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner == nil || !p.identifies(kindOf(owner)) {
		return ""
	}
	return RecordOf(pod)
}

// RecordOf is how a pod's controller is recorded, if it is: StatefulSet.apps/db. It is empty for a pod without one, and for one by whose name
// or kind no object can be: ownerReferences are the pod creator's to write, and take any text.
func RecordOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || !recordable(kindOf(owner), owner.Name) {
		return ""
	}
	return kindOf(owner).String() + "/" + owner.Name
}

// Unrecorded is a pod that is being created, for Why: a record that it brings is its creator's. It shares all else with the pod.
func Unrecorded(pod *corev1.Pod) *corev1.Pod {
	if _, brings := pod.Annotations[v1alpha1.AnnotationProtected]; !brings {
		return pod
	}
	unrecorded := *pod
	unrecorded.Annotations = maps.Clone(pod.Annotations)
	delete(unrecorded.Annotations, v1alpha1.AnnotationProtected)
	return &unrecorded
}

// recorded is the controller that a pod had when it was created, by its record.
func recorded(pod *corev1.Pod) (kind schema.GroupKind, name string) {
	text, name, _ := strings.Cut(pod.Annotations[v1alpha1.AnnotationProtected], "/")
	if kind = schema.ParseGroupKind(text); !recordable(kind, name) {
		return schema.GroupKind{}, ""
	}
	return kind, name
}

// recordable says whether there can be such an object, by the API server's own rules for kinds, groups and names.
func recordable(kind schema.GroupKind, name string) bool {
	return len(validation.IsDNS1035Label(strings.ToLower(kind.Kind))) == 0 &&
		(kind.Group == "" || len(validation.IsDNS1123Subdomain(kind.Group)) == 0) &&
		len(validation.IsDNS1123Subdomain(name)) == 0
}

// AsRecorded protects what policies did when the pod was created: for who can't read them.
func AsRecorded(pod *corev1.Pod) Protection {
	if kind, _ := recorded(pod); kind != (schema.GroupKind{}) {
		return Protection{Owners: []schema.GroupKind{kind}}
	}
	return Protection{}
}

// elsewhere is what protects a pod that is of its node: that it is a DaemonSet's is no reason. One that was created as another controller's is none.
func (p Protection) elsewhere() Protection {
	owners := slices.DeleteFunc(slices.Clone(p.Owners), func(kind schema.GroupKind) bool { return kind == daemonSet })
	return Protection{Owners: owners, BlockClaims: p.BlockClaims}
}
