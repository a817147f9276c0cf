package fencing

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/policy"
)

// rules in their order: the first that has an answer decides, and none means that it may be fenced if the budget allows.
var rules = []func(*round, *candidate) *Verdict{
	(*round).lists, (*round).rightTarget, (*round).duplicate, (*round).heardOf, (*round).ofControlPlane, (*round).policyOf, (*round).identified,
	(*round).notItself, (*round).sure, (*round).unpaused, (*round).unexpected, (*round).worth, (*round).agents, (*round).mode,
}

func (r *round) judge(c *candidate) *Verdict {
	for _, rule := range rules {
		if v := rule(r, c); v != nil {
			return v
		}
	}
	return nil
}

func (r *round) lists(c *candidate) *Verdict {
	if !r.facts.Known.all() {
		return c.wait(factsUnknown, "the nodes, Fences, FenceReceipts or FenceAgents could not be listed")
	}
	return nil
}

// rightTarget refuses a Fence whose node is not as it says: it was made by hand, or the node has another boot since.
func (r *round) rightTarget(c *candidate) *Verdict {
	if c.fence == nil {
		return nil
	}
	name := c.boot.Name
	switch n := c.node; {
	case n == nil && r.facts.gone(c.boot.UID):
		return c.say(DoRefuse, noSuchNode, "there is no Node %s", name)
	case n == nil || !n.Live:
		return c.wait(factsUnknown, "Node %s could not be read", name)
	case n.UID != c.boot.UID:
		return c.say(DoRefuse, wrongTarget, "Fence %s is for a Node with the UID %s, and Node %s has %s", c.fence.Name, c.boot.UID, name, n.UID)
	case n.BootID != c.boot.BootID && n.BootID != "" && !c.byPerson():
		return c.say(DoRefuse, returned, "it is back by another boot, and nothing was done")
	case n.BootID != c.boot.BootID:
		return c.say(DoRefuse, wrongTarget, "Fence %s is for the boot %s, and Node %s runs the boot %s", c.fence.Name, c.boot.BootID, name, cmp.Or(n.BootID, "(none)"))
	}
	return nil
}

// duplicate lets one Fence a boot through: one that was begun, or the first of those that were not.
func (r *round) duplicate(c *candidate) *Verdict {
	for i := range r.facts.Fences {
		f := &r.facts.Fences[i]
		if f.Spec.Node.BootID != c.boot.BootID || c.fence != nil && f.Name == c.fence.Name {
			continue
		}
		other := &candidate{fence: f}
		if open(f) || c.fence != nil && undecided(f) && cmp.Or(rank(other)-rank(c), cmp.Compare(f.Name, c.fence.Name)) < 0 {
			return c.wait(anotherFence, "Fence %s is for the same boot of it", f.Name)
		}
		if c.fence == nil && f.Name == FenceName(c.node) {
			return c.say(DoShow, anotherFence, "Fence %s, which was for this very silence, is over: %s", f.Name, cmp.Or(f.Status.Message, "it does not say why"))
		}
	}
	return nil
}

// heardOf ends a Fence that the fencer made for a silence that is over: the name is that of the last sign of life.
func (r *round) heardOf(c *candidate) *Verdict {
	if c.fence != nil && !c.byPerson() && c.fence.Name != FenceName(c.node) {
		return c.say(DoRefuse, returned, "it was heard of since the Fence was made, and nothing was done")
	}
	if c.fence != nil && !c.byPerson() && c.node.Silent < c.silentFor() {
		v := c.wait(factsUnknown, "the fencer itself has not been waiting for it for %s: it has begun to lead, or its watches were cut", c.silentFor())
		v.Until = r.facts.Now.Led + c.silentFor() - c.node.Silent
		return v
	}
	return nil
}

// byItself is what becomes of a node that is never fenced as it is: shown, or where there is a Fence refused or waiting.
func (c *candidate) byItself(with Do, reason policy.Reason, format string, args ...any) *Verdict {
	if c.fence == nil {
		with = DoShow
	}
	return c.say(with, reason, format, args...)
}

