package doctor

import (
	"cmp"
	"slices"

	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// kubeletConfiguration: what kubelets are configured to do contradicts neither the node enforcer nor the policies.
func kubeletConfiguration(s *Snapshot) (found []Finding) {
	said := map[remark][]string{}
	for node, k := range s.Kubelets {
		for _, r := range contradictions(k, s.PodPolicies) {
			said[r] = append(said[r], node)
		}
	}
	for _, r := range sortedRemarks(said) {
		found = append(found, ofNodes(said[r], Finding{Severity: r.severity, Message: r.message, Remedy: r.remedy})...)
	}
	var silent []string
	for i := range s.Nodes {
		if n := &s.Nodes[i]; s.Kubelets[n.Name] == nil && virtual(n) == "" {
			silent = append(silent, n.Name)
		}
	}
	found = append(found, ofNodes(silent, Finding{Severity: Note, Message: "the kubelet did not tell its configuration, so that nothing is known of it", Remedy: "look whether the node is ready"})...)
	return append(found, needlessBus(s)...)
}

// contradictions are what is to be said of one kubelet.
func contradictions(k *kubeletconfigv1beta1.KubeletConfiguration, policies []v1alpha1.PodPolicy) (all []remark) {
	if k.CgroupsPerQOS != nil && !*k.CgroupsPerQOS {
		all = append(all, remark{Error, "cgroupsPerQOS is false: pods have no cgroups of their own that a node enforcer could plan", "set cgroupsPerQOS: true, or keep the node enforcer off these nodes"})
	}
	if k.FailCgroupV1 != nil && !*k.FailCgroupV1 {
		all = append(all, remark{Note, "failCgroupV1 is false, so that the node may have cgroup v1: there memory.low, memory.high and memory.pressure do not exist", "move the nodes to cgroup v2, for all that policies can ask of a node"})
	}
	if k.FeatureGates["MemoryQoS"] && k.MemoryReservationPolicy != kubeletconfigv1beta1.TieredReservationMemoryReservationPolicy && protectsMemory(policies) {
		all = append(all, remark{Warning, "the feature gate MemoryQoS is on and nothing is reserved: before 1.37 the kubelet then writes 0 above what policies protect", "set memoryReservationPolicy: TieredReservation, or the gate off"})
	}
	return all
}

// needlessBus: where no kubelet has the systemd driver the node enforcer does without the host's D-Bus.
func needlessBus(s *Snapshot) []Finding {
	for _, k := range s.Kubelets {
		if k.CgroupDriver == "systemd" {
			return nil
		}
	}
	set := s.enforcer()
	if len(s.Kubelets) == 0 || set == nil && s.webhook() != nil || set != nil && hostPath(set, "dbus") == "" {
		return nil
	}
	return []Finding{{
		Severity: Note, About: "node enforcer", Message: "every kubelet that was asked has the cgroup driver cgroupfs: systemd's bus, by which one is root on the host, is not needed",
		Remedy: "leave it out", Values: []string{"nodeEnforcer.dbus=false"},
	}}
}

// protectsMemory reports whether a policy asks a node to protect memory.
func protectsMemory(policies []v1alpha1.PodPolicy) bool {
	return slices.ContainsFunc(policies, func(p v1alpha1.PodPolicy) bool {
		return p.Spec.Node != nil && p.Spec.Node.Memory != nil && cmp.Or(string(p.Spec.Node.Memory.Protection), "None") != "None"
	})
}
