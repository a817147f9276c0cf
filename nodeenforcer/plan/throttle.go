package plan

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// throttleAt is memory.high, in bytes: a part of the way from the request to the limit, in whole pages; 0 where it would not be above
// the request (KEP-2570; kuberuntime_container_linux.go generateLinuxContainerResources, 1.36.3, whose floating point it is).
func throttleAt(request, limit int64, factor float64, page int64) int64 {
	high := int64(math.Floor((float64(request)+(float64(limit)-float64(request))*factor)/float64(page))) * page
	if high <= request {
		return 0
	}
	return high
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
