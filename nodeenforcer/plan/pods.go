package plan

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// member is a pod of the node, and what is planned from.
type member struct {
	// pod as the kubelet allocated it; its resources may not be the spec's.
	pod   *corev1.Pod
	uid   string // the kubelet's
	class corev1.PodQOSClass
	path  string // empty: its cgroup can't be named
	// requests and limits of the allocated pod, with overhead; limited says whether a limit holds for all of it.
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
		case p == nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
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
		b.note(m, "it is left out: another pod has or claims its UID %q", m.uid)
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
	if name, err := b.set.root.pod(m.class, m.uid); err != nil {
		b.note(m, "it has no plan of its own: %v", err)
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
	contract, err := ParseEnforcement(text)
	switch {
	case err != nil:
		b.note(m, "its contract is ignored: %v", err)
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
			b.note(m, "container %s has no plan: %v", c.Name, err)
			return
		}
		if slices.ContainsFunc(found, func(o *container) bool { return o.name == name }) {
			b.note(m, "container %s has no plan: another has its id", c.Name)
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

func (b *builder) noteNode(format string, args ...any) {
	b.notes = append(b.notes, Note{Message: fmt.Sprintf(format, args...)})
}
