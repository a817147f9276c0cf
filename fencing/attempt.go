package fencing

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing/storage"
)

const (
	// readBackGap is how far the two readings that prove a power off are apart at least: one answer may be an old one, or that of a moment.
	readBackGap = 5 * time.Second
	// readEvery is how often the power is read while it is not off yet.
	readEvery = 2 * time.Second
	// attemptEvery is how far attempts are apart at least; from the second time round all agents on it is the attempt's timeout, where that is longer.
	attemptEvery = 10 * time.Second
)

// act takes an attempt further: it reads the power, orders it off, and reads it until it was off twice.
func (s *step) act() {
	if s.ended() {
		return
	}
	at := s.fence.Status.Attempt
	if at == nil {
		s.attempt(1, "")
		return
	}
	agent := s.agent(at.Agent)
	if agent == nil {
		s.attempt(at.Number+1, fmt.Sprintf("FenceAgent %s is none of the target's", at.Agent))
		return
	}
	if why := stillThat(agent, s.fence.Spec.Node.Name, s.facts); why != "" {
		s.attempt(at.Number+1, why)
		return
	}
	if s.progress.Attempt != at.Number {
		s.progress = Progress{Attempt: at.Number, Began: s.facts.Now.Led}
	}
	a := &attempt{step: s, agent: agent, number: at.Number, timeout: cmp.Or(agent.Timeout.Duration, time.Minute)}
	switch {
	case s.progress.Calling: // what the message says was said before the call
	case agent.Type == v1alpha1.AgentManual:
		a.askPerson()
	case agent.Type == v1alpha1.AgentWatchdog:
		a.reckon()
	default:
		a.proceed()
	}
	if now := s.next.Status.Attempt; !s.progress.Calling && s.next.Status.Phase == v1alpha1.FenceActing && now.Number == at.Number && at.Message != "" && !s.repeats(at.Message) {
		s.wait("%s. Before: %s", s.next.Status.Message, at.Message)
	}
}

// repeats reports whether the message already says why the attempt before failed.
func (s *step) repeats(before string) bool {
	_, why, found := strings.Cut(before, " failed: ")
	return found && strings.Contains(s.next.Status.Message, " failed: "+why)
}

func (s *step) agent(name string) *v1alpha1.FenceTargetAgent {
	for i := range s.fence.Status.Target.Agents {
		if a := &s.fence.Status.Target.Agents[i]; a.Name == name {
			return a
		}
	}
	return nil
}

// attempt is the attempt that is stored, and goes on.
type attempt struct {
	*step
	agent   *v1alpha1.FenceTargetAgent
	number  int32
	timeout time.Duration
}

// words are what an agent does, in its messages.
type words struct{ do, ordered, what, done, failed string }

func wordsOf(a *v1alpha1.FenceTargetAgent) words {
	if a.Storage != nil {
		return words{do: "revoke its storage", ordered: "the storage is ordered to be revoked", what: "NetworkFence", done: "the storage is revoked", failed: "did not have the storage of node %s revoked"}
	}
	return words{do: "power it off", ordered: "the power is ordered off", what: "power", done: "the power is off", failed: "did not power off node %s"}
}

func (a *attempt) words() words { return wordsOf(a.agent) }

func (a *attempt) who() string            { return "FenceAgent " + a.agent.Name }
func (a *attempt) elapsed() time.Duration { return a.facts.Now.Led - a.progress.Began }

// call is what to call the agent with.
func (a *attempt) call() Call {
	return Call{Attempt: a.number, Agent: *a.agent.DeepCopy(), Machine: *a.agent.Machine.DeepCopy(), Timeout: max(a.timeout-a.elapsed(), readBackGap)}
}

// askPerson waits for a person's receipt, which counts whenever it comes.
func (a *attempt) askPerson() {
	name := a.fence.Spec.Node.Name
	ask := fmt.Sprintf("it waits for a person (%s): make sure that the machine of node %s is off and stays off, then: kubectl podgrace confirm node/%s", a.who(), name, name)
	if !a.progress.Asked {
		a.do(ask, AskPerson{a.call()})
		return
	}
	a.await(ask, 0, fmt.Sprintf("nobody confirmed within %s that node %s is off", a.timeout, name))
}

