package fencing

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/console"
)

// step is one call of Step.
type step struct {
	fence    *v1alpha1.Fence
	facts    *Facts
	progress Progress
	// node of the Fence's name; nil: there is none.
	node *Node
	next Next
}

// Step takes one Fence a step further: what its status becomes, or what is to be done. The verdict is that of Decide about it, nil where Decide has none: a Fence
// that has begun is not decided again, so that a policy which is edited, paused or deleted since changes nothing of it.
func Step(fence *v1alpha1.Fence, verdict *Verdict, facts Facts, progress Progress) Next {
	s := &step{fence: fence, facts: &facts, progress: progress}
	s.next.Status = *fence.Status.DeepCopy()
	if fence.Status.Phase == v1alpha1.FenceOver {
		return s.next
	}
	s.node = facts.node(fence.Spec.Node.Name)
	switch {
	case undecided(fence):
		s.decide(verdict)
	case !facts.Known.all():
		s.wait("it waits until nodes, Fences, FenceReceipts and FenceAgents can be listed")
	case s.node == nil && !facts.gone(fence.Spec.Node.UID) || s.node != nil && !s.node.Live:
		s.wait("it waits until Node %s can be read", fence.Spec.Node.Name)
	default:
		s.goOn()
	}
	s.next.Changed = !equality.Semantic.DeepEqual(s.next.Status, fence.Status)
	if s.next.Changed {
		s.next.Actions, s.next.After = nil, 0
	}
	return s.next
}

// goOn takes a Fence further that was begun.
func (s *step) goOn() {
	switch phase := s.fence.Status.Phase; phase {
	case v1alpha1.FenceDecided:
		s.begin()
	case v1alpha1.FenceActing:
		s.act()
	case v1alpha1.FenceVerified:
		s.release()
	case v1alpha1.FenceReleased:
		s.watch()
	default:
		s.wait("this fencer does not know the phase %q", phase)
	}
}

// wait leaves the phase as it is, and says what is waited for.
func (s *step) wait(format string, args ...any) {
	s.next.Status.Message = message(fmt.Sprintf(format, args...))
}

// to is the phase that begins, and why.
func (s *step) to(phase v1alpha1.FencePhase, told Told) {
	st := &s.next.Status
	told.Message = message(told.Message)
	st.Phase, st.Message = phase, told.Message
	known := false
	for _, t := range st.Times {
		known = known || t.Phase == phase
	}
	if !known {
		st.Times = append(st.Times, v1alpha1.FencePhaseTime{Phase: phase, Time: metav1.NewMicroTime(s.facts.Now.Wall)})
	}
	s.next.Tell = append(s.next.Tell, told)
}

