package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// member is a pod of the node, and what is planned from.
type member struct {
	// pod as the kubelet allocated it; its resources may not be the spec's.
	pod   *corev1.Pod
	uid   string // the kubelet's
	class corev1.PodQOSClass
	path  string // empty: its cgroup can't be named
	// requests and limits of the allocated pod, with overhead; limited reports whether a limit holds for all of it.
	requests, limits          corev1.ResourceList
	cpuLimited, memoryLimited bool
	// specRequests are by the spec, which is what the QoS levels are made from: of cpu, and always with those of the pod itself.
	specRequests, specRequestsAlways corev1.ResourceList
	contract                         *v1alpha1.Enforcement
	containers                       []*container
	degree                           v1alpha1.MemoryProtection // empty: nobody says
	protected                        protected
}

// container is one that runs.
type container struct {
	spec      *corev1.Container
	name      string // of the cgroup, below the pod's
	ephemeral bool
	podLimits corev1.ResourceList // the pod's own, if they count
	protected protected
}

// limit is the container's own or, where it has none, the pod's (getCPULimit and getMemoryLimit, kuberuntime_container_linux.go,
// 1.36.3).
func (c *container) limit(name corev1.ResourceName) (q quantity) {
	if q = c.spec.Resources.Limits[name]; q.IsZero() && c.podLimits != nil {
		q = c.podLimits[name]
	}
	return q
}

func (m *member) name() types.NamespacedName {
	return types.NamespacedName{Namespace: m.pod.Namespace, Name: m.pod.Name}
}

// active are the pods that have cgroups, each once, in the order of their names: those of the node that have not ended. Of pods that
// claim one UID, at most one is believed: the one whose own it is.
func (b *builder) active(pods []*corev1.Pod) []*member {
	var members []*member
	for _, p := range pods {
		switch {
		case p == nil || graceperiod.Finished(p):
		case p.Spec.OS != nil && p.Spec.OS.Name != corev1.Linux: // the kubelet rejects it (pkg/kubelet/lifecycle/predicate.go rejectPodAdmissionBasedOnOSField, 1.36.3)
		case p.Spec.NodeName != "" && b.node.Name != "" && p.Spec.NodeName != b.node.Name:
		default:
			members = append(members, b.newMember(p))
		}
	}
	byName := func(x, y *member) int {
		return cmp.Or(cmp.Compare(x.pod.Namespace, y.pod.Namespace), cmp.Compare(x.pod.Name, y.pod.Name), cmp.Compare(x.uid, y.uid))
	}
	slices.SortFunc(members, byName)
	claims := map[string][]*member{}
	for _, m := range members {
		claims[m.uid] = append(claims[m.uid], m)
	}
	return slices.DeleteFunc(members, func(m *member) bool {
		if m.uid == "" || believe(claims[m.uid]) == m {
			return false
		}
		b.unusable(m, "it is left out: another pod has or claims its UID %q", m.uid)
		return true
	})
}

// believe returns the one of several pods to which their UID belongs: the first that has it as its own, else the only one that
// claims it. Anybody who may create pods can claim to be a mirror, and would then speak for another's cgroup.
func believe(claims []*member) *member {
	for _, m := range claims {
		if string(m.pod.UID) == m.uid {
			return m
		}
	}
	if len(claims) != 1 {
		return nil
	}
	return claims[0]
}

func (b *builder) newMember(raw *corev1.Pod) *member {
	pod := Allocated(raw)
	m := &member{pod: pod, uid: kubeletUID(pod), class: QOSClass(pod, b.set.podLevel)}
	options := resourcehelper.PodResourcesOptions{SkipPodLevelResources: !b.set.podLevel}
	m.requests = resourcehelper.PodRequests(pod, options)
	m.specRequests = resourcehelper.PodRequests(raw, options)
	m.specRequestsAlways = resourcehelper.PodRequests(raw, resourcehelper.PodResourcesOptions{})
	m.setLimits(options)
	if pending, ok := resizeCondition(pod, corev1.PodResizePending); ok {
		b.note(m, "it is planned as the kubelet has allocated it, and not as its spec asks: its resize is pending (%s)", cmp.Or(pending.Reason, "no reason given"))
	}
	if name, err := b.set.root.pod(m.class, m.uid); err != nil {
		b.unusable(m, "it has no plan of its own: %v", err)
	} else {
		// The root's own names were tried before.
		m.path, _ = name.path(b.node.Driver)
	}
	b.readContract(m)
	if m.path != "" {
		m.containers = b.running(m)
	}
	return m
}

