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
// the pod has now. Hostname and volumes need none: nobody can change these, and a claim that was recreated counts as exclusive.

// Record is the value of AnnotationProtected for a pod that is being created: its controller, if that is why the pod is protected. Empty: it gets none.
func (p Protection) Record(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner == nil || !p.identifies(kindOf(owner)) {
		return ""
	}
	return RecordOf(pod)
}

// RecordOf is the form in which a pod's controller is recorded: StatefulSet.apps/db. It is empty for a pod without a controller, and where the controller's
// name or kind is none that an object can have: the pod's creator writes ownerReferences, and they take any text.
func RecordOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || !recordable(kindOf(owner), owner.Name) {
		return ""
	}
	return kindOf(owner).String() + "/" + owner.Name
}

// Unrecorded is a pod that is being created without its AnnotationProtected, for Why: its creator wrote that, and Podgrace has recorded nothing yet. All else
// is shared with the pod.
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

// recordable reports whether there can be such an object, by the API server's own rules for kinds, groups and names.
func recordable(kind schema.GroupKind, name string) bool {
	return len(validation.IsDNS1035Label(strings.ToLower(kind.Kind))) == 0 &&
		(kind.Group == "" || len(validation.IsDNS1123Subdomain(kind.Group)) == 0) &&
		len(validation.IsDNS1123Subdomain(name)) == 0
}

// AsRecorded is the protection that the pod was created under, by its record: for programs that can't read the policies.
func AsRecorded(pod *corev1.Pod) Protection {
	if kind, _ := recorded(pod); kind != (schema.GroupKind{}) {
		return Protection{Owners: []schema.GroupKind{kind}}
	}
	return Protection{}
}

// withoutDaemonSets is the protection without that of all pods and of the pods of DaemonSets, for pods that run on no other node (ofItsNode).
func (p Protection) withoutDaemonSets() Protection {
	owners := slices.DeleteFunc(slices.Clone(p.Owners), func(kind schema.GroupKind) bool { return kind == daemonSet })
	return Protection{Owners: owners, BlockClaims: p.BlockClaims}
}