// other is the number of the next attempt by another agent; 0: none can be used.
func (a *attempt) other() int32 {
	_, next := agentOf(a.fence.Status.Target, a.number+1, func(o *v1alpha1.FenceTargetAgent) bool {
		return o.Name != a.agent.Name && stillThat(o, a.fence.Spec.Node.Name, a.facts) == ""
	})
	return next
}

// await waits for what comes by itself, in a while if that is known; when the attempt's time is over another agent is tried, if one can be.
func (a *attempt) await(what string, while time.Duration, over string) {
	next := a.other()
	if next != 0 && a.elapsed() >= a.timeout {
		a.attempt(next, over)
		return
	}
	a.wait("%s", what)
	a.next.After = while
	if left := a.timeout - a.elapsed(); next != 0 && (while == 0 || left < while) {
		a.next.After = left
	}
}

// proceed goes by what was read last.
func (a *attempt) proceed() {
	p := &a.progress
	if a.agent.Storage != nil && a.heard() {
		a.over("NodeReturned", "node %s was heard of again: nothing is released. If its storage is revoked, it stays so until the node has booted anew (kubectl get networkfences): reboot it", a.fence.Spec.Node.Name)
		return
	}
	if len(p.Readings) == 0 {
		if p.Asked {
			a.read(a.words().ordered+", and read", 0)
		} else {
			a.read("reads the "+a.words().what+" first", 0)
		}
		return
	}
	last := p.Readings[len(p.Readings)-1]
	switch wrong := a.wrongMachine(); {
	case wrong != "":
		a.fail(wrong, true)
	case last.off() && (p.Asked || last.Power == PowerGone || a.heard()):
		a.off()
	case !p.Asked: // also where it is said to be off: a BMC that was reset a moment ago may say so of a machine that is on
		a.order(last)
	case a.elapsed() >= a.timeout:
		a.notOff(last)
	default:
		a.read("waits until "+a.words().done+"; "+last.said(), readEvery)
	}
}

// off reports whether the reading is exactly that the machine has no power, or no storage.
func (r *Read) off() bool {
	return r.Err == nil && (r.Power == PowerOff || r.Power == PowerGone || r.Power == PowerRevoked)
}

// said is what the agent answered.
func (r *Read) said() string {
	if r.Err != nil {
		return "it says: " + r.Err.Error()
	}
	if r.Object != "" {
		return fmt.Sprintf("it says %q", r.State)
	}
	return fmt.Sprintf("it says that the power is %q", cmp.Or(r.State, "(nothing)"))
}

// wrongMachine says why the machine that the agent reaches is not, or is not known to be, the node's.
func (a *attempt) wrongMachine() string {
	p, t := &a.progress, a.fence.Status.Target
	if errors.Is(p.Refused, ErrWrongMachine) || errors.Is(p.Refused, ErrUnknownMachine) {
		return fmt.Sprintf("%s: %s", a.who(), p.Refused)
	}
	for i := range p.Readings {
		r := &p.Readings[i]
		switch {
		case errors.Is(r.Err, ErrWrongMachine) || errors.Is(r.Err, ErrUnknownMachine):
			return fmt.Sprintf("%s: %s", a.who(), r.Err)
		case r.Err != nil:
		case r.SystemUUID != "" && MachineKey(t.SystemUUID) != "" && !sameUUID(r.SystemUUID, t.SystemUUID):
			return fmt.Sprintf("%s reaches another machine: its UUID is %s, that of node %s was %s. Correct its list of machines", a.who(), r.SystemUUID, a.fence.Spec.Node.Name, t.SystemUUID)
		case a.agent.Identity != v1alpha1.IdentityConfigured && !sameUUID(r.SystemUUID, t.SystemUUID):
			return fmt.Sprintf("%s does not tell the UUID of the machine, so that it is not known to be that of node %s (identity: Configured would trust the list)", a.who(), a.fence.Spec.Node.Name)
		}
	}
	return ""
}

