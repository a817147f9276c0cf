package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Distribution of Kubernetes.
type Distribution string

// The distributions that are told apart, because something follows for an installation.
const (
	OpenShift    Distribution = "OpenShift"
	EKS          Distribution = "EKS"
	GKE          Distribution = "GKE"
	GKEAutopilot Distribution = "GKE Autopilot"
	AKS          Distribution = "AKS"
	K3s          Distribution = "k3s"
	RKE2         Distribution = "RKE2"
	K0s          Distribution = "k0s"
	MicroK8s     Distribution = "MicroK8s"
	Talos        Distribution = "Talos"
	Kind         Distribution = "kind"
	Kubeadm      Distribution = "kubeadm"
)

// signs are what a distribution is known by, the more special ones first. Each is one sign of many, so that it is a guess, and said to be.
func signs() []struct {
	is      Distribution
	because string
	holds   func(*Snapshot) bool
} {
	return []struct {
		is      Distribution
		because string
		holds   func(*Snapshot) bool
	}{
		{OpenShift, "the API group config.openshift.io", serves("config.openshift.io")},
		{GKEAutopilot, "the API group auto.gke.io and nodes named gk3-", func(s *Snapshot) bool {
			return serves("auto.gke.io")(s) && anyNode(func(n *corev1.Node) bool { return strings.HasPrefix(n.Name, "gk3-") })(s)
		}},
		{GKE, "the version of the API server", inVersion("-gke.")},
		{GKE, "the node label cloud.google.com/gke-nodepool", labelled("cloud.google.com/gke-nodepool")},
		{EKS, "the version of the API server", inVersion("-eks-")},
		{EKS, "the node label eks.amazonaws.com/nodegroup", labelled("eks.amazonaws.com/nodegroup")},
		{AKS, "the node label kubernetes.azure.com/cluster", labelled("kubernetes.azure.com/cluster")},
		{K3s, "the version of the API server", inVersion("+k3s")},
		{RKE2, "the version of the API server", inVersion("+rke2")},
		{K0s, "the version of the API server", inVersion("+k0s")},
		{MicroK8s, "the node label microk8s.io/cluster", labelled("microk8s.io/cluster")},
		{Talos, "the nodes' operating system", anyNode(func(n *corev1.Node) bool { return isTalos(*n) })},
		{Kind, "the nodes' providerID", anyNode(func(n *corev1.Node) bool { return strings.HasPrefix(n.Spec.ProviderID, "kind://") })},
		{Kubeadm, "the node annotation kubeadm.alpha.kubernetes.io/cri-socket", anyNode(func(n *corev1.Node) bool {
			_, is := n.Annotations["kubeadm.alpha.kubernetes.io/cri-socket"]
			return is
		})},
	}
}

func serves(group string) func(*Snapshot) bool {
	return func(s *Snapshot) bool { return slices.Contains(s.Groups, group) }
}

func inVersion(part string) func(*Snapshot) bool {
	return func(s *Snapshot) bool { return strings.Contains(s.Server, part) }
}

func anyNode(is func(*corev1.Node) bool) func(*Snapshot) bool {
	return func(s *Snapshot) bool {
		return slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool { return is(&n) })
	}
}

func labelled(key string) func(*Snapshot) bool {
	return anyNode(func(n *corev1.Node) bool { _, is := n.Labels[key]; return is })
}

// distributionOf guesses which Kubernetes it is, and says by what; empty: no sign of any.
func distributionOf(s *Snapshot) (is Distribution, because string) {
	for _, sign := range signs() {
		if sign.holds(s) {
			return sign.is, sign.because
		}
	}
	return "", ""
}

func isDistribution(s *Snapshot, of ...Distribution) bool {
	is, _ := distributionOf(s)
	return slices.Contains(of, is)
}

// NodeKind is what nodes run.
type NodeKind struct {
	// OS as the node tells it, Runtime with its version.
	OS      string `json:"os"`
	Runtime string `json:"runtime"`
	Count   int    `json:"count"`
}

func (k NodeKind) String() string { return fmt.Sprintf("%d with %s and %s", k.Count, k.OS, k.Runtime) }

// kindsOf counts the nodes by what they run.
func kindsOf(nodes []corev1.Node) []NodeKind {
	kinds := []NodeKind{}
	for _, n := range nodes {
		k := NodeKind{OS: cmp.Or(n.Status.NodeInfo.OSImage, "an unknown system"), Runtime: cmp.Or(n.Status.NodeInfo.ContainerRuntimeVersion, "an unknown runtime")}
		i := slices.IndexFunc(kinds, func(other NodeKind) bool { return other.OS == k.OS && other.Runtime == k.Runtime })
		if i < 0 {
			kinds, i = append(kinds, k), len(kinds)
		}
		kinds[i].Count++
	}
	slices.SortFunc(kinds, func(a, b NodeKind) int {
		return cmp.Or(b.Count-a.Count, strings.Compare(a.OS, b.OS), strings.Compare(a.Runtime, b.Runtime))
	})
	return kinds
}

// osOf is the node's operating system, as GOOS; a node that tells none counts as Linux.
func osOf(n *corev1.Node) string {
	return cmp.Or(n.Status.NodeInfo.OperatingSystem, n.Labels[corev1.LabelOSStable], "linux")
}

// virtual says what a node is that is no machine of its own; empty: it is one. The DaemonSet stays away from these by the same labels
// (deploy/nodeenforcer/daemonset.yaml).
func virtual(n *corev1.Node) string {
	switch {
	case n.Labels["eks.amazonaws.com/compute-type"] == "fargate":
		return "EKS Fargate"
	case n.Labels["type"] == "virtual-kubelet":
		return "virtual-kubelet"
	}
	return ""
}