func (s *step) over(reason, format string, args ...any) {
	s.to(v1alpha1.FenceOver, Told{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// do is what is to be done, and the message for as long as it is.
func (s *step) do(what string, actions ...Action) {
	s.wait("%s", what)
	s.next.Actions = append(s.next.Actions, actions...)
}

// decide follows the verdict about a Fence that nobody has begun.
func (s *step) decide(v *Verdict) {
	switch {
	case v == nil || v.Fence != s.fence.Name:
		s.next.Status.Phase = v1alpha1.FenceWaiting
		s.wait("it waits until the fencer has judged it")
	case v.Do == DoFence && v.Target != nil:
		s.next.Status.Target, s.next.Status.Policy = v.Target.DeepCopy(), v.Policy
		s.to(v1alpha1.FenceDecided, Told{Warning: true, Reason: "FenceDecided", Message: v.Message})
	case v.Do == DoRefuse:
		s.to(v1alpha1.FenceOver, Told{Warning: true, Reason: "FenceRefused", Message: v.Message})
	case s.fence.Status.Message != v.Message:
		s.to(v1alpha1.FenceWaiting, Told{Warning: true, Reason: "FenceWaiting", Message: v.Message})
	default:
		s.next.Status.Phase = v1alpha1.FenceWaiting
	}
}

// ended ends an incident that no power off would be right for any more, or for which there is a receipt already.
func (s *step) ended() bool {
	boot, t := s.fence.Spec.Node, s.fence.Status.Target
	if t == nil {
		s.to(v1alpha1.FenceOver, Told{Warning: true, Reason: "FenceRefused", Message: "its status has no target: somebody edited it. Delete it, and ask for another: kubectl podgrace fence " + boot.Name})
		return true
	}
	if s.proved() {
		return true
	}
	if n := s.node; n != nil && n.UID == boot.UID && n.BootID != "" && n.BootID != boot.BootID {
		s.over("NodeReturned", "node %s runs another boot (%s): the one that was to be fenced has ended, and nothing is left to do", boot.Name, n.BootID)
		return true
	}
	if s.anew() {
		return true
	}
	for i := range s.facts.Nodes {
		n := &s.facts.Nodes[i]
		if n.BootID == "" || n.BootID == boot.BootID || !sameUUID(n.SystemUUID, t.SystemUUID) && (t.ProviderID == "" || n.ProviderID != t.ProviderID) {
			continue
		}
		s.over("NodeReturned", "Node %s says that it is the same machine, by another boot (%s): it is not powered off", n.Name, n.BootID)
		return true
	}
	return false
}

// provedOff goes over to the receipt that the boot is off, where there is one that nobody contradicts.
func (s *step) provedOff() bool {
	boot := s.fence.Spec.Node
	r := receiptFor(boot, s.fence.Status.Target, s.facts)
	if r == nil || s.facts.contradicts(r) != nil {
		return false
	}
	s.next.Status.Receipt = r.Name
	s.to(v1alpha1.FenceVerified, Told{Warning: true, Reason: "NodeFenced", Message: fmt.Sprintf("the boot %s of node %s is known to be off: FenceReceipt %s (%s)", boot.BootID, boot.Name, r.Name, r.Spec.Class)})
	return true
}

// proved goes over to the receipt that there is for the boot: that it is off, or else that its storage is revoked.
func (s *step) proved() bool {
	if s.provedOff() {
		return true
	}
	boot := s.fence.Spec.Node
	if r := receiptOfStorage(s.fence, s.facts); r != nil {
		s.next.Status.Receipt = r.Name
		s.to(v1alpha1.FenceVerified, Told{Warning: true, Reason: "StorageRevoked", Message: fmt.Sprintf("node %s can't write to %s any more: FenceReceipt %s. It may still run",
			boot.Name, console.Plural(len(r.Spec.Volumes), "volume", "volumes"), r.Name)})
		return true
	}
	return false
}

// anew ends the incident of a Node that was deleted, and whose kubelet made another one: the same boot was heard of by that, and is that one's to be fenced for. No receipt
// could say that it is off: what is known of it since is no sign of life of the Node that it would be for.
func (s *step) anew() bool {
	boot := s.fence.Spec.Node
	n := s.facts.bootSeen(boot.BootID)
	if n == nil || n.UID == boot.UID || !s.facts.gone(boot.UID) {
		return false
	}
	s.over("NodeReturned", "the boot %s was heard of as another Node %s (UID %s): nothing is released, and that one is judged anew. An order that was given before may still take its power",
		boot.BootID, n.Name, n.UID)
	return true
}

// heard reports whether the boot that is to be fenced was heard of since it was decided. Of a boot that the fencer was asked to fence whether or not it is heard of it does
// not matter.
func (s *step) heard() bool {
	n := s.facts.bootSeen(s.fence.Spec.Node.BootID)
	return s.fence.Spec.Reason != v1alpha1.FenceRequested && n != nil && guard.HeardSince(s.fence.Status.Target.LastSign, n.Sign)
}

// begin writes down the first attempt.
func (s *step) begin() {
	if s.ended() {
		return
	}
	name := s.fence.Spec.Node.Name
	if s.heard() {
		s.over("NodeReturned", "node %s was heard of again before anything was done", name)
		return
	}
	if d := doubted(s.facts); d != nil {
		s.wait("node %s is to be fenced, but %s: it waits. %s", name, d.message, d.reason.Help)
		return
	}
	s.attempt(1, "")
}

// attempt writes down the next attempt: the first from this number on whose agent can be used. It is stored before the agent is called.
func (s *step) attempt(from int32, failed string) {
	t := s.fence.Status.Target
	problems := ""
	agent, number := agentOf(t, from, func(a *v1alpha1.FenceTargetAgent) bool {
		why := stillThat(a, s.fence.Spec.Node.Name, s.facts)
		problems = cmp.Or(problems, why)
		return why == ""
	})
	if agent == nil {
		s.wait("no agent can be used any more: %s. If the machine of node %s is known to be off: kubectl podgrace confirm node/%s; else delete this Fence, and it is decided anew",
			cmp.Or(problems, "the target names none"), s.fence.Spec.Node.Name, s.fence.Spec.Node.Name)
		return
	}
	s.next.Status.Attempt = &v1alpha1.FenceAttempt{Agent: agent.Name, Number: number, Started: metav1.NewTime(s.facts.Now.Wall), Message: console.Shorten(message(failed), 400)}
	told := Told{Reason: "FenceAttempt", Message: fmt.Sprintf("node %s: attempt %d to %s, by FenceAgent %s", s.fence.Spec.Node.Name, number, wordsOf(agent).do, agent.Name)}
	if failed != "" {
		told.Warning = true
		told.Message = failed + ". Next: " + told.Message
	}
	s.to(v1alpha1.FenceActing, told)
}