func (r *round) ofControlPlane(c *candidate) *Verdict {
	if c.node.ControlPlane {
		return c.byItself(DoRefuse, controlPlaneNode, "")
	}
	return nil
}

func (r *round) policyOf(c *candidate) *Verdict {
	if c.own == nil {
		return c.byItself(DoWait, noPolicy, "")
	}
	return nil
}

// maxID is how long a bootID and a systemUUID may be in a Fence, and maxProviderID a providerID (BootReference, FenceMachine). A kubelet can write what it likes.
const (
	maxID         = 64
	maxProviderID = 256
)

func (r *round) identified(c *candidate) *Verdict {
	if c.boot.UID == "" || c.boot.BootID == "" {
		return c.byItself(DoWait, noIdentity, "")
	}
	if len(c.boot.BootID) > maxID || len(c.node.SystemUUID) > maxID {
		return c.byItself(DoWait, noIdentity, "its bootID or systemUUID is longer than %d bytes, which is none", maxID)
	}
	if others := r.facts.claimants(c.node); len(others) > 0 {
		return c.byItself(DoWait, sharedIdentity, "%s says that it is the same machine (systemUUID, providerID or bootID)", console.Some(others, 3, ", "))
	}
	return nil
}

func (r *round) notItself(c *candidate) *Verdict {
	if c.boot.Name == r.facts.Self.Node {
		return c.wait(ownNode, "")
	}
	return nil
}

// sure is where the fencer doubts itself.
func (r *round) sure(c *candidate) *Verdict {
	if r.doubt != nil {
		return c.wait(r.doubt.reason, "%s", r.doubt.message)
	}
	return nil
}

func (r *round) unpaused(c *candidate) *Verdict {
	for _, p := range c.bounding {
		switch {
		case len(p.unread) > 0:
			return c.wait(paused, "FencePolicy %s counts as paused: written, and not read is %s", p.Name, strings.Join(p.unread, ", "))
		case p.Spec.Paused:
			return c.wait(paused, "FencePolicy %s is paused", p.Name)
		}
	}
	return nil
}

// unexpected is where somebody expects the node to be silent, or the API server does not agree that it is.
func (r *round) unexpected(c *candidate) *Verdict {
	switch {
	case c.byPerson():
		return nil
	case c.node.Maintenance != "":
		return c.wait(maintained, "%s", c.node.Maintenance)
	case c.node.Deleting:
		return c.wait(maintained, "the Node is being deleted")
	case c.node.Ready:
		return c.wait(stillReady, "")
	}
	return nil
}

// worth is where no pod is worth a fence, or not yet.
func (r *round) worth(c *candidate) *Verdict {
	if c.node.PodsKnown {
		c.stake = atStake(c.node, c.own.Spec.JustifiedBy)
	}
	switch {
	case c.byPerson():
		return nil
	case !c.node.PodsKnown:
		return c.wait(factsUnknown, "its pods could not be listed")
	case c.stake == nil:
		return c.byItself(DoWait, nothingAtStake, "")
	case !c.stake.due:
		v := c.wait(stillPatient, "%s", c.stake.why)
		v.Until = r.facts.Now.Led + c.stake.wait - c.node.Silent
		return v
	}
	return nil
}

func (r *round) agents(c *candidate) *Verdict {
	if c.shows() && len(c.own.Spec.Agents) == 0 { // which a policy that only shows need not have
		return nil
	}
	target, problems := freeze(c.own, c.node, r.facts)
	if target != nil && c.fence != nil && !r.facts.foreseen {
		problems = append(problems, withVolumes(target, c.node)...)
	}
	if target == nil || len(target.Agents) == 0 {
		texts := make([]string, len(problems))
		for i, p := range problems {
			texts[i] = p.text
		}
		return c.wait(noAgent, "FencePolicy %s has no agent that can power it off: %s", c.own.Name, cmp.Or(strings.Join(texts, "; "), "it names none"))
	}
	c.target = target
	return nil
}

// mode comes last, so that a policy that only shows says of a node what would stand in the way of its fence, or that nothing would but the budget.
func (r *round) mode(c *candidate) *Verdict {
	if c.shows() {
		return c.byItself(DoWait, showOnly, "FencePolicy %s only shows silent nodes (mode: Show), and else it would be fenced within the budget: %s", c.own.Name, c.stake.why)
	}
	return nil
}

