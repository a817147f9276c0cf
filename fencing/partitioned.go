package fencing

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// ConditionPartitioned is the condition of nodes that are silent, and of their protected pods.
const ConditionPartitioned = "podgrace.dev/Partitioned"

// The reasons of the condition.
const (
	// PartitionedSilent (True): the fencer has not heard of the node for as long as its policy says.
	PartitionedSilent = "LeaseSilent"
	// PartitionedZone (True): so it is, and most nodes of its zone are not ready.
	PartitionedZone = "ZoneDisrupted"
	// PartitionedCutOff (Unknown): so it is, but the fencer itself may be the one that is cut off.
	PartitionedCutOff = "FencerCutOff"
	// PartitionedFenced (True): the node is known to be off.
	PartitionedFenced = "Fenced"
	// PartitionedReturned (False): the node was silent, and is heard of again.
	PartitionedReturned = "Returned"
)

// Condition is the condition that a node, and protected pods of it, are to have. The transition time is the writer's to set, where the status changes.
type Condition struct {
	// Node that it is of, as the index in Facts.Nodes.
	Node            int
	Status          corev1.ConditionStatus
	Reason, Message string
	// OnNode: the node does not have it so yet. Pods are those that do not, as their indices in Node.Pods.
	OnNode bool
	Pods   []int
}

// Conditions are the conditions that are to be written. Nodes that were never silent get none, and of pods only those that are protected.
func Conditions(policies Policies, facts Facts, verdicts []Verdict) []Condition {
	if !facts.Known.Nodes || !facts.Known.Receipts {
		return nil
	}
	doubt := doubted(&facts)
	said := map[string]string{}
	for i := range verdicts {
		// Not the verdict's own message, whose numbers and names change with other nodes: each change would be a write for each silent node.
		v := &verdicts[i]
		said[v.Node.Name] = withHelp(v.Reason.Short, v.Reason, v.Node.Name)
	}
	var all []Condition
	for i := range facts.Nodes {
		n := &facts.Nodes[i]
		own, _ := policies.Of(n)
		c, ok := conditionOf(n, n.Silent >= max(silentFor(own), n.lease()), &facts, doubt, said[n.Name])
		if !ok {
			continue
		}
		c.Node, c.Message = i, message(c.Message)
		has := n.Partitioned
		c.OnNode = has == nil || has.Status != c.Status || has.Reason != c.Reason || has.Message != c.Message
		if n.PodsKnown && n.Live { // else it is not known which of them have it
			c.Pods = c.missing(n.Pods)
		}
		if c.OnNode || len(c.Pods) > 0 {
			all = append(all, c)
		}
	}
	return all
}

func conditionOf(n *Node, silent bool, f *Facts, doubt *doubt, said string) (c Condition, ok bool) {
	since := sinceWhen(n, said)
	r := receiptFor(n.Boot(), f.targetOf(n.Boot()), f)
	switch {
	case r != nil && !n.Ready && f.contradicts(r) == nil:
		return Condition{Status: corev1.ConditionTrue, Reason: PartitionedFenced, Message: fmt.Sprintf("the boot %s is known to be off: FenceReceipt %s (%s)", n.BootID, r.Name, r.Spec.Class)}, true
	case silent && doubt != nil && doubt.reason == fencerCutOff:
		return Condition{Status: corev1.ConditionUnknown, Reason: PartitionedCutOff, Message: withHelp("it is not known whether the node or the fencer is cut off: "+doubt.message, doubt.reason, n.Name)}, true
	case silent && doubt != nil && doubt.zone == n.Zone:
		return Condition{Status: corev1.ConditionTrue, Reason: PartitionedZone, Message: doubt.message + "; " + since}, true
	case silent:
		return Condition{Status: corev1.ConditionTrue, Reason: PartitionedSilent, Message: since}, true
	case n.Partitioned != nil && n.Heard && !n.quiet():
		return Condition{Status: corev1.ConditionFalse, Reason: PartitionedReturned, Message: "the node is heard of"}, true
	}
	return c, false
}

// targetOf is that of the Fence that goes by a receipt of this boot: what a watchdog must have done is evidence only where its policy took it. nil: none does.
func (f *Facts) targetOf(boot v1alpha1.BootReference) *v1alpha1.FenceTarget {
	if len(f.look().standing[boot.BootID]) == 0 { // as of most nodes
		return nil
	}
	for i := range f.Fences {
		if x := &f.Fences[i]; x.Spec.Node == boot && x.Status.Receipt != "" && open(x) {
			return x.Status.Target
		}
	}
	return nil
}

// sinceWhen says when the node was heard of last, and what becomes of it.
func sinceWhen(n *Node, said string) string {
	text := "it has no Lease"
	if n.LastRenewal != nil {
		text = "its Lease was renewed last at " + n.LastRenewal.UTC().Format(time.RFC3339) + ", by its own clock"
	}
	if said != "" {
		text += "; " + said
	}
	return text
}

// missing are the pods that are to have the condition and do not. Of one that is being force-deleted nothing is said: an update would remove it, or is refused.
func (c *Condition) missing(pods []Pod) (missing []int) {
	for i := range pods {
		p := &pods[i]
		if !p.Protected || p.Finished || p.Forced || p.Partitioned == nil && c.Status == corev1.ConditionFalse {
			continue
		}
		if has := p.Partitioned; has == nil || has.Status != c.Status || has.Reason != c.Reason {
			missing = append(missing, i)
		}
	}
	return missing
}
