package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// The sizes in bytes of nodes of which nothing is known.
const (
	leastMemory = int64(1) << 30
	mostMemory  = int64(1) << 50
	// apart is how many times larger one is than the other.
	apart = 1024
)

// capacities are those of two nodes on which the pod has room. A value that is the same on both does not depend on the node's memory.
func capacities(pod *corev1.Pod) (small, large corev1.ResourceList) {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	bytes := min(max(min(requests.Memory().Value(), mostMemory)*4, leastMemory), mostMemory)
	of := func(n int64) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(n, resource.BinarySI)}
	}
	return of(bytes), of(bytes * apart)
}

// policyNotes say what becomes of the contract where no policy has an effect.
func (v *view) policyNotes(effective *v1alpha1.NodePolicySpec) []string {
	_, asks := v.pod.Annotations[v1alpha1.AnnotationEnforcement]
	switch p := v.in.NodePolicy; {
	case v.in.NodePolicyUnknown || effective != nil:
		return nil
	case p == nil && asks && v.pod.Spec.NodeName == "":
		return []string{"it has no node yet: what becomes of its contract depends on the NodePolicy there"}
	case p == nil && asks:
		return []string{"no NodePolicy is for its node: its contract counts for nothing there"}
	case p != nil:
		return []string{fmt.Sprintf("NodePolicy %s is in mode %s and writes nothing: these are the kubelet's own values", v.in.NodePolicyName, or(string(p.Mode), string(v1alpha1.NodeModeObserve)))}
	}
	return nil
}
