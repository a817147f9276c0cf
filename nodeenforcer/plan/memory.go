package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// memoryLimit is the file of a limit in bytes; none where it is 0, since libcontainer then writes none.
func (b *builder) memoryLimit(bytes int64) []value {
	if bytes <= 0 {
		return nil
	}
	return []value{{file: b.memoryFile(), why: Always, want: b.node.memoryBytes(bytes)}}
}

func (b *builder) memoryFile() string {
	if b.node.Version == cgroupfile.V1 {
		return "memory.limit_in_bytes"
	}
	return "memory.max"
}

// podMemory: as a pod's quota, of memory.
func podMemory(b *builder, m *member) []value {
	if m.class == corev1.PodQOSBestEffort || m.class == corev1.PodQOSBurstable && !m.memoryLimited {
		return nil
	}
	return b.memoryLimit(m.limits.Memory().Value())
}

// containerMemory is the container's limit or, without one, the pod's own (kuberuntime_container_linux.go getMemoryLimit, 1.36.3).
func containerMemory(b *builder, _ *member, c *container) []value {
	limit := c.limit(corev1.ResourceMemory)
	return b.memoryLimit(limit.Value())
}

// containerSwap: a container has no swap of its own, or with the kubelet's LimitedSwap, if it is of a Burstable pod and has a request below its limit,
// a part of the node's: that of its request in the node's memory (kuberuntime_container_linux.go configureContainerSwapResources and
// calcSwapForBurstablePods, 1.36.3).
func containerSwap(b *builder, m *member, c *container) []value {
	if b.node.Version != cgroupfile.V2 || b.node.minor() < swapMinor {
		return nil
	}
	request, own := c.spec.Resources.Requests.Memory(), c.spec.Resources.Limits.Memory()
	var swap int64
	if b.set.limitedSwap && m.class == corev1.PodQOSBurstable && !critical(m.pod) && request.Cmp(*own) != 0 {
		if capacity := b.node.Capacity.Memory().Value(); capacity > 0 && request.Value() <= capacity {
			swap = int64(float64(request.Value()) / float64(capacity) * float64(b.node.Swap))
		}
	}
	return []value{{file: "memory.swap.max", why: Always, want: b.node.memoryBytes(swap)}}
}

// SwapOf is what a Node says of its swap, in bytes; 0 where it says nothing, which is so where it has none (pkg/kubelet/nodestatus/setters.go
// MachineInfo, 1.36.3).
func SwapOf(n *corev1.Node) int64 {
	if swap := n.Status.NodeInfo.Swap; swap != nil && swap.Capacity != nil {
		return *swap.Capacity
	}
	return 0
}

// memoryBytes is how the kernel prints a number of bytes that was written to a memory file: it counts in pages, rounded down, up
// to a largest number that v2 calls max (mm/page_counter.c page_counter_memparse, mm/memcontrol.c seq_puts_memcg_tunable).
func (n Node) memoryBytes(value int64) string {
	return n.pages(value, 1)
}

// hugeBytes is the same for a hugetlb file, whose unit is the huge page of this many bytes (mm/hugetlb_cgroup.c).
func (n Node) hugeBytes(value, hugePage int64) string {
	return n.pages(value, max(hugePage/n.PageSize, 1))
}

func (n Node) pages(value, unit int64) string {
	limit := math.MaxInt64 / n.PageSize
	pages := min(max(value, 0)/n.PageSize, limit)
	pages, limit = pages/unit*unit, limit/unit*unit
	if pages == limit && n.Version == cgroupfile.V2 {
		return "max"
	}
	return strconv.FormatInt(pages*n.PageSize, 10)
}

// floorPage rounds a number of bytes down to whole pages, at least 0.
func (n Node) floorPage(value int64) int64 {
	value = max(value, 0)
	return value - value%n.PageSize
}

// portion is amount x part / whole, rounded down, of numbers that are not negative. It saturates; of a whole of 0 it is 0.
func portion(amount, part, whole int64) int64 {
	if amount <= 0 || part <= 0 || whole <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(amount), uint64(part))
	if hi >= uint64(whole) {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(hi, lo, uint64(whole))
	return int64(min(quotient, math.MaxInt64))
}

