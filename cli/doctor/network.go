package doctor

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// networkReach: API servers reach the webhook's pods, as far as the cluster's kind tells. What is reached is seen by webhookCalls and guardState.
func networkReach(s *Snapshot) []Finding {
	d := s.webhook()
	onHost := d != nil && d.Spec.Template.Spec.HostNetwork
	f := Finding{Severity: Warning, About: "API servers to the webhook", Remedy: "install with this value"}
	if d != nil {
		f.Remedy = "upgrade with this value, if calls fail (webhook-calls, guard)"
	}
	switch {
	case isDistribution(s, GKE, GKEAutopilot) && private(s.Nodes) && !slices.Contains([]int32{443, 10250}, portOf(d)):
		f.Message = fmt.Sprintf("no node has an external address, which is how a private cluster of GKE looks: its firewall lets the control plane reach ports 443 and 10250 of nodes and pods, and not %d", portOf(d))
		f.Remedy += ", or make a firewall rule for that port"
		f.Values = []string{"webhook.ports.https=10250"}
	case isDistribution(s, EKS) && overlay(s.DaemonSets) != "" && !onHost:
		f.Message = "the pod network is that of " + overlay(s.DaemonSets) + " and not the VPC's: EKS' control plane has no route to addresses of an overlay, and every call of the webhook would fail"
		f.Values = []string{"webhook.hostNetwork=true"}
	default:
		return nil
	}
	return []Finding{f}
}

// portOf is the port of the webhook's pods that API servers call.
func portOf(d *appsv1.Deployment) int32 {
	if d != nil {
		for _, c := range d.Spec.Template.Spec.Containers {
			for _, p := range c.Ports {
				if p.Name == "https" {
					return p.ContainerPort
				}
			}
		}
	}
	return 9443
}

// private reports whether no node can be reached from outside.
func private(nodes []corev1.Node) bool {
	return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeExternalIP && a.Address != "" })
	})
}

// overlay is the network plugin that EKS runs instead of the VPC's own; empty: it has that, or none that is known.
func overlay(sets []appsv1.DaemonSet) string {
	named := func(names ...string) string {
		for _, d := range sets {
			if slices.Contains(names, d.Name) && d.Status.DesiredNumberScheduled > 0 {
				return d.Name
			}
		}
		return ""
	}
	if named("aws-node") != "" {
		return ""
	}
	return named("cilium", "calico-node", "canal", "kube-flannel-ds", "weave-net", "antrea-agent")
}

// webhookCalls: what one API server has counted of its calls. The metrics are of the one that answered, since it started.
func webhookCalls(s *Snapshot) []Finding {
	var failed []string
	for name, n := range s.Calls.Failed {
		if n > 0 && name != "answers.podgrace.dev" { // asked before there is a replica
			failed = append(failed, fmt.Sprintf("%s (%d of %d)", name, n, max(n, s.Calls.Answered[name])))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	slices.Sort(failed)
	return []Finding{{
		Severity: Warning, About: "API servers to the webhook", Message: "since it started, the API server that was asked had no answer to calls of " + strings.Join(failed, ", ") + ". What fails closed was refused, the rest was let through",
		Remedy: "if it was while Podgrace was installed or away, all is well; else docs/operations.md, PodgraceWebhookUnreachable",
	}}
}