// setLimits: a limit holds for the whole pod where each container has it, or the pod itself (helpers_linux.go ResourceConfigForPod,
// 1.36.3). The limits of the pod itself count in the sum even where the gate is off; such a pod is not admitted then.
func (m *member) setLimits(options resourcehelper.PodResourcesOptions) {
	m.cpuLimited, m.memoryLimited = true, true
	m.limits = resourcehelper.PodLimits(m.pod, resourcehelper.PodResourcesOptions{
		SkipPodLevelResources: options.SkipPodLevelResources,
		ContainerFn: func(list corev1.ResourceList, _ resourcehelper.ContainerType) {
			m.cpuLimited = m.cpuLimited && !list.Cpu().IsZero()
			m.memoryLimited = m.memoryLimited && !list.Memory().IsZero()
		},
	})
	if !options.SkipPodLevelResources && resourcehelper.IsPodLevelResourcesSet(m.pod) {
		m.cpuLimited = m.cpuLimited || !m.pod.Spec.Resources.Limits.Cpu().IsZero()
		m.memoryLimited = m.memoryLimited || !m.pod.Spec.Resources.Limits.Memory().IsZero()
	}
}

// readContract reads the pod's annotation. Without a policy nothing bounds it, and it does not count.
func (b *builder) readContract(m *member) {
	text, ok := m.pod.Annotations[v1alpha1.AnnotationEnforcement]
	if !ok {
		return
	}
	contract, err := enforcement.Parse(text)
	switch {
	case err != nil:
		b.unusable(m, "its contract is ignored: %v", err)
	case b.managed:
		m.contract = contract
	}
	if m.contract != nil && m.contract.OOM != nil && m.contract.OOM.Rank > 0 && !m.ranked() {
		b.note(m, "oom rank %d has no effect: only Burstable pods that are not node-critical have an order", m.contract.OOM.Rank)
	}
}

// running are the pod's containers that run, in the order of its spec.
func (b *builder) running(m *member) []*container {
	var found []*container
	spec, status := &m.pod.Spec, &m.pod.Status
	var podLimits corev1.ResourceList
	if b.set.podLevel && resourcehelper.IsPodLevelResourcesSet(m.pod) {
		podLimits = spec.Resources.Limits
	}
	add := func(c *corev1.Container, statuses []corev1.ContainerStatus, ephemeral bool) {
		s := statusOf(statuses, c.Name)
		if s == nil || s.State.Running == nil || s.ContainerID == "" {
			return
		}
		name, err := containerName(b.node.Driver, s.ContainerID)
		if err != nil {
			b.unusable(m, "container %s has no plan: %v", c.Name, err)
			return
		}
		if slices.ContainsFunc(found, func(o *container) bool { return o.name == name }) {
			b.unusable(m, "container %s has no plan: another has its id", c.Name)
			return
		}
		found = append(found, &container{spec: c, name: name, ephemeral: ephemeral, podLimits: podLimits})
	}
	for i := range spec.InitContainers {
		add(&spec.InitContainers[i], status.InitContainerStatuses, false)
	}
	for i := range spec.Containers {
		add(&spec.Containers[i], status.ContainerStatuses, false)
	}
	for i := range spec.EphemeralContainers {
		c := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		add(&c, status.EphemeralContainerStatuses, true)
	}
	return found
}

// note is for the reader of the plan.
func (b *builder) note(m *member, format string, args ...any) {
	b.notes = append(b.notes, Note{Pod: m.name(), Message: fmt.Sprintf(format, args...)})
}

// unusable is a note about what can't be used.
func (b *builder) unusable(m *member, format string, args ...any) {
	b.notes = append(b.notes, Note{Pod: m.name(), Message: fmt.Sprintf(format, args...), Unusable: true})
}

func (b *builder) unusableNode(format string, args ...any) {
	b.notes = append(b.notes, Note{Message: fmt.Sprintf(format, args...), Unusable: true})
}

func (b *builder) noteNode(format string, args ...any) {
	b.notes = append(b.notes, Note{Message: fmt.Sprintf(format, args...)})
}

// Allocated is the pod with the resources that the kubelet has admitted for it, which are what it writes to cgroups: while a resize
// is not accepted, the old ones (pkg/kubelet/allocation/allocation_manager.go UpdatePodFromAllocation, 1.36.3; its checkpoint is
// not in the API, so they are read from the status that pkg/kubelet/kubelet_pods.go makes of it: the requests as allocated, the
// limits as actuated). The pod itself is returned where nothing differs, and is never changed.
func Allocated(pod *corev1.Pod) *corev1.Pod {
	old := awaitsResize(pod)
	var changed *corev1.Pod
	replace := func(i int, init bool, r *corev1.ResourceRequirements) {
		if r == nil {
			return
		}
		if changed == nil {
			changed = pod.DeepCopy()
		}
		if init {
			changed.Spec.InitContainers[i].Resources = *r
		} else {
			changed.Spec.Containers[i].Resources = *r
		}
	}
	for i := range pod.Spec.Containers {
		replace(i, false, allocatedContainer(&pod.Spec.Containers[i], pod.Status.ContainerStatuses, old))
	}
	for i := range pod.Spec.InitContainers {
		replace(i, true, allocatedContainer(&pod.Spec.InitContainers[i], pod.Status.InitContainerStatuses, old))
	}
	if r := allocatedPodLevel(pod); old && r != nil {
		if changed == nil {
			changed = pod.DeepCopy()
		}
		changed.Spec.Resources = r
	}
	if changed == nil {
		return pod
	}
	return changed
}

