package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// openshift: what is refused there without constraints of its own is asked for.
func openshift(s *Snapshot) []Finding {
	if !isDistribution(s, OpenShift) {
		return nil
	}
	values := []string{"openshift.scc.create=true", "nodeEnforcer.seLinuxType=spc_t"} // deploy/platforms/openshift.yaml
	set := s.enforcer()
	switch {
	case s.webhook() == nil && set == nil:
		return []Finding{{
			Severity: Note, About: "node enforcer", Message: "OpenShift admits its pods only by SecurityContextConstraints of their own, and SELinux enforces. Nobody has tried it there",
			Remedy: "if you install it (nodeEnforcer.enabled=true): with these values", Values: values,
		}}
	case set != nil && set.Status.DesiredNumberScheduled > 0 && set.Status.NumberReady == 0:
		return []Finding{{
			Severity: Error, About: "node enforcer", Message: "no pod of it is ready: OpenShift admits them only by SecurityContextConstraints of their own, and SELinux keeps them from cgroups without the type spc_t",
			Remedy: "upgrade with these values", Values: values, Commands: []string{"kubectl -n " + set.Namespace + " get events --field-selector reason=FailedCreate"},
		}}
	}
	return nil
}

// autopilot: no node enforcer is asked for where none is admitted.
func autopilot(s *Snapshot) []Finding {
	if !isDistribution(s, GKEAutopilot) || s.enforcer() == nil {
		return nil
	}
	return []Finding{{
		Severity: Error, About: "node enforcer", Message: "GKE Autopilot admits no pod with hostPID, hostNetwork and these folders of the host: policies' node sections and NodePolicies can't hold there",
		Remedy: "install without it", Values: []string{"nodeEnforcer.enabled=false"},
	}}
}

// nodesWithoutEnforcer: which nodes have none, whatever is installed.
func nodesWithoutEnforcer(s *Snapshot) []Finding {
	by := map[string][]string{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if what := cmp.Or(virtual(n), map[bool]string{true: osOf(n)}[osOf(n) != "linux"]); what != "" {
			by[what] = append(by[what], n.Name)
		}
	}
	var found []Finding
	for _, what := range slices.Sorted(maps.Keys(by)) {
		found = append(found, ofNodes(by[what], Finding{Severity: Note, Message: "of " + what + ": no node enforcer runs there, and what policies ask of a node does not hold. The webhook's part does"})...)
	}
	return found
}

// architectures: images are built for one as they come.
func architectures(s *Snapshot) []Finding {
	by := map[string][]string{}
	for _, n := range s.linux() {
		if arch := n.Status.NodeInfo.Architecture; arch != "" && arch != "amd64" {
			by[arch] = append(by[arch], n.Name)
		}
	}
	var found []Finding
	for _, arch := range slices.Sorted(maps.Keys(by)) {
		found = append(found, ofNodes(by[arch], Finding{
			Severity: Note, Message: "of " + arch + ": make images builds for the machine that it runs on, and nothing of Podgrace was tested on " + arch,
			Remedy: "build the images for each architecture with docker buildx build (docs/install.md, Images)",
		})...)
	}
	return found
}

// rootOf is the kubelet's folder on a node, and that of its container runtime, as deploy/platforms has them.
func rootOf(n *corev1.Node) (kubelet, image string) {
	kubelet, image = "/var/lib/kubelet", "/var/lib/containerd"
	v := n.Status.NodeInfo.KubeletVersion
	_, micro := n.Labels["microk8s.io/cluster"]
	switch {
	case strings.HasPrefix(n.Status.NodeInfo.ContainerRuntimeVersion, "cri-o://"):
		image = "/var/lib/containers"
	case strings.Contains(v, "+k3s"):
		image = "/var/lib/rancher/k3s/agent/containerd"
	case strings.Contains(v, "+rke2"):
		image = "/var/lib/rancher/rke2/agent/containerd"
	case strings.Contains(v, "+k0s"):
		kubelet, image = "/var/lib/k0s/kubelet", "/var/lib/k0s/containerd"
	case micro:
		kubelet, image = "/var/snap/microk8s/common/var/lib/kubelet", "/var/snap/microk8s/common/var/lib/containerd"
	}
	return kubelet, image
}

