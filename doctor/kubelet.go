package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// kubeletConfiguration: what kubelets are configured to do contradicts neither the node enforcer nor the policies.
func kubeletConfiguration(s *Snapshot) (found []Finding) {
	type remark struct {
		severity        Severity
		message, remedy string
	}
	said := map[remark][]string{}
	longest, by := longestGrace(s.PodPolicies)
	cgroupfs := 0
	for node, k := range s.Kubelets {
		note := func(severity Severity, message, remedy string) {
			said[remark{severity, message, remedy}] = append(said[remark{severity, message, remedy}], node)
		}
		if k.CgroupDriver != "systemd" {
			cgroupfs++
		}
		if k.CgroupsPerQOS != nil && !*k.CgroupsPerQOS {
			note(Error, "cgroupsPerQOS is false: pods have no cgroups of their own that a node enforcer could plan", "set cgroupsPerQOS: true, or keep the node enforcer off these nodes")
		}
		if k.FailCgroupV1 != nil && !*k.FailCgroupV1 {
			note(Note, "failCgroupV1 is false, so that the node may have cgroup v1: there memory.low, memory.high and memory.pressure do not exist", "move the nodes to cgroup v2, for all that policies can ask of a node")
		}
		within := k.ShutdownGracePeriod.Duration - k.ShutdownGracePeriodCriticalPods.Duration
		if k.ShutdownGracePeriod.Duration > 0 && within < longest && len(k.ShutdownGracePeriodByPodPriority) == 0 {
			note(Warning, fmt.Sprintf("a shutdown of the node ends pods after %s (shutdownGracePeriod less shutdownGracePeriodCriticalPods), where PodPolicy %s gives them %s", within, by, longest),
				"raise shutdownGracePeriod, or lower what the policy gives")
		}
		if k.FeatureGates["MemoryQoS"] && k.MemoryReservationPolicy != kubeletconfigv1beta1.TieredReservationMemoryReservationPolicy && protectsMemory(s.PodPolicies) {
			note(Warning, "the feature gate MemoryQoS is on and nothing is reserved: before 1.37 the kubelet then writes 0 above what policies protect", "set memoryReservationPolicy: TieredReservation, or the gate off")
		}
	}
	for _, r := range slices.SortedFunc(maps.Keys(said), func(a, b remark) int { return strings.Compare(a.message, b.message) }) {
		found = append(found, ofNodes(said[r], Finding{Severity: r.severity, Message: r.message, Remedy: r.remedy})...)
	}
	var silent []string
	for i := range s.Nodes {
		if n := &s.Nodes[i]; s.Kubelets[n.Name] == nil && virtual(n) == "" {
			silent = append(silent, n.Name)
		}
	}
	found = append(found, ofNodes(silent, Finding{Severity: Note, Message: "the kubelet did not tell its configuration, so that nothing is known of it", Remedy: "look whether the node is ready"})...)
	if set := s.enforcer(); len(s.Kubelets) > 0 && cgroupfs == len(s.Kubelets) && (set == nil && s.webhook() == nil || set != nil && hostPath(set, "dbus") != "") {
		found = append(found, Finding{
			Severity: Note, About: "node enforcer", Message: "every kubelet that was asked has the cgroup driver cgroupfs: systemd's bus, by which one is root on the host, is not needed",
			Remedy: "leave it out", Values: []string{"nodeEnforcer.dbus=false"},
		})
	}
	return found
}

// longestGrace is the longest grace period that a policy gives, by default or as a minimum, and which policy does. 0: none.
func longestGrace(policies []v1alpha1.PodPolicy) (longest time.Duration, by string) {
	for _, p := range policies {
		if p.Spec.GracePeriod == nil {
			continue
		}
		for _, seconds := range []*int64{p.Spec.GracePeriod.DefaultSeconds, p.Spec.GracePeriod.MinSeconds} {
			if seconds == nil {
				continue
			}
			if d := time.Duration(*seconds) * time.Second; d > longest {
				longest, by = d, p.Name
			}
		}
	}
	return longest, by
}

// protectsMemory says whether a policy asks a node to protect memory.
func protectsMemory(policies []v1alpha1.PodPolicy) bool {
	return slices.ContainsFunc(policies, func(p v1alpha1.PodPolicy) bool {
		return p.Spec.Node != nil && p.Spec.Node.Memory != nil && cmp.Or(string(p.Spec.Node.Memory.Protection), "None") != "None"
	})
}
