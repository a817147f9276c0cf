package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/kube"
	"github.com/podgrace/podgrace/internal/pod/graceperiod/deadline"
)

// newestMinor is the newest 1.x that the tests run.
const newestMinor = 36

// kubernetesVersion: the API server is of a supported version.
func kubernetesVersion(s *Snapshot) []Finding {
	v, err := version.ParseGeneric(s.Server)
	switch {
	case err != nil:
		return []Finding{{Severity: Warning, About: "API server", Message: fmt.Sprintf("its version %q can't be read, so that nothing can be said of it", s.Server)}}
	case v.Major() != 1 || v.Minor() < kube.OldestMinor:
		return []Finding{{
			Severity: Error, About: "API server " + s.Server, Message: fmt.Sprintf("it is older than 1.%d: there Podgrace's programs end with that reason", kube.OldestMinor),
			Remedy: fmt.Sprintf("upgrade the cluster to 1.%d or newer first", kube.OldestMinor),
		}}
	case v.Minor() > newestMinor:
		return []Finding{{Severity: Note, About: "API server " + s.Server, Message: fmt.Sprintf("it is newer than 1.%d, the newest version that this Podgrace was tested with", newestMinor), Remedy: "try it elsewhere first, or look for a newer Podgrace"}}
	}
	return nil
}

// maxSkew is how many minor versions a kubelet may be older than its API server (kubernetes.io, version skew policy).
const maxSkew = 3

// kubeletSkew: the kubelets are neither newer than the API server, nor too old for it, nor for the node enforcer.
func kubeletSkew(s *Snapshot) []Finding {
	server, err := version.ParseGeneric(s.Server)
	if err != nil {
		return nil // kubernetesVersion says so
	}
	var newer, older, early, unknown []string
	for i := range s.Nodes {
		n := &s.Nodes[i]
		v, err := version.ParseGeneric(n.Status.NodeInfo.KubeletVersion)
		switch {
		case err != nil:
			unknown = append(unknown, n.Name)
		case v.Minor() > server.Minor():
			newer = append(newer, n.Name)
		case v.Minor()+maxSkew < server.Minor():
			older = append(older, n.Name)
		case v.Minor() < kube.OldestMinor && osOf(n) == "linux" && virtual(n) == "":
			early = append(early, n.Name)
		}
	}
	return slices.Concat(
		ofNodes(newer, Finding{Severity: Error, Message: "the kubelet is newer than the API server, which Kubernetes does not support", Remedy: "upgrade the control plane first"}),
		ofNodes(older, Finding{Severity: Warning, Message: fmt.Sprintf("the kubelet is more than %d minor versions older than the API server, which Kubernetes does not support", maxSkew), Remedy: "upgrade these nodes"}),
		ofNodes(early, Finding{
			Severity: Warning, Message: fmt.Sprintf("the kubelet is older than 1.%d: the node enforcer may not read its configuration there, and plans nothing", kube.OldestMinor),
			Remedy: "upgrade these nodes, or keep the node enforcer off them (nodeEnforcer.nodeSelector)",
		}),
		ofNodes(unknown, Finding{Severity: Note, Message: "the kubelet has not told its version", Remedy: "look whether these nodes have ever been ready"}),
	)
}

// ofNodes is the finding about these nodes; none without nodes.
func ofNodes(names []string, f Finding) []Finding {
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	f.About = fmt.Sprintf("%s %s", console.Noun(len(names), "node", "nodes"), console.Some(names, 3, ", "))
	return []Finding{f}
}

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

// gracePeriods: who stops a node waits as long as the policies have pods take.
func gracePeriods(s *Snapshot) (found []Finding) {
	longest, by := longestGrace(s.PodPolicies)
	if longest == 0 {
		return nil
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(longest / time.Second))}}
	var autoscaler *time.Duration
	for i := range s.Deployments {
		if waits := deadline.AutoscalerOf(&s.Deployments[i]); waits != nil {
			autoscaler = waits
		}
	}
	nodes, order := map[deadline.Deadline][]string{}, []deadline.Deadline{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		f := deadline.Facts{Labels: n.Labels, Kubelet: s.Kubelets[n.Name], Autoscaler: autoscaler}
		for j := range s.NodePools {
			if p := &s.NodePools[j]; n.Labels[deadline.LabelNodePool] == p.Name {
				f.Pool = p
			}
		}
		for _, d := range deadline.Short(pod, f) {
			if nodes[d] == nil {
				order = append(order, d)
			}
			nodes[d] = append(nodes[d], n.Name)
		}
	}
	for _, d := range order {
		found = append(found, ofNodes(nodes[d], Finding{
			Severity: Warning, Message: fmt.Sprintf("%s leaves a pod %d s at most, where PodPolicy %s gives it %d s", d.Of, d.Seconds, by, int64(longest/time.Second)),
			Remedy: d.Remedy + ", or lower what the policy gives",
		})...)
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
