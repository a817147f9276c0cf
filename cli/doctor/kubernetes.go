package doctor

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/kube"
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