// order orders the power off, once an attempt, where the power could be read and the node was not heard of.
func (a *attempt) order(last Read) {
	name := a.fence.Spec.Node.Name
	switch {
	case last.Err != nil:
		a.fail(fmt.Sprintf("%s can't read the %s: %s", a.who(), a.words().what, last.Err), false)
	case a.heard() && last.Power == PowerOn:
		a.over("NodeReturned", "node %s was heard of again, and by %s nothing has come of it yet (%s): nothing is released. An order that was given before may still be carried out", name, a.who(), last.said())
	case a.heard() && a.elapsed() >= a.timeout:
		a.fail("node "+name+" was heard of again, so that its power is not ordered off; "+last.said(), false)
	case a.agent.Storage != nil && a.silent() < a.hush(): // as where a person asks for it, or this fencer has begun to lead
		if a.elapsed() >= a.timeout+a.hush() {
			a.runs("its storage is not revoked")
			return
		}
		a.wait("%s revokes the storage of node %s once the fencer itself has not heard of it for %s", a.who(), name, a.hush())
		a.next.After = a.hush() - a.silent()
	case a.heard():
		a.read("node "+name+" was heard of again: the power is not ordered off, only read; "+last.said(), readEvery)
	default:
		a.do(fmt.Sprintf("%s is to %s, node %s: attempt %d", a.who(), a.words().do, name, a.number), OrderOff{a.call()})
	}
}

// stillHeard is where a node is heard of though its agent has done what it was asked for.
func (a *attempt) stillHeard() {
	if a.agent.Storage != nil {
		a.runs("its storage is revoked, and stays so until it has booted anew: reboot it")
		return
	}
	a.fail(fmt.Sprintf("%s says that the machine of node %s is off, and the node is still heard of: its address leads to another machine", a.who(), a.fence.Spec.Node.Name), true)
}

// runs is where a node is heard of whose storage is asked for: nothing is released while it runs, so that only an agent that powers it off is of use.
func (a *attempt) runs(storage string) {
	why := fmt.Sprintf("node %s is heard of all the time, and nothing is released while it runs: %s", a.fence.Spec.Node.Name, storage)
	if _, power := agentOf(a.fence.Status.Target, a.number+1, func(o *v1alpha1.FenceTargetAgent) bool {
		return o.Storage == nil && o.Type != v1alpha1.AgentWatchdog && stillThat(o, a.fence.Spec.Node.Name, a.facts) == ""
	}); power != 0 {
		a.fail(why, true)
		return
	}
	a.over("NodeReturned", "%s", why)
}

// notOff is where the timeout of an attempt passes before the power is off.
func (a *attempt) notOff(last Read) {
	why := fmt.Sprintf("%s "+a.words().failed+" within %s: %s", a.who(), a.fence.Spec.Node.Name, a.timeout, last.said())
	if a.progress.Refused != nil {
		why += "; to the order it said: " + a.progress.Refused.Error()
	}
	if a.heard() && last.Err == nil && last.Power == PowerOn {
		a.over("NodeReturned", "node %s was heard of again, and is not powered off: nothing is released. %s", a.fence.Spec.Node.Name, why)
		return
	}
	a.fail(why, false)
}

// off makes the receipt once the power was read to be off twice, a while apart, both times after the node was heard of last.
func (a *attempt) off() {
	readings := a.progress.Readings
	name := a.fence.Spec.Node.Name
	last := readings[len(readings)-1]
	// Of the readings that end the list and are off, the first one, and the last.
	first := last
	for i := len(readings) - 1; i >= 0 && readings[i].off() && readings[i].Object == last.Object && a.unheardSince(readings[i]); i-- {
		first = readings[i]
	}
	pair := [2]Read{first, last}
	class := classOf(pair)
	silent := a.silent()
	switch {
	case !accepts(&a.agent.FencePolicyAgent, class):
		a.fail(fmt.Sprintf("%s says that the machine of node %s is off, by evidence of the class %s, which the policy did not accept from it", a.who(), name, class), true)
	case class == v1alpha1.EvidenceStorageRevoked != (a.agent.Storage != nil):
		a.fail(fmt.Sprintf("%s gives evidence of the class %s, which is none of its type", a.who(), class), true)
	case !a.unheardSince(last) && a.elapsed() >= a.timeout+a.hush():
		a.stillHeard()
	case last.Began.Led-first.At.Led < readBackGap || !a.unheardSince(last):
		a.read(a.words().done+"; it is read once more", readBackGap)
	case a.agent.Storage != nil && storage.Unfencing(a.facts.StorageFences, a.agent.Storage.CIDRs) != "":
		a.read("NetworkFence "+storage.Unfencing(a.facts.StorageFences, a.agent.Storage.CIDRs)+" says Unfenced for the same address; it is read once more", readEvery)
	case silent < a.hush():
		a.wait("of node %s %s; it waits until the fencer itself has not heard of the node for %s", name, a.words().done, a.hush())
		a.next.After = a.hush() - silent
	default:
		sign := a.fence.Status.Target.LastSign
		if n := a.facts.bootSeen(a.fence.Spec.Node.BootID); n != nil {
			sign = n.Sign
		}
		a.do("of node "+name+" "+a.words().done+"; its FenceReceipt is being written", CreateReceipt{readReceipt(a.fence, a.agent, sign, pair)})
		a.next.After = readBackGap
	}
}