// stake is the pod for which a silent node is worth a fence.
type stake struct {
	pod *Pod
	// wait is how long the node must have been silent; due: it has been.
	wait time.Duration
	due  bool
	why  string
}

// atStake returns the pod for which the node is worth a fence first; nil: none is. Of pods for which that is now, it is the one of the highest priority.
func atStake(n *Node, by *v1alpha1.FenceJustification) *stake {
	var best *stake
	for i := range n.Pods {
		s := patience(&n.Pods[i], by)
		if s == nil {
			continue
		}
		s.due = n.Silent >= s.wait
		if best == nil || s.before(best) {
			best = s
		}
	}
	return best
}

func (s *stake) before(o *stake) bool {
	switch {
	case s.due != o.due:
		return s.due
	case !s.due && s.wait != o.wait:
		return s.wait < o.wait
	case s.pod.Priority != o.pod.Priority:
		return s.pod.Priority > o.pod.Priority
	}
	return s.pod.Namespace+"/"+s.pod.Name < o.pod.Namespace+"/"+o.pod.Name
}

// patience is how long a pod waits for a silent node; nil: for ever, or it does not count.
func patience(p *Pod, by *v1alpha1.FenceJustification) *stake {
	if by == nil {
		by = &v1alpha1.FenceJustification{}
	}
	if !p.Protected || p.left() || by.MinPriority != nil && p.Priority < *by.MinPriority {
		return nil
	}
	name := "protected pod " + p.Namespace + "/" + p.Name
	switch {
	case p.Deleting:
		return &stake{pod: p, why: name + " is being deleted, and waits for it"}
	case by.BrokenBudget && p.BrokenBudget:
		return &stake{pod: p, why: name + " waits for it, and its PodDisruptionBudget has less healthy pods than it wants"}
	case by.Patience != nil && (p.Tolerates == nil || *p.Tolerates > by.Patience.Duration):
		return &stake{pod: p, wait: by.Patience.Duration, why: fmt.Sprintf("%s waits for it, for at most %s (the policy's patience)", name, by.Patience.Duration)}
	case p.Tolerates == nil:
		return nil
	}
	return &stake{pod: p, wait: *p.Tolerates, why: fmt.Sprintf("%s waits for it, and tolerates an unreachable node for %s", name, *p.Tolerates)}
}