// nodeFolders: the node enforcer has the kubelet's folder, without which its container does not start, and, if it is given the runtime's, the right one.
func nodeFolders(s *Snapshot) (found []Finding) {
	set := s.enforcer()
	if set == nil && s.webhook() != nil {
		return nil // installed without it
	}
	kubelet, image := "/var/lib/kubelet", ""
	if set != nil {
		kubelet, image = hostPath(set, "kubelet"), hostPath(set, "images")
	}
	kubelets, images := map[string][]string{}, map[string][]string{}
	for _, n := range s.linux() {
		k, i := rootOf(n)
		if k != kubelet {
			kubelets[k] = append(kubelets[k], n.Name)
		}
		if image != "" && i != image {
			images[i] = append(images[i], n.Name)
		}
	}
	say := func(by map[string][]string, whose, value, have, what string) {
		for _, folder := range slices.Sorted(maps.Keys(by)) {
			f := Finding{
				Severity: Note, Message: fmt.Sprintf("%s's folder is %s there, and the node enforcer has %s: %s", whose, folder, have, what),
				Remedy: "if you install it (nodeEnforcer.enabled=true): with this value; deploy/platforms has all that such nodes want", Values: []string{value + "=" + folder},
			}
			if set != nil {
				f.Severity, f.Remedy = Error, "upgrade with this value; deploy/platforms has all that such nodes want"
			}
			if len(by[folder]) < len(s.linux()) {
				f.Remedy, f.Values = "the values hold for all nodes: give the node enforcer those nodes alone that have the same folders (nodeEnforcer.nodeSelector, affinity)", nil
			}
			found = append(found, ofNodes(by[folder], f)...)
		}
	}
	say(kubelets, "the kubelet", "nodeEnforcer.kubeletRoot", kubelet, "its container does not start")
	say(images, "the container runtime", "nodeEnforcer.imageRoot", image, "it does not start, or measures another disk")
	return found
}

// hostPath of a volume; empty: it has none.
func hostPath(set *appsv1.DaemonSet, name string) string {
	for _, v := range set.Spec.Template.Spec.Volumes {
		if v.Name == name && v.HostPath != nil {
			return v.HostPath.Path
		}
	}
	return ""
}

// nodeSystem: what is special of operating systems that nobody has tried.
func nodeSystem(s *Snapshot) []Finding {
	if s.webhook() != nil && s.enforcer() == nil {
		return nil
	}
	var noBus, bottled, confined []string
	for _, n := range s.linux() {
		switch image := n.Status.NodeInfo.OSImage; {
		case isTalos(*n):
			noBus = append(noBus, n.Name)
		case strings.HasPrefix(image, "Bottlerocket"):
			bottled = append(bottled, n.Name)
		case strings.HasPrefix(image, "Flatcar"), strings.HasPrefix(image, "Fedora CoreOS"):
			confined = append(confined, n.Name)
		}
	}
	if set := s.enforcer(); set != nil {
		if hostPath(set, "dbus") == "" {
			noBus = nil
		}
		if hasSELinuxType(set) {
			bottled, confined = nil, nil
		}
	}
	severity := Note // before it is installed, which it is only where somebody asks for it
	if s.enforcer() != nil {
		severity = Warning
	}
	return slices.Concat(
		ofNodes(bottled, Finding{Severity: severity, Message: "SELinux enforces on Bottlerocket: container_t may change nothing of the system. Nobody has tried the node enforcer there", Remedy: "give it the type that may", Values: []string{"nodeEnforcer.seLinuxType=control_t"}}),
		ofNodes(noBus, Finding{Severity: severity, Message: "Talos has no systemd and so no /run/dbus, without which the node enforcer's container does not start", Remedy: "it needs none: Talos' kubelets have the driver cgroupfs", Values: []string{"nodeEnforcer.dbus=false"}}),
		ofNodes(confined, Finding{
			Severity: Note, Message: "SELinux may enforce on this system: container_t may neither write cgroups nor connect to systemd's bus. Nobody has tried the node enforcer there",
			Remedy: "where getenforce on the node says Enforcing", Values: []string{"nodeEnforcer.seLinuxType=spc_t"},
		}),
	)
}

