package fencing

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

const (
	// watchdogFeeds is how many timeouts of the watchdog may pass after the last decision to feed it: that one was held up, the process ended, and the machine was gone
	// (nodeenforcer/selffence, doc.go).
	watchdogFeeds = 3
	// watchdogMargin is for what is measured in whole seconds, and for the reset itself.
	watchdogMargin = 10 * time.Second
	// slew is one part of so many by which a clock may be slewed to the right time, the monotonic one as well: chronyd does so by as much unless it is told otherwise (chrony.conf(5),
	// maxslewrate 83333.333 ppm). What quartz adds is a hundredth of that.
	slew = 12
	// maxSelfFence in bytes is how long the annotation may be, and maxReckoned how long it may take: whoever writes more has something else in mind.
	maxSelfFence = 1024
	maxReckoned  = 2 * time.Hour
)

// selfFenceOf reads what a Node says of its watchdog. why says why nothing of it can be used.
func selfFenceOf(n *corev1.Node) (s *v1alpha1.SelfFence, why string) {
	text := n.Annotations[v1alpha1.AnnotationSelfFence]
	switch {
	case text == "":
		return nil, ""
	case len(text) > maxSelfFence:
		return nil, fmt.Sprintf("its annotation %s is longer than %d bytes", v1alpha1.AnnotationSelfFence, maxSelfFence)
	}
	var says v1alpha1.SelfFence
	if err := json.Unmarshal([]byte(text), &says); err != nil {
		return nil, fmt.Sprintf("its annotation %s can't be read: %v", v1alpha1.AnnotationSelfFence, err)
	}
	switch d, w := says.Patience.Duration, says.Timeout.Duration; {
	case says.BootID == "" || says.BootID != n.Status.NodeInfo.BootID:
		return nil, "its annotation " + v1alpha1.AnnotationSelfFence + " is about another boot"
	case says.Off != "":
		return nil, "its watchdog is not armed"
	case says.NodeUID != n.UID:
		return nil, "its annotation " + v1alpha1.AnnotationSelfFence + " is about another Node of this name, or its node enforcer is of an older version"
	case d <= 0 || w <= 0 || d > maxReckoned || w > maxReckoned:
		return nil, fmt.Sprintf("its annotation %s says patience %s and timeout %s, which nobody means", v1alpha1.AnnotationSelfFence, d, w)
	}
	return &says, ""
}

// unfit says why a node's watchdog is not reckoned with; empty: it is.
func unfit(n *Node, agent *v1alpha1.FenceAgentSpec) string {
	switch {
	case n.SelfFence == nil && n.NoSelfFence == "":
		return "the node has no annotation " + v1alpha1.AnnotationSelfFence + ": no node enforcer feeds a watchdog there"
	case n.SelfFence == nil:
		return n.NoSelfFence
	case n.SelfFence.Pausable && (agent.Watchdog == nil || !agent.Watchdog.NeverPaused):
		return "the machine is a virtual one, or may be, and whoever pauses it pauses its watchdog (watchdog: {neverPaused: true} takes the operator's word that nobody does)"
	}
	return ""
}

// resetAfter is how long after the last renewal of its Lease a machine is gone that feeds its watchdog so, by the fencer's clock: the machine's may be slow by a slew, and the fencer's
// fast.
func resetAfter(s *v1alpha1.SelfFence) time.Duration {
	d := s.Patience.Duration + watchdogFeeds*s.Timeout.Duration + watchdogMargin
	return d * (slew + 1) / (slew - 1)
}

// reckon waits until the machine's watchdog must have reset it. What the Node says of it now counts, and is read from the API server for this round: it says off before the watchdog is
// disarmed, so that one of which it says that it is armed was armed all the time.
func (a *attempt) reckon() {
	name := a.fence.Spec.Node.Name
	n := a.facts.bootSeen(a.fence.Spec.Node.BootID)
	if n == nil || !n.Live {
		a.fail(fmt.Sprintf("%s does not know what the watchdog of node %s was set to: its Node is gone", a.who(), name), true)
		return
	}
	if why := unfit(n, a.spec()); why != "" {
		a.fail(fmt.Sprintf("%s can't reckon with the watchdog of node %s: %s", a.who(), name, why), true)
		return
	}
	if len(a.progress.Readings) == 0 { // of nothing: from then on the attempt's time counts
		a.read("reckons when the watchdog resets it", 0)
		return
	}
	after, silent := resetAfter(n.SelfFence), a.silent()
	_, heard := a.counted() // where the silence began again the node is not heard of by that
	switch {
	case !accepts(&a.agent.FencePolicyAgent, v1alpha1.EvidenceWatchdogExpired):
		a.fail(fmt.Sprintf("the policy did not accept the evidence WatchdogExpired from %s", a.who()), true)
	case a.heard():
		a.over("NodeReturned", "node %s was heard of again, and its watchdog is fed: nothing is released", name)
	case heard && silent < n.lease() && a.elapsed() >= a.timeout && a.other() == 0: // a person asked for it
		a.over("FenceRefused", "node %s is heard of, and its watchdog resets it only where it is not: no agent of its policy can power it off. Power it off by hand: kubectl podgrace confirm node/%s", name, name)
	case silent < after:
		a.await(fmt.Sprintf("%s waits until the fencer itself has not heard of node %s for %s: by then its watchdog (%s) has reset it", a.who(), name, after.Round(time.Second), n.SelfFence.Watchdog), after-silent,
			fmt.Sprintf("the watchdog of node %s resets it later than %s after this attempt began", name, a.timeout))
	default:
		text := fmt.Sprintf("FenceAgent %s reckons that the watchdog of node %s (%s, %s) has reset it: it feeds it for %s after the last renewal of its Lease, of which the fencer has not heard for %s",
			a.agent.Name, name, n.SelfFence.Watchdog, n.SelfFence.Timeout.Duration, n.SelfFence.Patience.Duration, after.Round(time.Second))
		a.do("the watchdog of node "+name+" has expired; its FenceReceipt is being written", CreateReceipt{newReceipt(a.fence, a.agent, n.Sign, v1alpha1.EvidenceWatchdogExpired, text)})
		a.next.After = readBackGap
	}
}

// spec is the agent's as it is now, the zero value where there is none.
func (a *attempt) spec() *v1alpha1.FenceAgentSpec {
	for i := range a.facts.Agents {
		if x := &a.facts.Agents[i]; x.Name == a.agent.Name {
			return &x.Spec
		}
	}
	return &v1alpha1.FenceAgentSpec{}
}
