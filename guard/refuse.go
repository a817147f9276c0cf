package guard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// unprotected lets a pod go that may run twice without harm, as far as the policy knows, with a warning.
func unprotected(req Request, facts Facts) *Decision {
	if protectedBecause(req.Pod, facts) != "" {
		return nil
	}
	return &Decision{Verdict: Warn, Reason: "Unprotected",
		Message: fmt.Sprintf("%s is removed without waiting for its node: it may still run on %s", podName(req.Pod), whereabouts(req.Pod.Spec.NodeName, facts))}
}

// refusePod is the end of the pod roads.
func refusePod(req Request, facts Facts) *Decision {
	subject := fmt.Sprintf("%s may still run on %s", podName(req.Pod), whereabouts(req.Pod.Spec.NodeName, facts))
	ways := []string{"wait until its kubelet has stopped it"}
	switch {
	case facts.Node.State == NodePresent && facts.Node.Ready:
		if req.Road == RoadDelete || req.Road == RoadEviction {
			ways[0] = "delete it without --force, its node is ready and will stop it"
		}
	default:
		ways[0] = "wait until its node is back, or fenced"
		if req.Pod.Spec.NodeName != "" {
			ways = append(ways, fmt.Sprintf("if %s is known to be off: kubectl podgrace confirm node/%s", req.Pod.Spec.NodeName, req.Pod.Spec.NodeName))
		}
	}
	ways = append(ways, fmt.Sprintf("if you accept that it may run twice: kubectl podgrace confirm -n %s %s, and repeat", req.Pod.Namespace, req.Pod.Name))
	if isConfirmed(req) {
		ways[len(ways)-1] = fmt.Sprintf("it is confirmed, but you %s the verb %s on pods.podgrace.dev in %s: ask an administrator of the namespace", lacks(facts.MayForce), Verb, req.Pod.Namespace)
	}
	why := protectedBecause(req.Pod, facts) + ", so its replacement could run beside it"
	return refuse(facts, string(req.Road), subject, why, ways)
}

func lacks(a Answer) string {
	if a == Unknown {
		return "could not be shown to have"
	}
	return "do not have"
}

// refuseNode is the end of the roads of nodes.
func refuseNode(req Request, facts Facts) *Decision {
	n := facts.Node
	subject := "pods may still run on node " + whereabouts(n.Name, facts)
	why := "the taint makes Kubernetes force-delete its pods and detach its volumes"
	if req.Road == RoadNode {
		why = "without the Node object its pods are force-deleted: " + boundNames(facts)
	}
	ways := []string{"drain it first, stop its kubelet and wait until it is not ready"}
	if !n.Ready {
		ways[0] = "wait until it is back, or fenced"
	}
	ways = append(ways, fmt.Sprintf("once it is known to be off: kubectl podgrace confirm node/%s", n.Name))
	return refuse(facts, string(req.Road), subject, why, ways)
}

// refuseAttachment is the end of the road of volume attachments.
func refuseAttachment(req Request, facts Facts) *Decision {
	node := req.VolumeAttachment.Spec.NodeName
	subject := fmt.Sprintf("node %s may still write to volume %s", whereabouts(node, facts), volumeOf(req))
	return refuse(facts, string(req.Road), subject, "without the VolumeAttachment it can be attached elsewhere as well",
		[]string{"delete the pods that use it, the attach-detach controller then detaches it", fmt.Sprintf("if %s is known to be off: kubectl podgrace confirm node/%s", node, node)})
}

func volumeOf(req Request) string {
	if name := req.VolumeAttachment.Spec.Source.PersistentVolumeName; name != nil {
		return *name
	}
	return "of " + req.VolumeAttachment.Name
}

// refuse denies, or warns where the policy says so.
func refuse(facts Facts, road, subject, why string, ways []string) *Decision {
	message := fmt.Sprintf("%s: %s. Ways on: %s. (PodPolicy %s)", subject, why, strings.Join(ways, "; "), strings.Join(facts.Policy.Names, ", "))
	if facts.Policy.ForceDelete == v1alpha1.RemovalWarn {
		return &Decision{Verdict: Warn, Reason: "Unsafe", Message: message}
	}
	return &Decision{Verdict: Deny, Reason: "Unsafe", Message: message}
}

// whereabouts says of a node what is known: whether it is ready, or since when it has been silent.
func whereabouts(name string, facts Facts) string {
	n := facts.Node
	switch {
	case n.State == NodeUnknown:
		return orUnknown(name) + " (whose state could not be read)"
	case n.State == NodeGone:
		return name + " (which has no Node object any more)"
	case n.Ready:
		return name + " (ready)"
	case n.Heartbeat.IsZero():
		return name + " (not ready, never heard of)"
	}
	return fmt.Sprintf("%s (not ready, silent since %s, %s ago)", name, n.Heartbeat.UTC().Format("15:04:05 UTC"), facts.Now.Sub(n.Heartbeat).Round(time.Second))
}

// maxNamed is how many pods a message names.
const maxNamed = 5

func boundNames(facts Facts) string {
	if facts.BoundUnknown {
		return "which they are could not be read"
	}
	var names []string
	for _, p := range facts.Bound {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	slices.Sort(names)
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

func podName(p *corev1.Pod) string { return "pod " + p.Namespace + "/" + p.Name }

func orUnknown(name string) string {
	if name == "" {
		return "an unknown node"
	}
	return name
}
