package guard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

// unprotected allows, with a warning, the removal of a pod that no policy protects.
func unprotected(req Request, facts Facts) *Decision {
	if protectedBecause(req.Pod, facts) != "" {
		return nil
	}
	return &Decision{Verdict: Warn, Reason: becauseUnprotected,
		What: oneLine("%s is removed without waiting for its node: it may still run on %s", podName(req.Pod), whereabouts(req.Pod.Spec.NodeName, facts))}
}

// refusePod is the last rule of the roads of pods.
func refusePod(req Request, facts Facts) *Decision {
	subject := fmt.Sprintf("%s may still run on %s", podName(req.Pod), whereabouts(req.Pod.Spec.NodeName, facts))
	why := protectedBecause(req.Pod, facts) + ", so its replacement could run beside it"
	if req.Road == RoadEviction && forceDeleteBegun(req.Pod) { // an eviction asks for no force delete
		why = "a force delete of it was refused half-way, so evicting it would remove it at once, and " + why
	}
	ways := append(waysWithout(req, facts), wayBy(req, facts))
	if n := len(facts.Held); n > 0 {
		why += fmt.Sprintf("; by the volume lock that one would wait, since its node keeps %s %s until it is proved to be rid of %s", console.Noun(n, "volume", "volumes"), console.Some(facts.Held, 3, ", "), console.Noun(n, "it", "them"))
		ways = append(ways, "what that waits for: kubectl podgrace volumelock list "+req.Pod.Spec.NodeName)
	}
	return refuse(facts, subject, why, ways)
}

// waysWithout are the ways to remove the pod without the risk that it runs twice.
func waysWithout(req Request, facts Facts) []string {
	p, n := req.Pod, facts.Node
	var ways []string
	if evictedByOwnGrace(req) { // with a grace period it can be evicted also from a silent node, and is then waited for
		ways = append(ways, throughKubelet(req))
	}
	switch {
	case n.State == NodeUnknown:
		return append(ways, "try again when its node's state can be read")
	case n.State == NodePresent && (n.Ready || !n.Silent(facts.Now)):
		return []string{throughKubelet(req)}
	}
	return append(ways, "wait until its node is back, or fenced",
		fmt.Sprintf("if %s is known to be off: kubectl podgrace confirm node/%s", p.Spec.NodeName, p.Spec.NodeName))
}

// evictedByOwnGrace reports whether an eviction removes a pod at once because the pod's own grace period is 0: any other lets its kubelet stop it.
func evictedByOwnGrace(req Request) bool {
	return req.Road == RoadEviction && req.Pod.DeletionTimestamp == nil && graceperiod.Of(&req.Pod.Spec) == 0
}

// throughKubelet says how to have the kubelet, which responds, stop the pod.
func throughKubelet(req Request) string {
	p := req.Pod
	switch {
	case forceDeleteBegun(p):
		return "it is being deleted already: wait until its kubelet has stopped it"
	case req.Road == RoadStatus || req.Road == RoadFinalizer:
		return "wait until its kubelet has stopped it"
	case req.Road == RoadDelete && p.DeletionTimestamp != nil:
		return fmt.Sprintf("it is being deleted already: wait until its kubelet has stopped it; what holds that up: kubectl describe pod -n %s %s", p.Namespace, p.Name)
	case evictedByOwnGrace(req):
		return fmt.Sprintf("its own grace period is 0, give it one: kubectl drain --grace-period=%d, or gracePeriodSeconds in the eviction's deleteOptions", graceperiod.Unset)
	case req.Road == RoadEviction:
		return "evict or drain without --grace-period=0"
	case graceperiod.Of(&p.Spec) == 0:
		return fmt.Sprintf("its own grace period is 0, give it one: kubectl delete pod -n %s %s --grace-period=%d", p.Namespace, p.Name, graceperiod.Unset)
	}
	return fmt.Sprintf("let its kubelet stop it: kubectl delete pod -n %s %s, without --force", p.Namespace, p.Name)
}

// wayBy is the way for somebody who accepts that the pod may run twice.
func wayBy(req Request, facts Facts) string {
	p := req.Pod
	way := "if you accept that it may run twice: kubectl podgrace confirm -n %s %s, and repeat"
	if c, ok := confirmationOf(p); ok {
		return fmt.Sprintf("its confirmation is void, %s: "+way, c.void(req, facts), p.Namespace, p.Name)
	}
	return fmt.Sprintf(way, p.Namespace, p.Name)
}

// refuseNode is the last rule of the roads of nodes.
func refuseNode(req Request, facts Facts) *Decision {
	n := facts.Node
	subject := "pods may still run on node " + whereabouts(n.Name, facts)
	why := "the taint makes Kubernetes force-delete its pods and detach its volumes"
	if req.Road == RoadNode {
		why = "without the Node object its pods are force-deleted: " + boundNames(facts)
		if req.Node != nil && req.Node.DeletionTimestamp != nil {
			why = "it is being deleted, and this takes its last finalizer away; " + why
		}
	}
	var ways []string
	switch {
	case n.State == NodeUnknown:
		ways = []string{"try again when the node's state can be read"}
	case n.State == NodeGone && req.Road == RoadOutOfService: // it is being created
		ways = []string{"create it without the taint"}
	case n.Ready || !n.Silent(facts.Now):
		ways = []string{"drain it: kubectl drain " + n.Name + " --ignore-daemonsets"}
		if req.Road == RoadNode {
			ways[0] += "; the DELETE passes once nothing protected is bound to it"
		}
		if !n.Ready {
			ways = append(ways, "or wait until it is back, or silent")
		}
	default:
		ways = []string{"wait until it is back, or fenced"}
	}
	if !req.HeldFrom.IsZero() {
		ways = slices.Insert(ways, 0, fmt.Sprintf("its finalizers are too new to be sure to hold it: delete it again after %s, which then only begins its drain", req.HeldFrom.UTC().Format(clock)))
	}
	if n.State == NodePresent {
		ways = append(ways, "once it is known to be off: kubectl podgrace confirm node/"+n.Name)
	}
	return refuse(facts, subject, why, ways)
}

