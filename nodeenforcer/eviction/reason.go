package eviction

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// maxReason is the most that an event's message takes, in bytes (pkg/apis/core/validation/events.go NoteLengthLimit, 1.36.3).
const maxReason = 1024

// Cause is why a pod is evicted.
type Cause struct {
	// Need as it was when it was decided.
	Need
	Node string
	// GraceSeconds that the pod gets.
	GraceSeconds int64
}

// Reason is the text for the eviction and its event: first the kubelet's sentences (pkg/kubelet/eviction/helpers.go
// evictionMessage, 1.36.3), which people and tools know, then why this pod.
func Reason(cause Cause, victim Ranked) string {
	head := fmt.Sprintf("The node was low on resource: %s. ", resourceOf(cause.Signal))
	if cause.Signal == v1alpha1.SignalMemoryStall {
		head += "Processes waited for memory longer than the policy allows. "
	} else {
		head += fmt.Sprintf("Threshold quantity: %s, available: %s. ", amount(cause.Signal, cause.Threshold), amount(cause.Signal, cause.Available))
	}
	tail := fmt.Sprintf("Node %s, signal %s (%s threshold): pod %s/%s is number %d of %d in the order of eviction: %s. It has %d s to stop.",
		cause.Node, cause.Signal, cause.Kind, victim.Pod.Namespace, victim.Pod.Name, victim.Position, victim.Of, because(cause.Signal, victim), cause.GraceSeconds)
	for _, sentence := range consumers(cause.Signal, victim) {
		if len(head)+len(sentence)+len(tail) > maxReason {
			break
		}
		head += sentence
	}
	return head + tail
}

// because says why a pod has its position, in the order of the criteria.
func because(signal v1alpha1.EvictionSignal, v Ranked) string {
	if !v.Known {
		return fmt.Sprintf("what it uses is not known, priority %d, eviction order %d", v.Priority, v.Order)
	}
	used := fmt.Sprintf("using %s", amount(signal, v.Used))
	switch signal {
	case v1alpha1.SignalPIDAvailable, v1alpha1.SignalNodeFsInodesFree, v1alpha1.SignalImageFsInodesFree:
		return fmt.Sprintf("priority %d, eviction order %d, %s", v.Priority, v.Order, used)
	}
	place := "not above its request"
	if v.Exceeds {
		place = "above its request"
	}
	if v.Waited > 0 {
		used = fmt.Sprintf("waited for memory for %s, ", v.Waited.Round(time.Millisecond)) + used
	}
	return fmt.Sprintf("%s of %s, priority %d, eviction order %d, %s", place, v.Requested.String(), v.Priority, v.Order, used)
}

// consumers are the kubelet's sentences on containers that use more than they requested; on the pod where its containers are not
// known one by one, or where the request is the pod's.
func consumers(signal v1alpha1.EvictionSignal, v Ranked) []string {
	name := resourceOf(signal)
	var out []string
	if name != string(corev1.ResourceMemory) || len(v.Containers) == 0 || v.Pod.Spec.Resources != nil {
		if v.Exceeds && !v.Requested.IsZero() {
			out = append(out, fmt.Sprintf("Pod %s was using %s, request is %s, has larger consumption of %s. ", v.Pod.Name, amount(signal, v.Used), v.Requested.String(), name))
		}
	}
	if name != string(corev1.ResourceMemory) {
		return out
	}
	for _, list := range [][]corev1.Container{v.Pod.Spec.Containers, v.Pod.Spec.InitContainers} {
		for i := range list {
			used, ok := v.Containers[list[i].Name]
			requested := list[i].Resources.Requests[corev1.ResourceMemory]
			if quantity := resource.NewQuantity(used, resource.BinarySI); ok && quantity.Cmp(requested) > 0 {
				out = append(out, fmt.Sprintf("Container %s was using %s, request is %s, has larger consumption of %s. ", list[i].Name, quantity, requested.String(), name))
			}
		}
	}
	return out
}

// resourceOf names what a signal is about (signalToResource, pkg/kubelet/eviction/helpers.go, 1.36.3).
func resourceOf(signal v1alpha1.EvictionSignal) string {
	switch {
	case signal == v1alpha1.SignalPIDAvailable:
		return "pids"
	case strings.HasSuffix(string(signal), ".inodesFree"):
		return "inodes"
	case signal == v1alpha1.SignalNodeFsAvailable, signal == v1alpha1.SignalImageFsAvailable:
		return string(corev1.ResourceEphemeralStorage)
	default:
		return string(corev1.ResourceMemory)
	}
}

// amount prints a number of bytes as 412Mi and one of inodes or processes as it is.
func amount(signal v1alpha1.EvictionSignal, n int64) string {
	switch resourceOf(signal) {
	case "pids", "inodes":
		return fmt.Sprint(n)
	default:
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
}
