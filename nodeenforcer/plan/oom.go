package plan

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

// containerOOMGroup lets the kernel kill all processes of a container together, unless singleProcessOOMKill says otherwise; then
// nothing is written (kuberuntime_container_linux.go calculateLinuxResources, 1.36.3).
func containerOOMGroup(b *builder, _ *member, _ *container) []value {
	if !b.set.oomGroup {
		return nil
	}
	return []value{{file: "memory.oom.group", why: Always, want: "1"}}
}

// The values of oom_score_adj that the kubelet gives (pkg/kubelet/qos/policy.go, 1.36.3). Sandboxes have -998, the kubelet -999. The
// kernel adds a thousandth of all memory for each to what a process uses: with -997 a process that uses everything comes to 3, the
// least that a Burstable one has. So nothing but -997 keeps a Guaranteed pod behind all Burstable ones, and nothing but 1000 a
// BestEffort one before them: those classes have no room for an order, Burstable has all there is.
const (
	oomGuaranteed   = -997
	oomBurstableMin = 3
	oomBurstableMax = 999
	oomBestEffort   = 1000
)

const (
	systemNodeCritical     = "system-node-critical"
	systemCriticalPriority = 2_000_000_000
)

// kubeletOOMScore is what the kubelet tells the runtime (GetContainerOOMScoreAdjust), clamped to the class also where quantities are so
// large that the kubelet's own arithmetic overflows. capacity is the node's memory in bytes, not 0.
func kubeletOOMScore(pod *corev1.Pod, c *corev1.Container, class corev1.PodQOSClass, capacity int64, podLevel bool) int {
	switch {
	case nodeCritical(pod) || class == corev1.PodQOSGuaranteed:
		return oomGuaranteed
	case class == corev1.PodQOSBestEffort:
		return oomBestEffort
	}
	var extra int64
	if podLevel && resourcehelper.IsPodLevelRequestsSet(pod) {
		extra = unclaimedMemory(pod)
	}
	score := 1000 - 1000*(c.Resources.Requests.Memory().Value()+extra)/capacity
	if isSidecar(pod, c) {
		score = min(score, 1000-1000*(leastMemory(pod)+extra)/capacity)
	}
	return int(min(max(score, oomBurstableMin), oomBurstableMax))
}

// unclaimedMemory is each container's part of what the pod requests and no container does (remainingPodMemReqPerContainer).
func unclaimedMemory(pod *corev1.Pod) int64 {
	request := pod.Spec.Resources.Requests.Memory()
	containers := int64(len(pod.Spec.Containers) + len(pod.Spec.InitContainers))
	if request.IsZero() || containers == 0 {
		return 0
	}
	claimed := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
	return (request.Value() - claimed.Memory().Value()) / containers
}

// leastMemory is the smallest request of the regular containers: a sidecar is not killed before any of them.
func leastMemory(pod *corev1.Pod) int64 {
	var least int64
	for i := range pod.Spec.Containers {
		if request := pod.Spec.Containers[i].Resources.Requests.Memory().Value(); i == 0 || request < least {
			least = request
		}
	}
	return least
}

func isSidecar(pod *corev1.Pod, c *corev1.Container) bool {
	return graceperiod.IsSidecar(c) && slices.ContainsFunc(pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name })
}

// nodeCritical is IsNodeCriticalPod (pkg/kubelet/types/pod_update.go, 1.36.3).
func nodeCritical(pod *corev1.Pod) bool {
	return pod.Spec.PriorityClassName == systemNodeCritical && critical(pod)
}

// critical is IsCriticalPod (as above) of a pod as the API has it. Its annotation kubernetes.io/config.source says nothing: the kubelet overwrites it with api
// (pkg/kubelet/config/config.go, 1.36.3), and static pods have mirrors.
func critical(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror || priority(pod) >= systemCriticalPriority
}

func priority(pod *corev1.Pod) int32 {
	if p := pod.Spec.Priority; p != nil {
		return *p
	}
	return 0
}