// refuseAttachment is the last rule of the road of volume attachments.
func refuseAttachment(req Request, facts Facts) *Decision {
	node, volume := req.VolumeAttachment.Spec.NodeName, volumeOf(req)
	if facts.Volume.Claim != "" {
		volume += " of claim " + facts.Volume.Claim
	}
	ways := []string{"delete the pods that use it, the attach-detach controller then detaches it"}
	if IsAttachDetachController(req.User) {
		ways = []string{"wait until its node is back"}
	}
	why := "without the VolumeAttachment it can be attached elsewhere as well"
	if lock := req.VolumeAttachment.Annotations[v1alpha1.AnnotationVolumeLock]; lock != "" {
		why = fmt.Sprintf("it holds it by VolumeLock %s, and to delete the VolumeAttachment gives it to no other node before that is released", console.Printable(lock))
		ways = append(ways, "what its release waits for: kubectl podgrace volumelock list "+console.Printable(lock))
	}
	return refuse(facts, fmt.Sprintf("node %s may still write to volume %s", whereabouts(node, facts), volume), why,
		append(ways, fmt.Sprintf("if %s is known to be off: kubectl podgrace confirm node/%s", node, node)))
}

func volumeOf(req Request) string {
	if name := req.VolumeAttachment.Spec.Source.PersistentVolumeName; name != nil {
		return *name
	}
	return "of " + req.VolumeAttachment.Name
}

// refuse denies, or warns where the policy says so.
func refuse(facts Facts, subject, why string, ways []string) *Decision {
	by := strings.Join(append([]string{"PodPolicy " + strings.Join(facts.Policy.Names, ", ")}, facts.Policy.Unread...), "; ")
	if facts.Policy.Unknown {
		by = "the policies could not be read"
	}
	d := &Decision{Verdict: Deny, Reason: Unsafe, What: oneLine("%s: %s.", subject, why), Ways: oneLine("Ways on: %s. (%s)", strings.Join(ways, "; "), by), Why: why}
	if len(facts.Policy.Names) > 0 {
		d.By = facts.Policy.Names[0]
	}
	if facts.Policy.ForceDelete == v1alpha1.RemovalWarn {
		d.Verdict = Warn
	}
	return d
}

// whereabouts describes a node: whether it is ready, or since when it has been silent.
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
	case !n.Silent(facts.Now):
		if n.Lease > DefaultLease {
			return fmt.Sprintf("%s (not ready, but heard of at %s, and its Lease lasts %s)", name, n.Heartbeat.UTC().Format(clock), n.Lease)
		}
		return fmt.Sprintf("%s (not ready, but heard of at %s)", name, n.Heartbeat.UTC().Format(clock))
	}
	return fmt.Sprintf("%s (not ready, silent since %s ago)", name, since(n.Heartbeat, facts.Now))
}

const (
	clock = "15:04:05 UTC"
	day   = 24 * time.Hour
)

// since is a time and how long it is ago, in days if it is more than one.
func since(then, now time.Time) string {
	ago := now.Sub(then).Round(time.Second)
	switch {
	case ago < day:
		return fmt.Sprintf("%s, %s", then.UTC().Format(clock), ago)
	case ago < 2*day:
		return then.UTC().Format("2006-01-02 "+clock) + ", a day"
	}
	return fmt.Sprintf("%s, %d days", then.UTC().Format("2006-01-02 "+clock), ago/day)
}

// oneLine formats a message for a terminal. Names of owners and claims are a tenant's to choose and need not be names: what could move the
// cursor, start a line or turn the reading direction round is taken out.
func oneLine(format string, args ...any) string {
	return console.Printable(strings.ToValidUTF8(fmt.Sprintf(format, args...), "?"))
}

// maxNamed is how many pods a message names.
const maxNamed = 5

func boundNames(facts Facts) string {
	if !facts.BoundKnown {
		return "which they are could not be read"
	}
	var names []string
	for _, p := range facts.bound() {
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

// Raise returns the grace period in seconds that an eviction gets instead of the refusal d, where the policy says so (evictionWithoutGrace: Raise): the pod's own,
// or Kubernetes' default of 30 if that is 0. false: the eviction stays as it is, also if it would only be warned about, or if no grace period helps
// because a force delete has begun.
func Raise(req Request, facts Facts, d Decision) (seconds int64, raised bool) {
	if req.Road != RoadEviction || d.Verdict != Deny || d.Reason != Unsafe || facts.Policy.EvictionWithoutGrace != v1alpha1.GraceRaise {
		return 0, false
	}
	seconds = graceperiod.Of(&req.Pod.Spec)
	if seconds == 0 {
		seconds = graceperiod.Unset
	}
	return seconds, !graceperiod.Delete(req.Pod, &seconds, facts.Now).Force
}

// protectedBecause says why the level that is judged protects the pod; empty: it does not.
func protectedBecause(pod *corev1.Pod, facts Facts) string {
	why := facts.Policy.Protect.Why(pod, facts.Claims)
	switch {
	case why != "":
		return why
	case facts.Policy.Unknown:
		return "which policies guard it could not be read"
	case !facts.Policy.Protect.All:
		return ""
	}
	return "the policy protects all pods"
}
