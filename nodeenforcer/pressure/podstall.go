package pressure

import (
	"iter"
	"time"
)

// GroupStall is what a cgroup has come to.
type GroupStall struct {
	// Waited is the sum of the time for which its processes waited for memory.
	Waited time.Duration
	// Limited is how often it was at a limit of its own.
	Limited int64
}

// PodStall is what a pod's cgroups have come to.
type PodStall struct {
	Pod GroupStall
	// Containers by the name of their cgroups.
	Containers map[string]GroupStall
	// Above is how often the cgroups above the pod's were at their limits.
	Above int64
}

// Since is how long a pod has waited for the node's memory since an earlier reading. The time for which it waited because of a limit of its own
// does not count: the kernel counts as stall what a process waits for at memory.max and at memory.high (mm/memcontrol.c try_charge_memcg and
// __mem_cgroup_handle_over_high, Linux 6.12), and so our throttle and our containment as well, and no eviction of anybody else ends that. Where a
// container was at its limit and the pod was not, the pod's other containers count. While the node's memory is free, only a limit above the pod,
// such as that of kubepods, can be the reason.
func (p PodStall) Since(before PodStall, free bool) time.Duration {
	if free && p.Above == before.Above || p.Pod.Limited != before.Pod.Limited {
		return 0
	}
	longest, limited := time.Duration(0), false
	for name, c := range p.Containers {
		old := before.Containers[name]
		if c.Limited != old.Limited {
			limited = true
			continue
		}
		longest = max(longest, c.Waited-old.Waited)
	}
	if limited {
		return longest
	}
	return max(p.Pod.Waited-before.Pod.Waited, 0)
}

// podsShare: a stall is the pods' if they waited together for at least a quarter of the time for which the node did.
const podsShare = 4

// OfPods reports whether pods that waited for so long are what the node waited for. If not, it is what runs beside them, or at limits of its own.
func OfPods(node time.Duration, pods iter.Seq[time.Duration]) bool {
	together := time.Duration(0)
	for waited := range pods {
		together += waited
	}
	return together > 0 && together >= node/podsShare
}
