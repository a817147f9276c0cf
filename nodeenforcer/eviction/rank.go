package eviction

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// Ranked is a candidate and what gave it its place.
type Ranked struct {
	Candidate
	// Position in the order of eviction, from 1, and how many there are.
	Position, Of int
	// Known: its usage is known.
	Known bool
	// Used is what its eviction frees; 0 if it is unknown.
	Used int64
	// Requested is what the usage is compared with.
	Requested resource.Quantity
	// Exceeds: it uses more than it requested. Always false for processes, which nobody can request.
	Exceeds  bool
	Priority int32
	// Order from its annotation, 0 to 100; 0 where it has none that can be read.
	Order int32
	// Above is the usage less the request.
	Above resource.Quantity
}

// Rank orders the candidates that may be evicted, in the order of eviction. The order depends on the candidates only: ties are broken by name.
func Rank(signal v1alpha1.EvictionSignal, candidates []Candidate) []Ranked {
	out := make([]Ranked, 0, len(candidates))
	for _, c := range candidates {
		if Exempt(c.Pod) == "" {
			out = append(out, measure(signal, c))
		}
	}
	slices.SortFunc(out, compare)
	for i := range out {
		out[i].Position, out[i].Of = i+1, len(out)
	}
	return out
}

// compare is negative where a goes before b.
func compare(a, b Ranked) int {
	return cmp.Or(
		trueFirst(a.Known, b.Known),
		trueFirst(a.Exceeds, b.Exceeds),
		cmp.Compare(a.Priority, b.Priority),
		cmp.Compare(b.Order, a.Order),
		cmp.Compare(b.Waited, a.Waited),
		b.Above.Cmp(a.Above),
		cmp.Compare(a.Pod.Namespace, b.Pod.Namespace),
		cmp.Compare(a.Pod.Name, b.Pod.Name),
		cmp.Compare(a.Pod.UID, b.Pod.UID),
	)
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// measure compares a candidate's usage with its request as the kubelet does. For inodes it takes the request for ephemeral
// storage off, in bytes, as strange as it is (helpers.go disk); whether the request is exceeded it judges by a request for
// inodes, which there is not (exceedDiskRequests).
func measure(signal v1alpha1.EvictionSignal, c Candidate) Ranked {
	r := Ranked{Candidate: c, Priority: priority(c.Pod), Order: order(c.Pod)}
	r.Used, r.Known = c.usage(signal)
	if !r.Known {
		r.Used = 0
		return r
	}
	used := *resource.NewQuantity(r.Used, resource.BinarySI)
	r.Above = used
	switch signal {
	case v1alpha1.SignalPIDAvailable:
		return r
	case v1alpha1.SignalNodeFsInodesFree, v1alpha1.SignalImageFsInodesFree:
		r.Exceeds = r.Used > 0
		r.Above.Sub(request(c.Pod, corev1.ResourceEphemeralStorage))
	case v1alpha1.SignalNodeFsAvailable, v1alpha1.SignalImageFsAvailable:
		r.Requested = request(c.Pod, corev1.ResourceEphemeralStorage)
		r.Exceeds = used.Cmp(r.Requested) > 0
		r.Above.Sub(r.Requested)
	default:
		r.Requested = request(c.Pod, corev1.ResourceMemory)
		r.Exceeds = used.Cmp(r.Requested) > 0
		r.Above.Sub(r.Requested)
	}
	return r
}

// request is pkg/api/v1/resource/helpers.go GetResourceRequestQuantity, 1.36.3, with the feature gate PodLevelResources on.
func request(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	options := resourcehelper.PodResourcesOptions{SkipContainerLevelResources: resourcehelper.IsPodLevelResourcesSet(pod), ExcludeOverhead: true}
	out := resource.Quantity{Format: resource.BinarySI}
	out.Add(resourcehelper.PodRequests(pod, options)[name])
	if overhead, ok := pod.Spec.Overhead[name]; ok && !out.IsZero() {
		out.Add(overhead)
	}
	return out
}

// order is the eviction order that admission decided. An annotation that can't be parsed has none; the plan has a note about it.
func order(pod *corev1.Pod) int32 {
	text, ok := pod.Annotations[v1alpha1.AnnotationEnforcement]
	if !ok {
		return 0
	}
	e, err := enforcement.Parse(text)
	if err != nil || e.Eviction == nil {
		return 0
	}
	return e.Eviction.Order
}

// systemCritical is the lowest priority of critical pods (pkg/apis/scheduling/types.go SystemCriticalPriority, 1.36.3).
const systemCritical = int32(2_000_000_000)

// Candidate is a pod, and what it uses.
type Candidate struct {
	Pod *corev1.Pod
	// Usage by signal, of what its eviction would free: bytes of the working set for memory, bytes, inodes, processes. What is
	// missing or negative is not known. Stall takes memory's.
	Usage map[v1alpha1.EvictionSignal]int64
	// Waited is how long its processes waited for the node's memory; of a stall only.
	Waited time.Duration
	// Containers is the working set in bytes by container; for messages only.
	Containers map[string]int64
	// MeasuredAt is when the usage was read.
	MeasuredAt time.Time
}

// UsageSignal is the signal by whose usage pods are ranked for a signal: its own; for stall, which nobody uses, memory's.
func UsageSignal(signal v1alpha1.EvictionSignal) v1alpha1.EvictionSignal {
	if signal == v1alpha1.SignalMemoryStall {
		return v1alpha1.SignalMemoryAvailable
	}
	return signal
}

// usage of what a signal is about.
func (c *Candidate) usage(signal v1alpha1.EvictionSignal) (int64, bool) {
	used, ok := c.Usage[UsageSignal(signal)]
	return used, ok && used >= 0
}

// Exempt says why a pod is never evicted; empty where it may be. These are the kubelet's critical pods
// (pkg/kubelet/types/pod_update.go IsCriticalPod, 1.36.3) and those that are over.
//
// Static pods are known by their mirror pods. The other annotation by which the kubelet knows them, kubernetes.io/config.source,
// counts for nothing here: the kubelet overwrites it in what it gets from the API server (pkg/kubelet/config/config.go), we see
// what a user wrote. The mirror's can't be added to a running pod (pkg/apis/core/validation/validation.go), and a pod that is
// created with it is run by no kubelet.
func Exempt(pod *corev1.Pod) string {
	switch _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; {
	case mirror:
		return "it is a static pod"
	case priority(pod) >= systemCritical:
		return "it is critical for the system"
	case graceperiod.Finished(pod):
		return "it has finished"
	}
	return ""
}

// priority is that of k8s.io/component-helpers/scheduling/corev1 PodPriority, 0.36.3.
func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority != nil {
		return *pod.Spec.Priority
	}
	return 0
}
