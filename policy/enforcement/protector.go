package enforcement

import "github.com/podgrace/podgrace/api/v1alpha1"

// NodeConditionMemoryProtection of a Node is True where what policies ask of memory.protection is done there. Its reason is a MemoryProtector, which is how the
// webhook and the offline commands know. The node enforcer alone writes it; a Node whose enforcer is older has none.
const NodeConditionMemoryProtection = "PodgraceMemoryProtection"

// MemoryProtector says who has memory.min and memory.low on a node; empty: it is not known.
type MemoryProtector string

// Who has them, by the kubelet's version, feature gate MemoryQoS and memoryReservationPolicy, and by the node's cgroups.
const (
	// ProtectorPodgrace: the kubelet writes them at its start and when it makes or resizes a container, if at all, and then leaves them alone.
	ProtectorPodgrace MemoryProtector = "Podgrace"
	// ProtectorKubelet: it protects by QoS class what pods request, and writes that each minute.
	ProtectorKubelet MemoryProtector = "KubeletReserves"
	// ProtectorReset: it protects nothing, and writes that each minute to the cgroups above all pods, which cap what is below.
	ProtectorReset MemoryProtector = "KubeletResets"
	// ProtectorV1: cgroup v1 has no such files.
	ProtectorV1 MemoryProtector = "CgroupV1"
)

// MemoryProtectors are all of them.
var MemoryProtectors = []MemoryProtector{ProtectorPodgrace, ProtectorKubelet, ProtectorReset, ProtectorV1}

// Why says why nothing is done for memory.protection; empty: it is, or it is not known.
func (p MemoryProtector) Why() string {
	switch p {
	case ProtectorKubelet:
		return "the kubelet protects memory itself, by QoS class (MemoryQoS, memoryReservationPolicy TieredReservation)"
	case ProtectorReset:
		return "the kubelet writes 0 each minute (MemoryQoS without a reservation, before 1.37)"
	case ProtectorV1:
		return "cgroup v1 protects no memory"
	default:
		return ""
	}
}

// Remedy says what to set in the kubelet's configuration, or to do, so that it is done.
func (p MemoryProtector) Remedy() string {
	switch p {
	case ProtectorKubelet:
		return "set memoryReservationPolicy None (from 1.37) or the feature gate MemoryQoS off"
	case ProtectorReset:
		return "set memoryReservationPolicy TieredReservation or the feature gate MemoryQoS off, or use kubelet 1.37"
	case ProtectorV1:
		return "use cgroup v2"
	default:
		return ""
	}
}

// over takes away from an outcome what the node's files of memory do not allow.
func (p MemoryProtector) over(o *Outcome) {
	why := p.Why()
	switch {
	case why == "" || o.Got == "":
	case o.Field == "memory.protection" && (p == ProtectorKubelet || o.Got != string(v1alpha1.MemoryProtectionNone)):
		o.Got, o.Why = "", why
	case o.Field == "memory.throttlePercent" && p == ProtectorV1:
		o.Got, o.Why = "", "cgroup v1 throttles no memory"
	}
}
