package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// exclusivity says how to know which containers have CPUs of their own.
type exclusivity struct {
	matters  bool // the feature gate DisableCPUQuotaWithExclusiveCPUs: such a container has no quota
	unknown  bool // the policy is static and its state can't be read
	podLevel bool // the feature gate PodLevelResourceManagers
}

// setCPUs reads the CPU manager's state, if its policy is static; else no cpuset is written below kubepods.
func (s *settings) setCPUs(n Node, k *kubeletconfigv1beta1.KubeletConfiguration) (note string) {
	s.exclusive = exclusivity{
		matters:  n.enabled(gateNoQuotaWithExclusiveCPUs),
		unknown:  n.CPUs == nil && k.CPUManagerPolicy == policyStatic,
		podLevel: n.enabled(gatePodLevelResourceManagers),
	}
	if n.CPUs != nil && n.CPUs.PolicyName == policyStatic {
		var err error
		if s.cpus, err = newCPUs(n.CPUs); err != nil {
			s.exclusive.unknown = true
			return fmt.Sprintf("the kubelet's cpu_manager_state: %v; no cpuset, and no quota of a Guaranteed pod, is planned", err)
		}
	}
	if s.exclusive.unknown {
		return "the kubelet's CPU manager is static and its state is not known: no cpuset, and no quota of a Guaranteed pod, is planned"
	}
	return ""
}

// containerCPUs: the CPUs that the container has to itself, else those that all others share. The kubelet compares every 10 s, with
// what it remembers and not with the file (pkg/kubelet/cm/cpumanager/cpu_manager.go reconcileState, 1.36.3). It leaves out ephemeral
// containers.
func containerCPUs(b *builder, m *member, c *container) []value {
	if b.set.cpus == nil || c.ephemeral {
		return nil
	}
	list := b.set.cpus.exclusive[m.uid][c.spec.Name]
	if list == "" {
		list = b.set.cpus.shared
	}
	if list == "" {
		return nil
	}
	return []value{{file: "cpuset.cpus", why: Always, want: list}}
}

// containerExclusive says whether a container has CPUs of its own, and whether that is known.
func (b *builder) containerExclusive(m *member, c *container) (exclusive, known bool) {
	if !b.set.exclusive.matters {
		return false, true
	}
	if b.set.exclusive.unknown {
		return false, m.class != corev1.PodQOSGuaranteed
	}
	return b.isolated(m, c.spec), true
}

// podExclusive says whether a pod has containers with CPUs of their own (pkg/kubelet/cm/container_manager_linux.go
// PodHasExclusiveCPUs, 1.36.3): any, or, of a pod with resources of its own and behind PodLevelResourceManagers, all.
func (b *builder) podExclusive(m *member) (exclusive, known bool) {
	if !b.set.exclusive.matters {
		return false, true
	}
	if b.set.exclusive.unknown {
		return false, m.class != corev1.PodQOSGuaranteed
	}
	all := b.set.exclusive.podLevel && resourcehelper.IsPodLevelResourcesSet(m.pod)
	for _, containers := range [][]corev1.Container{m.pod.Spec.InitContainers, m.pod.Spec.Containers} {
		for i := range containers {
			if b.isolated(m, &containers[i]) != all {
				return !all, true
			}
		}
	}
	return all, true
}

func (b *builder) isolated(m *member, c *corev1.Container) bool {
	if b.set.cpus == nil || b.set.cpus.exclusive[m.uid][c.Name] == "" {
		return false
	}
	if b.set.exclusive.podLevel && resourcehelper.IsPodLevelResourcesSet(m.pod) {
		return wholeCPUs(c.Resources)
	}
	return true
}

// wholeCPUs is what a container needs for CPUs of its own (cpu_manager.go resourcesQualifyForExclusiveCPUs, 1.36.3).
func wholeCPUs(r corev1.ResourceRequirements) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := r.Requests[name], r.Limits[name]
		if request.IsZero() || !request.Equal(limit) {
			return false
		}
	}
	cpu := r.Limits[corev1.ResourceCPU]
	return cpu.Value()*1000 == cpu.MilliValue()
}