// awaitsResize reports whether the kubelet has not accepted what the spec says: it refused it, put it off, or has not seen it yet.
func awaitsResize(pod *corev1.Pod) bool {
	_, pending := resizeCondition(pod, corev1.PodResizePending)
	return pending || unobserved(pod)
}

// Resizing reports whether the kubelet resizes a pod in place, or may at any moment: it is at it, has put it off, or the spec has changed and
// it has not told what it makes of that. What it refused (Infeasible) it tries again with another spec only
// (pkg/kubelet/allocation/allocation_manager.go retryPendingResizes, 1.36.3).
func Resizing(pod *corev1.Pod) bool {
	pending, ok := resizeCondition(pod, corev1.PodResizePending)
	_, inProgress := resizeCondition(pod, corev1.PodResizeInProgress)
	return inProgress || ok && pending.Reason != corev1.PodReasonInfeasible || unobserved(pod)
}

func unobserved(pod *corev1.Pod) bool {
	return pod.Status.ObservedGeneration != 0 && pod.Status.ObservedGeneration < pod.Generation
}

// resizeCondition is a condition that is True.
func resizeCondition(pod *corev1.Pod, of corev1.PodConditionType) (corev1.PodCondition, bool) {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == of && c.Status == corev1.ConditionTrue })
	if i < 0 {
		return corev1.PodCondition{}, false
	}
	return pod.Status.Conditions[i], true
}

// allocatedContainer returns a container's allocated resources where they are not the spec's, else nil.
func allocatedContainer(c *corev1.Container, statuses []corev1.ContainerStatus, old bool) *corev1.ResourceRequirements {
	s := statusOf(statuses, c.Name)
	if s == nil || s.Resources == nil {
		return nil
	}
	if s.AllocatedResources == nil && len(c.Resources.Requests) > 0 {
		return nil // an older kubelet, or one that has not told yet
	}
	if !old && equality.Semantic.DeepEqual(s.AllocatedResources, c.Resources.Requests) {
		return nil
	}
	if equality.Semantic.DeepEqual(s.AllocatedResources, c.Resources.Requests) && equality.Semantic.DeepEqual(s.Resources.Limits, c.Resources.Limits) {
		return nil
	}
	r := c.Resources.DeepCopy()
	r.Requests, r.Limits = s.AllocatedResources.DeepCopy(), s.Resources.Limits.DeepCopy()
	// The status also has as a container's what it has of the pod: the limits of its cgroup.
	maps.DeleteFunc(r.Limits, func(name corev1.ResourceName, _ quantity) bool { _, own := c.Resources.Limits[name]; return !own })
	return r
}

// allocatedPodLevel returns the allocated resources of a pod that has some of its own. The status counts its overhead with them.
func allocatedPodLevel(pod *corev1.Pod) *corev1.ResourceRequirements {
	if pod.Spec.Resources == nil || pod.Status.Resources == nil || pod.Status.AllocatedResources == nil {
		return nil
	}
	r := pod.Spec.Resources.DeepCopy()
	without := func(list, status corev1.ResourceList) {
		for name := range list {
			q, told := status[name]
			if !told || !podLevelResource(name) {
				continue
			}
			q = q.DeepCopy()
			if !q.IsZero() { // a limit of 0 is none, and got no overhead
				q.Sub(pod.Spec.Overhead[name])
			}
			list[name] = q
		}
	}
	without(r.Requests, pod.Status.AllocatedResources)
	without(r.Limits, pod.Status.Resources.Limits)
	return r
}

// podLevelResource says which resources a pod may have of its own (KEP-2837).
func podLevelResource(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func statusOf(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}

// QOSClass is the pod's QoS class as the kubelet sees it: the one in its status, else computed from its resources; from those of
// the pod alone where it has any and the feature gate PodLevelResources is on (pkg/apis/core/v1/helper/qos/qos.go, 1.36.3).
func QOSClass(pod *corev1.Pod, podLevelResources bool) corev1.PodQOSClass {
	switch class := pod.Status.QOSClass; class {
	case corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort:
		return class
	}
	var s qosSums
	s.limited = true
	if r := pod.Spec.Resources; podLevelResources && r != nil {
		s.add(*r)
	} else {
		for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range containers {
				s.add(containers[i].Resources)
			}
		}
	}
	return s.class()
}

// qosSums are the requests and limits of cpu and memory of all that count, and whether each has limits of both.
type qosSums struct {
	requests, limits [2]resource.Quantity
	limited          bool
}

func (s *qosSums) add(r corev1.ResourceRequirements) {
	for i, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q := r.Requests[name]; q.Sign() > 0 {
			s.requests[i].Add(q)
		}
		q := r.Limits[name]
		if q.Sign() > 0 {
			s.limits[i].Add(q)
		} else {
			s.limited = false
		}
	}
}

func (s *qosSums) class() corev1.PodQOSClass {
	any, equal := false, true
	for i := range s.requests {
		any = any || !s.requests[i].IsZero() || !s.limits[i].IsZero()
		equal = equal && s.requests[i].Cmp(s.limits[i]) == 0
	}
	switch {
	case !any:
		return corev1.PodQOSBestEffort
	case s.limited && equal:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}
