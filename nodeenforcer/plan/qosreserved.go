package plan

import corev1 "k8s.io/api/core/v1"

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

// qosMemory is the level's limit. One that is not positive can't be written: the requests are more than there is.
func qosMemory(b *builder, class corev1.PodQOSClass) []value {
	if b.reserved == nil {
		return nil
	}
	limit := b.reserved.burstable
	if class == corev1.PodQOSBestEffort {
		limit = b.reserved.besteffort
	}
	if limit < b.node.PageSize {
		b.noteNode("qosReserved leaves no memory to class %s: the requests of the classes above it are all that is allocatable; it is not limited", class)
		return nil
	}
	return []value{{file: b.memoryFile(), why: b.reserved.why, want: b.node.memoryBytes(limit)}}
}
