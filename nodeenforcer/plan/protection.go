package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// The kernel's protections of memory, cgroup v2.
const (
	fileMin = "memory.min"
	fileLow = "memory.low"
)

// protected is memory in bytes that reclaim spares: hard, and as long as it can.
type protected struct{ min, low int64 }

func (p protected) plus(q protected) protected {
	return protected{plus(p.min, q.min), plus(p.low, q.low)}
}

// protect gives each pod its protection, and its ancestors the sum of those below: the kernel caps a group's by that of every
// ancestor. A pod has at most its request, and all together at most the policy's part of what is allocatable.
//
// Where the files are the kubelet's (settings.memoryProtector) nothing of the contract or the policy is planned.
func (b *builder) protect() {
	b.noteForeignThrottle()
	if b.set.protector != enforcement.ProtectorPodgrace {
		b.noteForeignProtection()
		return
	}
	asked := b.policy.Memory != nil || b.policy.Bounds != nil
	allocatable := b.set.allocatable.Memory().Value()
	var total int64
	for _, m := range b.members {
		degree, given := b.degree(m)
		asked = asked || given
		m.degree = degree
		if protects(degree) {
			m.protected = m.degreeOf(b.node.floorPage(min(m.requests.Memory().Value(), allocatable)))
			total = plus(total, plus(m.protected.min, m.protected.low))
		}
	}
	b.protects = asked
	most := portion(allocatable, b.bounds.ProtectedPercent, 100)
	if total > most {
		b.notes = append(b.notes, Note{Protection: true, Message: fmt.Sprintf(
			"memory protection of all pods is lowered in proportion, from %d to %d bytes: bounds.maxProtectedMemoryPercent %d", total, most, b.bounds.ProtectedPercent)})
	}
	for _, m := range b.members {
		if total > most {
			m.protected = protected{b.node.floorPage(portion(m.protected.min, most, total)), b.node.floorPage(portion(m.protected.low, most, total))}
		}
		b.sum = b.sum.plus(m.protected)
		if m.class == corev1.PodQOSBurstable {
			b.burstable = b.burstable.plus(m.protected)
		}
		b.shareProtection(m)
	}
}

// noteForeignProtection says whose wishes the kubelet overrides, and what to set.
func (b *builder) noteForeignProtection() {
	p := b.set.protector
	if p == enforcement.ProtectorV1 {
		if m := b.policy.Memory; m != nil && (m.Protection == v1alpha1.NodeMemoryProtectionTiered || m.ThrottlePercent != nil) {
			b.noteNode("memory of the NodePolicy is not planned: cgroup v1 neither protects memory nor throttles it")
		}
		return // what pods ask for is for all nodes
	}
	because := fmt.Sprintf("is not planned: %s; to have it, %s", p.Why(), p.Remedy())
	if m := b.policy.Memory; m != nil && m.Protection == v1alpha1.NodeMemoryProtectionTiered && p != enforcement.ProtectorKubelet {
		b.noteNode("memory.protection Tiered %s", because)
	}
	for _, m := range b.members {
		if c := m.contract; c != nil && c.Memory != nil && c.Memory.Protection != "" && !b.kubeletDoes(c.Memory.Protection, m.class) {
			b.note(m, "memory protection %s %s", c.Memory.Protection, because)
		}
	}
}

// kubeletDoes reports whether the kubelet gives a pod the protection that it asks for.
func (b *builder) kubeletDoes(asked v1alpha1.MemoryProtection, class corev1.PodQOSClass) bool {
	given := v1alpha1.NodeMemoryProtectionNone
	if b.set.protector == enforcement.ProtectorKubelet {
		given = v1alpha1.NodeMemoryProtectionTiered
	}
	return asked == tier(given, class)
}

// noteForeignThrottle says which pods' memory.high is the kubelet's, and not what they ask for.
func (b *builder) noteForeignThrottle() {
	if b.set.throttle == 0 {
		return
	}
	remedy := "set the feature gate MemoryQoS off"
	if b.set.newMemoryQoS {
		remedy = "set no memoryThrottlingFactor"
	}
	for _, m := range b.members {
		if c := m.contract; c != nil && c.Memory != nil && c.Memory.ThrottlePercent != nil {
			b.note(m, "memory throttling at %d%% is not planned: memory.high is the kubelet's (MemoryQoS, memoryThrottlingFactor %g); to have it, %s", *c.Memory.ThrottlePercent, b.set.throttle, remedy)
		}
	}
}

// degree is how a pod's memory is protected, and whether anybody says so: the contract, bounded, else the policy by QoS class
// (KEP-2570: hard for Guaranteed, as long as it can for Burstable). A pod without a request has nothing to protect.
func (b *builder) degree(m *member) (degree v1alpha1.MemoryProtection, given bool) {
	switch c := m.contract; {
	case c != nil && c.Memory != nil && c.Memory.Protection != "":
		degree = c.Memory.Protection
	case b.policy.Memory != nil:
		return tier(b.policy.Memory.Protection, m.class), true
	default:
		return "", false
	}
	if most := b.bounds.Lower(degree); most != degree {
		b.note(m, "memory protection %s is lowered to %s: bounds.maxProtection", degree, most)
		degree = most
	}
	if protects(degree) && (m.class == corev1.PodQOSBestEffort || m.requests.Memory().Value() <= 0) {
		b.note(m, "memory protection %s protects nothing: the pod requests no memory", degree)
		degree = v1alpha1.MemoryProtectionNone
	}
	return degree, true
}