// Why a silent node is only shown, or a Fence waits or is refused.
var (
	factsUnknown = policy.Reason{Code: "Unknown", Short: "what the decision depends on could not be read",
		Help: "Look at the fencer's log: it may lack a right, or the API server does not answer."}
	fencerCutOff = policy.Reason{Code: "FencerCutOff", Short: "the fencer itself may be the one that is cut off",
		Help: "Compare with kubectl get leases -n kube-node-lease from elsewhere; if the nodes are really away, look for what they share (network, power, control plane)."}
	zoneDisrupted = policy.Reason{Code: "ZoneDisrupted", Short: "most nodes of a zone are not ready, as when the zone is cut off",
		Help: "Look for what the zone's nodes share. Nothing is fenced until most of them are ready again; if its machine is known to be off: kubectl podgrace confirm node/NAME."}
	ownNode = policy.Reason{Code: "OwnNode", Short: "the fencer runs on this node",
		Help: "Another replica of the fencer, on another node, can fence it once it leads."}
	noPolicy = policy.Reason{Code: "NoPolicy", Short: "no FencePolicy selects the node",
		Help: "Make a FencePolicy whose nodeSelector selects it."}
	showOnly = policy.Reason{Code: "ShowOnly", Short: "its FencePolicy only shows silent nodes (mode: Show), and else it would be fenced within the budget",
		Help: "To have it fenced now: kubectl podgrace fence NAME. To have it done by itself: mode: Fence in the policy."}
	controlPlaneNode = policy.Reason{Code: "ControlPlane", Short: "it is a node of the control plane, and these are never fenced",
		Help: "Whether etcd keeps its quorum without it only you can know: power it off yourself, then kubectl podgrace confirm node/NAME."}
	sharedIdentity = policy.Reason{Code: "SharedIdentity", Short: "two nodes say that they are the same machine",
		Help: "Neither is fenced, since the wrong one might be: see systemUUID and bootID of kubectl get nodes -o yaml. Clones of a virtual machine need UUIDs of their own."}
	noIdentity = policy.Reason{Code: "NoIdentity", Short: "the node does not say which boot it is",
		Help: "Its kubelet has not written status.nodeInfo as kubelets do. If it is known to be off, delete the Node."}
	maintained = policy.Reason{Code: "Maintenance", Short: "it is being worked on, so that its silence is expected",
		Help: "If that is not so, take the announcement away; or kubectl podgrace fence NAME."}
	stillReady = policy.Reason{Code: "StillReady", Short: "the API server still has it as Ready",
		Help: "The node lifecycle controller marks a silent node after 50 s: check kube-controller-manager."}
	nothingAtStake = policy.Reason{Code: "NothingAtStake", Short: "no protected pod waits for it",
		Help: "Only pods that a PodPolicy's removal section protects count (kubectl podgrace explain POD says whether one does), and of these, those that justifiedBy of the FencePolicy lets count."}
	stillPatient = policy.Reason{Code: "StillPatient", Short: "the pods that wait for it tolerate an unreachable node for longer",
		Help: "Shorten their toleration of node.kubernetes.io/unreachable, or set justifiedBy.patience in the FencePolicy; or kubectl podgrace fence NAME."}
	paused = policy.Reason{Code: "Paused", Short: "a FencePolicy that selects the node is paused",
		Help: "Set paused: false in it."}
	noAgent = policy.Reason{Code: "NoAgent", Short: "no agent of its policy can power the machine off",
		Help: "kubectl get fencepolicies -o wide says which agent lacks what; if the machine is known to be off: kubectl podgrace confirm node/NAME."}
	anotherFence = policy.Reason{Code: "AnotherFence", Short: "another Fence is for the same boot of the node",
		Help: "Look at that one: kubectl get fences."}
	tooManyFences = policy.Reason{Code: "TooManyFences", Short: "as many nodes are being fenced as the budget allows",
		Help: "Look at these first: kubectl get fences. If a machine of theirs is known to be off: kubectl podgrace confirm node/ with the name of its node."}
	tooManyUnhealthy = policy.Reason{Code: "TooManyUnhealthy", Short: "more nodes are unhealthy than the budget allows",
		Help: "Something larger may be wrong. Bring nodes back, delete Nodes that will not return, or raise maxUnhealthy of the FencePolicy."}
	coolingDown = policy.Reason{Code: "CoolingDown", Short: "too many nodes were unhealthy a short time ago",
		Help: "Wait for the policy's cooldown, or shorten it."}
	noSuchNode = policy.Reason{Code: "NoSuchNode", Short: "there is no such Node",
		Help: "Without a Node its pods are removed by pod garbage collection. kubectl podgrace fence NAME makes a right Fence."}
	wrongTarget = policy.Reason{Code: "WrongTarget", Short: "the Node has another UID or boot than the Fence says",
		Help: "Delete the Fence, and ask for another: kubectl podgrace fence NAME."}
	returned = policy.Reason{Code: "Returned", Short: "the node was heard of again before anything was done"}
)

// Why a node is fenced.
var (
	justified = policy.Reason{Code: "Justified", Short: "a protected pod has waited for the node as long as it tolerates"}
	requested = policy.Reason{Code: "Requested", Short: "a person asks for it"}
)

// Reasons are those of all verdicts.
func Reasons() []policy.Reason {
	return []policy.Reason{
		factsUnknown, fencerCutOff, zoneDisrupted, ownNode, noPolicy, showOnly, controlPlaneNode, sharedIdentity, noIdentity, maintained, stillReady, nothingAtStake, stillPatient,
		paused, noAgent, anotherFence, tooManyFences, tooManyUnhealthy, coolingDown, noSuchNode, wrongTarget, returned, justified, requested,
	}
}