func hasSELinuxType(set *appsv1.DaemonSet) bool {
	for _, c := range set.Spec.Template.Spec.Containers {
		if c.SecurityContext != nil && c.SecurityContext.SELinuxOptions != nil && c.SecurityContext.SELinuxOptions.Type != "" {
			return true
		}
	}
	return false
}

// outOfService: a taint that was forgotten detaches volumes at once, the next time that the node is not ready.
func outOfService(s *Snapshot) []Finding {
	var forgotten []string
	for _, n := range s.Nodes {
		ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if ready && slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }) {
			forgotten = append(forgotten, n.Name)
		}
	}
	return ofNodes(forgotten, Finding{
		Severity: Warning, Message: "it is ready and has the taint " + corev1.TaintNodeOutOfService + ", by which Kubernetes deletes its pods by force and detaches their volumes",
		Remedy: "take the taint away, if the node is in service again", Commands: []string{"kubectl taint node NODE " + corev1.TaintNodeOutOfService + "-"},
	})
}

// enforced: what the node enforcers have written into their Nodes. That an enforcer only observes is as its policy asks.
func enforced(s *Snapshot) []Finding {
	by := map[corev1.NodeCondition][]string{} // by reason and message
	kernels := map[string][]string{}
	for _, n := range s.Nodes {
		for _, c := range n.Status.Conditions {
			if c.Type == enforcement.NodeConditionEnforced && c.Status == corev1.ConditionFalse && c.Reason != enforcement.ReasonObserveOnly {
				message, _, _ := strings.Cut(c.Message, enforcement.KernelChanged)
				key := corev1.NodeCondition{Reason: c.Reason, Message: message}
				by[key] = append(by[key], n.Name)
			}
			if _, kernel, ok := strings.Cut(c.Message, enforcement.KernelChanged); ok && c.Type == enforcement.NodeConditionEnforced {
				kernels[kernel] = append(kernels[kernel], n.Name)
			}
		}
	}
	var found []Finding
	for _, kernel := range slices.Sorted(maps.Keys(kernels)) {
		found = append(found, ofNodes(kernels[kernel], Finding{
			Severity: Warning, Message: "a parameter of the kernel is not as the kubelet sets it: " + console.OneLine(kernel),
			Remedy: "find out what sets it (sysctl.d, tuned, a privileged pod), and have it leave the kubelet's value",
		})...)
	}
	for _, c := range slices.SortedFunc(maps.Keys(by), func(a, b corev1.NodeCondition) int { return cmp.Compare(a.Message, b.Message) }) {
		f := Finding{
			Severity: Warning, Message: fmt.Sprintf("the condition %s says that cgroups are not as planned: %s", enforcement.NodeConditionEnforced, console.OneLine(c.Message)),
			Remedy: "docs/operations.md, PodgraceNodeDrift, or the node enforcer's log on that node",
		}
		if c.Reason == enforcement.ReasonReadOnly {
			f.Message = "what a NodePolicy asks for is not done: " + console.OneLine(c.Message)
			f.Remedy, f.Values = "install the node enforcer with the right to write, or change the policy", []string{"nodeEnforcer.mode=Enforce"}
		}
		found = append(found, ofNodes(by[c], f)...)
	}
	return found
}