// protects reports whether a degree keeps anything.
func protects(p v1alpha1.MemoryProtection) bool {
	return p == v1alpha1.MemoryProtectionLow || p == v1alpha1.MemoryProtectionMin
}

// tier is the policy's degree for a class. None is one too: what a policy protected before is so no more.
func tier(p v1alpha1.NodeMemoryProtection, class corev1.PodQOSClass) v1alpha1.MemoryProtection {
	switch {
	case p == v1alpha1.NodeMemoryProtectionTiered && class == corev1.PodQOSGuaranteed:
		return v1alpha1.MemoryProtectionMin
	case p == v1alpha1.NodeMemoryProtectionTiered && class == corev1.PodQOSBurstable:
		return v1alpha1.MemoryProtectionLow
	default:
		return v1alpha1.MemoryProtectionNone
	}
}

// degreeOf is so many bytes, of the pod's degree.
func (m *member) degreeOf(bytes int64) protected {
	if m.degree == v1alpha1.MemoryProtectionMin {
		return protected{min: bytes}
	}
	return protected{low: bytes}
}

// shareProtection gives the pod's running containers their requests, less where the pod has less than their sum.
func (b *builder) shareProtection(m *member) {
	whole, sum := plus(m.protected.min, m.protected.low), int64(0)
	request := func(c *container) int64 { return min(max(c.spec.Resources.Requests.Memory().Value(), 0), whole) }
	for _, c := range m.containers {
		sum = plus(sum, request(c))
	}
	for _, c := range m.containers {
		bytes := request(c)
		if sum > whole {
			bytes = portion(bytes, whole, sum)
		}
		c.protected = m.degreeOf(b.node.floorPage(bytes))
	}
}

// both are the two files, also where they hold 0: what protects nothing any more must say so.
func (b *builder) both(p protected) []value {
	return []value{{file: fileMin, why: Asked, want: b.node.memoryBytes(p.min)}, {file: fileLow, why: Asked, want: b.node.memoryBytes(p.low)}}
}

// theirs reports whether the kubelet writes the files of protection each minute.
func (s *settings) theirs() bool {
	return s.protector == enforcement.ProtectorKubelet || s.protector == enforcement.ProtectorReset
}

// kubepodsProtection: the kubelet's memory.min is the sum of all requests; from 1.37 there is memory.low, the sum of the Burstable pods'
// (qos_container_manager_linux.go setMemoryQoS, 1.36.3 and 1.37.0).
func kubepodsProtection(b *builder) []value {
	switch {
	case b.set.theirs():
		files := []value{{file: fileMin, why: MemoryQoS, want: b.node.memoryBytes(b.tieredRequests(corev1.PodQOSGuaranteed, corev1.PodQOSBurstable))}}
		if b.set.newMemoryQoS {
			files = append(files, value{file: fileLow, why: MemoryQoS, want: b.node.memoryBytes(b.tieredRequests(corev1.PodQOSBurstable))})
		}
		return files
	case b.protects:
		return b.both(b.sum)
	default:
		return nil
	}
}

// qosProtection is the Burstable level's. The BestEffort level has none to give.
func qosProtection(b *builder, class corev1.PodQOSClass) []value {
	switch {
	case class != corev1.PodQOSBurstable:
		return nil
	case b.set.theirs():
		return []value{{file: fileLow, why: MemoryQoS, want: b.node.memoryBytes(b.tieredRequests(class))}}
	case b.protects:
		return b.both(b.burstable)
	default:
		return nil
	}
}

// tieredRequests is the sum of the classes' requests, as the pods' specs say; 0 unless the kubelet reserves in tiers.
func (b *builder) tieredRequests(classes ...corev1.PodQOSClass) (bytes int64) {
	if !b.set.tiered {
		return 0
	}
	for _, m := range b.members {
		for _, class := range classes {
			if m.class == class {
				bytes = plus(bytes, m.specRequestsAlways.Memory().Value())
			}
		}
	}
	return bytes
}

// podProtection: the kubelet's is written at creation and not at a resize (helpers_linux.go ResourceConfigForPod and
// kuberuntime_manager.go doPodResizeAction, 1.36.3).
func podProtection(b *builder, m *member) []value {
	switch {
	case b.set.theirs():
		request := m.requests.Memory().Value()
		if !b.set.tiered || request <= 0 {
			return nil
		}
		return []value{{file: tierFile(m.class), why: MemoryQoS, want: b.node.memoryBytes(request)}}
	case m.degree != "":
		return b.both(m.protected)
	default:
		return nil
	}
}

// containerProtection: the kubelet's is the container's request, or 0 of both kinds, which the runtime writes when it makes or resizes the container
// (kuberuntime_container_linux.go generateLinuxContainerResources, 1.36.3 and 1.37.0).
func containerProtection(b *builder, m *member, c *container) []value {
	switch {
	case m.degree != "":
		return b.both(c.protected)
	case b.set.memoryQoS:
		request := c.spec.Resources.Requests.Memory().Value()
		if request != 0 && b.set.tiered {
			return []value{{file: tierFile(m.class), why: MemoryQoS, want: b.node.memoryBytes(request)}}
		}
		return []value{{file: fileMin, why: MemoryQoS, want: "0"}, {file: fileLow, why: MemoryQoS, want: "0"}}
	default:
		return nil
	}
}

func tierFile(class corev1.PodQOSClass) string {
	if class == corev1.PodQOSGuaranteed {
		return fileMin
	}
	return fileLow
}