// band is a part of the Burstable class's range, both ends included.
type band struct{ low, high int }

// oomBands divides the range among the priorities of the node's Burstable pods, the highest first. Where the policy orders by QoS class
// alone there is one band for all, and a place in it is what the kubelet gives.
func (b *builder) oomBands() map[int32]band {
	if o := b.policy.OOM; o == nil || o.Order != v1alpha1.OOMOrderPriority {
		return nil
	}
	var priorities []int32
	for _, m := range b.members {
		if m.ranked() {
			priorities = append(priorities, priority(m.pod))
		}
	}
	slices.Sort(priorities)
	priorities = slices.Compact(priorities)
	slices.Reverse(priorities)
	const places = oomBurstableMax - oomBurstableMin + 1
	bands := map[int32]band{}
	for i, p := range priorities {
		low := oomBurstableMin + i*places/len(priorities)
		bands[p] = band{low, max(low, oomBurstableMin+(i+1)*places/len(priorities)-1)}
	}
	return bands
}

// ranked reports whether a pod is of the class that has an order.
func (m *member) ranked() bool {
	return m.class == corev1.PodQOSBurstable && !nodeCritical(m.pod)
}

// place puts the kubelet's value into the band, at the same proportion, and moves it up by the rank: 0 leaves it there, 100 is the top.
// So a rank can only bring a pod's end nearer, and one that was forged gains nothing.
func (r band) place(kubelet int, rank int32) int {
	at := r.low + (kubelet-oomBurstableMin)*(r.high-r.low)/(oomBurstableMax-oomBurstableMin)
	return at + (r.high-at)*int(rank)/100
}

// oomScore is the desired oom_score_adj of a container's processes, and what the kubelet has the runtime start them with; not ok if it can't be
// determined.
func (b *builder) oomScore(m *member, c *container) (score, started int, why Condition, ok bool) {
	capacity := b.node.Capacity.Memory().Value()
	if capacity <= 0 {
		return 0, 0, "", false
	}
	started = kubeletOOMScore(m.pod, c.spec, m.class, capacity, b.set.podLevel)
	var rank int32
	ordered, byPriority := b.bands[priority(m.pod)]
	asked := m.contract != nil && m.contract.OOM != nil
	if !m.ranked() || !byPriority && !asked {
		return started, started, Always, true
	}
	if asked {
		rank = m.contract.OOM.Rank
	}
	if !byPriority {
		ordered = band{oomBurstableMin, oomBurstableMax}
	}
	return ordered.place(started, rank), started, Ordered, true
}

// Daemon is a process of the host that the kubelet places. The enforcer writes nothing of it.
type Daemon struct {
	// Name is kubelet, or host for all processes in the root cgroup that are not the kernel's.
	Name string
	// Path is the cgroup that the kubelet moves it to; empty: it stays where it was started.
	Path string
	// OOMScoreAdj that the kubelet gives it; nil: none.
	OOMScoreAdj *int
}

// kubeletOOMScoreAdj is the default of oomScoreAdj (pkg/kubelet/qos/policy.go, 1.36.3).
const kubeletOOMScoreAdj = -999

// daemons are what the kubelet's configuration says of itself and of the host's processes (setupNode in pkg/kubelet/cm/container_manager_linux.go, 1.36.3; it does so
// when it starts, and every five minutes). The container runtime is not among them: its unit and its own configuration decide.
func (b *builder) daemons() (all []Daemon) {
	k := b.node.Kubelet
	if k == nil {
		return nil
	}
	score := kubeletOOMScoreAdj
	if k.OOMScoreAdj != nil {
		score = int(*k.OOMScoreAdj)
	}
	kubelet := Daemon{Name: "kubelet", OOMScoreAdj: &score}
	if k.KubeletCgroups != "" {
		kubelet.Path = path.Clean("/" + k.KubeletCgroups)
	}
	all = append(all, kubelet)
	if at := path.Clean("/" + k.SystemCgroups); at != "/" {
		all = append(all, Daemon{Name: "host", Path: at})
	}
	return all
}