// counted is since when the fencer has not heard of the boot, and whether it was heard of then. Of a Node that is gone nothing can be heard, and when it was heard of last
// is not known: a kubelet that runs makes it again.
func (a *attempt) counted() (since time.Duration, heard bool) {
	if n := a.facts.bootSeen(a.fence.Spec.Node.BootID); n != nil {
		return a.facts.Now.Led - n.Silent, n.Heard
	}
	if since, gone := a.facts.Gone[a.fence.Spec.Node.UID]; gone {
		return since, false
	}
	return a.facts.Now.Led, false
}

// hush is for how long the fencer must not have heard of a node whose machine is said to be off: a node that runs is heard of four times while its Lease lasts, so that an agent
// whose address leads to another machine is found out, and what the node sent last has arrived.
func (a *attempt) hush() time.Duration { return a.facts.node(a.fence.Spec.Node.Name).lease() }

func (a *attempt) silent() time.Duration {
	since, _ := a.counted()
	return a.facts.Now.Led - since
}

// unheardSince reports whether the boot was not heard of since a reading began. What the fencer did not watch counts as heard of: of a reading that is older than its present
// count of the silence nothing is known.
func (a *attempt) unheardSince(r Read) bool {
	since, heard := a.counted()
	return since < r.Began.Led || since == r.Began.Led && !heard
}

// read reads the power, some time after the last reading.
func (a *attempt) read(why string, after time.Duration) {
	text := fmt.Sprintf("%s, attempt %d for node %s: %s", a.who(), a.number, a.fence.Spec.Node.Name, why)
	if n := len(a.progress.Readings); n > 0 {
		if left := a.progress.Readings[n-1].At.Led + after - a.facts.Now.Led; left > 0 {
			a.wait("%s", text)
			a.next.After = left
			return
		}
	}
	a.do(text, ReadPower{a.call()})
}

// changed tells whoever has corrected a FenceAgent that the target was frozen before that; empty: it was not changed.
func (a *attempt) changed() string {
	for i := range a.facts.Agents {
		if x := &a.facts.Agents[i]; x.Name == a.agent.Name && x.Generation != a.agent.Generation {
			return fmt.Sprintf("%s was changed since this was decided, and this Fence goes on by what it said then: kubectl delete fence %s has it decided anew. ", a.who(), a.fence.Name)
		}
	}
	return ""
}

// fail ends the attempt and begins another one, of this agent or, if there is no use, of the next; not at once, so that a broken BMC is not flooded.
func (a *attempt) fail(why string, noUse bool) {
	every := attemptEvery
	t := a.fence.Status.Target
	all := int32(0)
	for i := range t.Agents {
		all += max(t.Agents[i].Attempts, 1)
	}
	if a.number > all || noUse {
		every = max(every, a.timeout)
	}
	if left := every - a.elapsed(); left > 0 {
		a.wait("attempt %d for node %s failed: %s. %sIf its machine is known to be off: kubectl podgrace confirm node/%[2]s", a.number, a.fence.Spec.Node.Name, why, a.changed())
		a.next.After = left
		return
	}
	next := a.number + 1
	if noUse {
		if other := a.other(); other != 0 {
			next = other
		}
	}
	a.attempt(next, fmt.Sprintf("attempt %d for node %s failed: %s", a.number, a.fence.Spec.Node.Name, why))
}