// plus adds what is not negative, and saturates.
func plus(a, b int64) int64 {
	a, b = max(a, 0), max(b, 0)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// reserved is what the QoS levels may have of memory.
type reserved struct {
	why                   Condition
	burstable, besteffort int64
}

// newReserved keeps a part of the requests of each class from the classes below it (qos_container_manager_linux.go setMemoryReserve,
// 1.36.3): the kubelet's own qosReserved or, where it has none, the policy's. nil: neither, or it can't be.
func newReserved(b *builder) *reserved {
	var percent int64
	r := &reserved{why: Reserved}
	switch {
	case b.set.qosReserved != nil:
		percent, r.why = *b.set.qosReserved, KubeletReserved
		if p := b.policy.QOSReserved; p != nil && int64(p.MemoryPercent) != percent {
			b.noteNode("qosReserved is the kubelet's, %d%%: it writes the files every minute, the policy's %d%% could not last", percent, p.MemoryPercent)
		}
	case b.policy.QOSReserved != nil:
		percent = int64(b.policy.QOSReserved.MemoryPercent)
	default:
		return nil
	}
	requests := map[corev1.PodQOSClass]int64{}
	for _, m := range b.members {
		requests[m.class] = plus(requests[m.class], m.specRequestsAlways.Memory().Value())
	}
	total := b.set.allocatable.Memory().Value()
	if total == 0 {
		return nil
	}
	r.burstable = total - portion(requests[corev1.PodQOSGuaranteed], percent, 100)
	r.besteffort = r.burstable - portion(requests[corev1.PodQOSBurstable], percent, 100)
	return r
}

// qosMemory is the level's limit. One that is not positive can't be written: the requests are more than there is. Then the last one stays, as it does
// where the kubelet reserves (libcontainer writes no limit of 0: opencontainers/cgroups v0.0.6 fs2/memory.go setMemory): the class that is to
// yield must not be freed when least is left.
func qosMemory(b *builder, class corev1.PodQOSClass) []value {
	if b.reserved == nil {
		return nil
	}
	limit := b.reserved.burstable
	if class == corev1.PodQOSBestEffort {
		limit = b.reserved.besteffort
	}
	if limit < b.node.PageSize {
		b.noteNode("qosReserved leaves no memory to class %s: the requests of the classes above it are all that is allocatable; it keeps the limit that it has", class)
		return []value{{file: b.memoryFile(), keep: true}}
	}
	return []value{{file: b.memoryFile(), why: b.reserved.why, want: b.node.memoryBytes(limit)}}
}

// throttleAt is memory.high, in bytes: a part of the way from the request to the limit, in whole pages; 0 where it would not be above
// the request (KEP-2570; kuberuntime_container_linux.go generateLinuxContainerResources, 1.36.3, whose floating point it is).
func throttleAt(request, limit int64, factor float64, page int64) int64 {
	high := int64(math.Floor((float64(request)+(float64(limit)-float64(request))*factor)/float64(page))) * page
	if high <= request {
		return 0
	}
	return high
}

// podThrottle is the kubelet's memory.high of a pod with resources of its own, from 1.37 (helpers_linux.go ApplyPodLevelMemoryHigh, 1.37.0). Its containers
// without a limit have none then.
func podThrottle(b *builder, m *member) []value {
	request, limit := m.requests.Memory().Value(), m.limits.Memory().Value()
	if !b.set.podThrottled(m.pod) || !m.memoryLimited || limit == 0 || request == limit {
		return nil
	}
	high := throttleAt(request, limit, b.set.throttle, b.node.PageSize)
	if high == 0 {
		return nil
	}
	return []value{{file: "memory.high", why: MemoryQoS, want: b.node.memoryBytes(high)}}
}

// podThrottled reports whether the kubelet throttles pods as a whole, and this one.
func (s *settings) podThrottled(pod *corev1.Pod) bool {
	return s.throttle != 0 && s.newMemoryQoS && s.podLevel && resourcehelper.IsPodLevelResourcesSet(pod)
}

// containerThrottle is memory.high: the kubelet's, where it has memory QoS, else what the contract or the policy asks for. A container
// whose request is its limit has none; so BestEffort ones without a limit have none.
func containerThrottle(b *builder, m *member, c *container) []value {
	if b.node.Version != cgroupfile.V2 {
		return nil
	}
	request := c.spec.Resources.Requests.Memory().Value()
	limit := c.spec.Resources.Limits.Memory().Value()
	factor, why := b.set.throttle, MemoryQoS
	if factor == 0 {
		if factor, why = b.throttleFactor(m), Asked; factor == 0 {
			return nil
		}
		own := c.limit(corev1.ResourceMemory)
		limit = own.Value()
	} else if own := m.pod.Spec.Resources; limit == 0 && b.set.podThrottled(m.pod) && !own.Limits.Memory().IsZero() {
		return nil
	}
	if request == limit {
		return nil
	}
	if limit == 0 {
		limit = b.set.allocatable.Memory().Value()
	}
	high := throttleAt(request, limit, factor, b.node.PageSize)
	if high == 0 {
		return nil
	}
	return []value{{file: "memory.high", why: why, want: b.node.memoryBytes(high)}}
}

// throttleFactor is what the contract or, for a Burstable pod, the policy asks for; 0: nothing.
func (b *builder) throttleFactor(m *member) float64 {
	if c := m.contract; c != nil && c.Memory != nil && c.Memory.ThrottlePercent != nil {
		return float64(*c.Memory.ThrottlePercent) / 100
	}
	if memory := b.policy.Memory; memory != nil && memory.ThrottlePercent != nil && m.class == corev1.PodQOSBurstable {
		return float64(*memory.ThrottlePercent) / 100
	}
	return 0
}

// policyStaticMemory is the memory manager's policy under which containers have memory nodes of their own.
const policyStaticMemory = kubeletconfigv1beta1.StaticMemoryManagerPolicy

// MemoryManagerState is the kubelet's checkpoint memory_manager_state: from which nodes of a machine's memory (NUMA) it gave to whom. It is read and not predicted.
type MemoryManagerState struct {
	PolicyName string                              `json:"policyName"`
	Entries    map[string]map[string][]MemoryBlock `json:"entries,omitempty"` // by pod UID and container name
}

// MemoryBlock is memory, or huge pages of one size, that a container has. Of no use here is how much.
type MemoryBlock struct {
	NUMAAffinity []int `json:"numaAffinity"`
}

// ParseMemoryManagerState reads the kubelet's memory_manager_state (pkg/kubelet/cm/memorymanager/state/checkpoint.go MemoryManagerCheckpointV1, 1.36.3). The form behind the alpha
// feature gate PodLevelResourceManagers, which gives memory to whole pods, is refused, as that of cpu_manager_state is. The checksum is not looked at: it is over the machine's
// state as well, in the kubelet's own types, and the file is replaced as a whole. The kubelet itself does not start by one that is damaged.
func ParseMemoryManagerState(data []byte) (*MemoryManagerState, error) {
	var c struct {
		MemoryManagerState
		PodEntries map[string]json.RawMessage `json:"podEntries"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("read memory_manager_state: %w", err)
	}
	switch {
	case !slices.Contains([]string{"None", policyStaticMemory, "BestEffort"}, c.PolicyName):
		return nil, fmt.Errorf("read memory_manager_state: policy %q is not known", c.PolicyName)
	case len(c.PodEntries) > 0:
		return nil, fmt.Errorf("read memory_manager_state: it has the memory of %d whole pods, which is not known here", len(c.PodEntries))
	}
	for _, uid := range slices.Sorted(maps.Keys(c.Entries)) {
		for _, name := range slices.Sorted(maps.Keys(c.Entries[uid])) {
			for _, block := range c.Entries[uid][name] {
				if len(block.NUMAAffinity) > 0 && (slices.Min(block.NUMAAffinity) < 0 || slices.Max(block.NUMAAffinity) > cgroupfile.MaxCPU) {
					return nil, fmt.Errorf("read memory_manager_state: container %q of pod %q has the nodes %v", name, uid, block.NUMAAffinity)
				}
			}
		}
	}
	return &c.MemoryManagerState, nil
}

// setMemoryNodes reads the memory manager's state, if its policy is static; else no cpuset.mems is written.
func (s *settings) setMemoryNodes(n Node, k *kubeletconfigv1beta1.KubeletConfiguration) (note string) {
	if n.Memory != nil && n.Memory.PolicyName == policyStaticMemory {
		s.memoryNodes = n.Memory.Entries
		return ""
	}
	if n.Memory == nil && k.MemoryManagerPolicy == policyStaticMemory {
		return "the kubelet's memory manager is static and its state is not known: no cpuset.mems is planned"
	}
	return ""
}

// containerMemoryNodes are the nodes of the memory that the container has to itself, written when it is made and never compared (pkg/kubelet/cm/internal_container_lifecycle_linux.go
// PreCreateContainer, 1.36.3). Others have no list of their own: theirs is the parent's.
func containerMemoryNodes(b *builder, m *member, c *container) []value {
	var nodes []int
	for _, block := range b.set.memoryNodes[m.uid][c.spec.Name] {
		nodes = append(nodes, block.NUMAAffinity...)
	}
	if len(nodes) == 0 || c.ephemeral {
		return nil
	}
	return []value{{file: "cpuset.mems", why: Always, want: cpuset.New(nodes...).String()}}
}
