package fencing_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
)

// fence1 is the Fence of n1's silence.
func fence1(w *world) *v1alpha1.Fence {
	for _, x := range w.fences {
		if x.Spec.Node.Name == "n1" {
			return x
		}
	}
	return &v1alpha1.Fence{}
}

func reaches(phase v1alpha1.FencePhase) func(*world) bool {
	return func(w *world) bool { return fence1(w).Status.Phase == phase }
}

// TestFromSilenceToReleased: the whole way, and back.
func TestFromSilenceToReleased(t *testing.T) {
	t.Parallel()
	w := silentWorld(func(s *v1alpha1.FencePolicySpec) { s.Agents[0].Timeout.Duration = time.Minute })
	m := w.machines[1]
	m.Attached = []string{"va-1"}
	var did []string
	w.check = func(_ *v1alpha1.Fence, a fencing.Action) {
		if a != nil && (len(did) == 0 || did[len(did)-1] != a.String()) {
			did = append(did, a.String())
		}
	}
	if !w.until(30, func() bool { return reaches(v1alpha1.FenceReleased)(w) }) {
		t.Fatalf("%+v", fence1(w).Status)
	}
	r := w.receiptOf("boot-1-0")
	if r == nil || r.Spec.Class != v1alpha1.EvidencePoweredOff || len(r.Spec.ReadBacks) != 2 || r.Spec.LastSign != m.Sign || r.Spec.Identity != v1alpha1.IdentityVerified ||
		r.Spec.ReadBacks[1].Time.Sub(r.Spec.ReadBacks[0].Time.Time) < 5*time.Second || r.Spec.Agent != "bmc" || r.Spec.Fence != fence1(w).Name {
		t.Errorf("receipt %+v", r)
	}
	if m.power || len(m.Pods) > 0 || m.Taint == nil || m.ConfirmOff != m.Sign {
		t.Errorf("released: power %v, pods %v, taint %v", m.power, m.Pods, m.Taint)
	}
	want := []string{"read the power by FenceAgent bmc, attempt 1", "power off by FenceAgent bmc, attempt 1", "read the power by FenceAgent bmc, attempt 1", "create FenceReceipt " + r.Name,
		"confirm that node n1 is off", "delete pod shop/db-1 with grace period 0", "taint node n1 as out of service"}
	if !slices.Equal(did, want) {
		t.Errorf("did %q", did)
	}
	if proofs := fencing.Proofs(w.receipts); len(proofs) != 1 || proofs[0].NodeUID != "node-1" || proofs[0].BootID != "boot-1-0" {
		t.Errorf("the guard is told %+v", proofs)
	}
	w.until(5, func() bool { return false })
	if reaches(v1alpha1.FenceOver)(w) || m.Taint == nil {
		t.Error("it is over before the node is back")
	}
	m.linked = true
	m.turnOn()
	if !w.until(5, func() bool { return reaches(v1alpha1.FenceOver)(w) }) || m.Taint != nil {
		t.Errorf("back by another boot: %+v, taint %v", fence1(w).Status, m.Taint)
	}
	if w.alarms != 0 {
		t.Error("another boot contradicts nothing")
	}
}

// TestIncidents: what becomes of a Fence, whatever happens.
func TestIncidents(t *testing.T) {
	t.Parallel()
	acting := reaches(v1alpha1.FenceActing)
	bmcIs := func(b bmc) func(*world) { return func(w *world) { w.machines[1].bmc = b } }
	boots := func(w *world) { w.machines[1].power = false; w.machines[1].linked = true; w.machines[1].turnOn() }
	for _, tt := range []struct {
		name   string
		before func(*world)
		when   func(*world) bool // then it happens; nil: at once
		happen func(*world)
		phase  v1alpha1.FencePhase
		says   string
		on     bool // the machine has power
	}{
		{"a BMC that works", nil, nil, nil, v1alpha1.FenceReleased, "its protected pods are released", false},
		{"a BMC that answers nothing", bmcIs(mute), nil, nil, v1alpha1.FenceActing, "can't read the power: no answer", true},
		{"a BMC that answers nothing for a while", bmcIs(mute), acting, func(w *world) { w.until(10, func() bool { return false }); w.machines[1].bmc = good }, v1alpha1.FenceReleased, "", false},
		{"a BMC that powers off for ever", bmcIs(stuck), nil, nil, v1alpha1.FenceActing, `"PoweringOff"`, true},
		{"a BMC that answers rubbish", bmcIs(rubbish), nil, nil, v1alpha1.FenceActing, `"(nothing)"`, true},
		{"another machine's BMC", bmcIs(foreign), nil, nil, v1alpha1.FenceActing, "reaches another machine: its UUID is 99999999", true},
		{"a BMC that was reset a moment ago", bmcIs(reset), nil, nil, v1alpha1.FenceReleased, "", false},
		{"a machine that is off already", func(w *world) { w.machines[1].power = false }, nil, nil, v1alpha1.FenceReleased, "", false},
		{"back before it was begun", func(w *world) { w.refuse = true; w.round(); w.refuse = false }, nil, func(w *world) { w.machines[1].linked = true }, v1alpha1.FenceOver, "it was heard of since the Fence was made", true},
		{"back while a BMC is mute", bmcIs(mute), acting, func(w *world) { w.machines[1].linked, w.machines[1].bmc = true, good }, v1alpha1.FenceOver, "was heard of again", true},
		{"back by another boot while it acts", bmcIs(mute), acting, boots, v1alpha1.FenceOver, "runs another boot", true},
		{"the Node is deleted while it acts", nil, acting, func(w *world) { w.machines[1].there, w.gone["n1"] = false, true }, v1alpha1.FenceOver, "was deleted", false},
		{"the Node is made anew while it acts", bmcIs(stuck), acting, func(w *world) {
			w.machines[1].there, w.machines[1].linked = false, true
			w.until(1, func() bool { return false })
			w.machines[1].linked, w.machines[1].bmc, w.machines[1].power = false, good, false
		}, v1alpha1.FenceOver, "was heard of as another Node", false},
		{"the policy is deleted while it acts", nil, acting, func(w *world) { w.policies = nil }, v1alpha1.FenceReleased, "", false},
		{"the policy is paused while it acts", nil, acting, func(w *world) { w.policies[0].Spec.Paused = true }, v1alpha1.FenceReleased, "", false},
		{"the agent is deleted while it acts", bmcIs(mute), acting, func(w *world) { w.agents = nil }, v1alpha1.FenceActing, "FenceAgent bmc was deleted since", true},
		{"the agent is made anew while it acts", bmcIs(mute), acting, func(w *world) { w.agents[0].UID = "agent-2" }, v1alpha1.FenceActing, "made anew", true},
		{"the agent has another type", bmcIs(mute), acting, func(w *world) { w.agents[0].Spec.Type = v1alpha1.AgentExec }, v1alpha1.FenceActing, "is Exec now", true},
		{"a new leader while it acts", nil, acting, (*world).newLeader, v1alpha1.FenceReleased, "", false},
		{"a new leader each time", nil, acting, func(w *world) {
			for range 5 {
				w.newLeader()
				w.until(2, func() bool { return false })
			}
		}, v1alpha1.FenceReleased, "", false},
		{"a person confirms", bmcIs(mute), acting, func(w *world) {
			boot := w.machines[1].Boot()
			w.receipts = append(w.receipts, v1alpha1.FenceReceipt{Spec: v1alpha1.FenceReceiptSpec{Node: &boot, Class: v1alpha1.EvidenceConfirmed, By: "alice"}})
			w.receipts[0].Name = "word"
		}, v1alpha1.FenceReleased, "", true},
		{"storage is revoked", bmcIs(mute), acting, func(w *world) {
			boot := w.machines[1].Boot()
			w.receipts = append(w.receipts, v1alpha1.FenceReceipt{Spec: v1alpha1.FenceReceiptSpec{Node: &boot, Class: v1alpha1.EvidenceStorageRevoked, Volumes: []string{"pv"}}})
		}, v1alpha1.FenceActing, "", true},
		{"its evidence is not accepted", func(w *world) {
			w.agents[0].Spec.Type = v1alpha1.AgentWebhook
			w.policies[0].Spec.Agents[0].Evidence = []v1alpha1.EvidenceClass{v1alpha1.EvidenceInstanceTerminated}
		}, nil, nil, v1alpha1.FenceActing, "which the policy did not accept", false},
		{"a person does the release", func(w *world) { w.policies[0].Spec.Release = v1alpha1.ReleaseNothing }, nil, nil, v1alpha1.FenceReleased, "leaves it to a person", false},
		{"the receipt is deleted", nil, reaches(v1alpha1.FenceReleased), func(w *world) { w.receipts = nil }, v1alpha1.FenceOver, "was deleted", false},
		{"nobody marks the node", nil, acting, func(w *world) { w.machines[1].beat = time.Hour; w.machines[1].Ready = true }, v1alpha1.FenceVerified, "still has it as Ready", false},
		{"a person is asked", func(w *world) { w.agents[0].Spec.Type = v1alpha1.AgentManual }, nil, nil, v1alpha1.FenceActing, "kubectl podgrace confirm node/n1", true},
		{"its target was edited away", bmcIs(mute), acting, func(w *world) { fence1(w).Status.Target = nil }, v1alpha1.FenceOver, "somebody edited it", true},
	} {
		w := silentWorld()
		if tt.before != nil {
			tt.before(w)
		}
		if tt.when != nil && !w.until(30, func() bool { return tt.when(w) }) {
			t.Errorf("%s: %+v", tt.name, fence1(w).Status)
			continue
		}
		if tt.happen != nil {
			tt.happen(w)
		}
		w.until(30, func() bool { return false })
		s := fence1(w).Status
		texts := s.Message
		if s.Phase != tt.phase || !strings.Contains(texts, tt.says) || w.machines[1].power != tt.on {
			t.Errorf("%s: %s, power %v: %q", tt.name, s.Phase, w.machines[1].power, texts)
		}
	}
}

// TestAgentsInTheirOrder: each is tried as often as the policy says, one that is of no use once, and a person is asked where the policy says so.
func TestAgentsInTheirOrder(t *testing.T) {
	t.Parallel()
	w := silentWorld(func(s *v1alpha1.FencePolicySpec) {
		other, person := s.Agents[0], s.Agents[0]
		other.Name, person.Name, person.Attempts = "other", "person", 1
		s.Agents = append(s.Agents, other, person)
	})
	other, person := *w.agents[0].DeepCopy(), *w.agents[0].DeepCopy()
	other.Name, person.Name, person.Spec.Type = "other", "person", v1alpha1.AgentManual
	other.Spec.Machines[1].Address, other.Spec.Machines[2].Address = "https://192.0.2.2", "https://192.0.2.1" // they were mixed up
	w.agents = append(w.agents, other, person)
	w.machines[1].bmc = mute
	var tried []string
	w.check = func(x *v1alpha1.Fence, a fencing.Action) {
		if at := x.Status.Attempt; a == nil && at != nil && (len(tried) == 0 || tried[len(tried)-1] != fmt.Sprint(at.Agent, at.Number)) {
			tried = append(tried, fmt.Sprint(at.Agent, at.Number))
		}
		if _, ok := a.(fencing.OrderOff); ok {
			t.Errorf("%s", a)
		}
	}
	w.until(40, func() bool { return len(tried) >= 7 })
	if got := strings.Join(tried[:min(7, len(tried))], " "); got != "bmc1 bmc2 other3 person5 bmc6 bmc7 other8" {
		t.Errorf("tried %s", got)
	}
	if !strings.Contains(fence1(w).Status.Message, "Before: ") && !strings.Contains(fence1(w).Status.Message, "Next: ") {
		t.Errorf("%q does not say what came of the attempt before", fence1(w).Status.Message)
	}
}

// TestFailedAttemptSaysWhatToDo: whoever corrects a FenceAgent while its Fence fails would wait for ever, since the target is frozen.
func TestFailedAttemptSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := silentWorld()
	w.machines[1].bmc = mute
	says := func(text string) bool {
		return w.until(40, func() bool { return fence1(w) != nil && strings.Contains(fence1(w).Status.Message, text) })
	}
	const off, anew = "If its machine is known to be off: kubectl podgrace confirm node/n1", "FenceAgent bmc was changed since this was decided"
	if !says(off) || strings.Contains(fence1(w).Status.Message, anew) {
		t.Fatalf("%q", fence1(w).Status.Message)
	}
	w.agents[0].Generation++
	if !says(anew) || !says("kubectl delete fence "+fence1(w).Name) {
		t.Errorf("%q", fence1(w).Status.Message)
	}
	if !says("attempt 3 for node n1 failed") || strings.Contains(fence1(w).Status.Message, "Before: ") {
		t.Errorf("the same twice: %q", fence1(w).Status.Message)
	}
}

// TestANodeThatCantBeConfirmed: a kubelet that has filled the annotations of its Node before its power went keeps nobody's pods.
func TestANodeThatCantBeConfirmed(t *testing.T) {
	t.Parallel()
	w := silentWorld()
	m := w.machines[1]
	m.full, m.Attached = true, []string{"va-1"}
	if !w.until(30, func() bool { return len(m.Pods) == 0 && m.Taint != nil }) {
		t.Fatalf("not released: %+v", fence1(w).Status)
	}
	m.full = false
	if !w.until(3, func() bool { return reaches(v1alpha1.FenceReleased)(w) }) || m.ConfirmOff != m.Sign {
		t.Errorf("%+v", fence1(w).Status)
	}
}

// TestContradicted: a BMC that lies about a node that is heard of again. Its receipt is void in the next round, nothing more is released, it is told as loudly as can
// be, and the BMC is not believed again.
func TestContradicted(t *testing.T) {
	t.Parallel()
	w := silentWorld()
	m := w.machines[1]
	m.bmc = liar
	if !w.until(30, func() bool { return reaches(v1alpha1.FenceReleased)(w) }) {
		t.Fatalf("%+v", fence1(w).Status)
	}
	m.linked = true
	w.until(2, func() bool { return false })
	if s := fence1(w).Status; w.receiptOf("boot-1-0") != nil || w.alarms != 1 || s.Phase != v1alpha1.FenceOver || !strings.Contains(s.Message, "is void") {
		t.Errorf("%d alarms, %+v", w.alarms, s)
	}
	if got := fencing.Proofs(w.receipts); len(got) > 0 {
		t.Errorf("the guard is told %+v", got)
	}
	w.until(10, func() bool { return false })
	if w.alarms != 1 {
		t.Errorf("%d alarms", w.alarms)
	}
	m.linked, m.bmc = false, good
	m.Pods = []fencing.Pod{{Namespace: "shop", Name: "db-1", UID: "pod-1b", Protected: true, Tolerates: new(time.Duration)}}
	w.until(20, func() bool { return false })
	i := slices.IndexFunc(w.verdicts, func(v fencing.Verdict) bool { return v.Node.Name == "n1" })
	if i < 0 || w.verdicts[i].Reason.Code != "NoAgent" || !strings.Contains(w.verdicts[i].Message, "said once of this machine what was not so") || !m.power {
		t.Errorf("%+v", w.verdicts)
	}
}

// TestARequestForANodeThatIsHeardOf: its power is ordered off, and the receipt waits until the fencer has not heard of it for as long as a Lease lasts: the agent may
// have reached another machine.
func TestARequestForANodeThatIsHeardOf(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		identity v1alpha1.FenceIdentity
		address  string
		released bool
	}{
		"the right machine":                         {v1alpha1.IdentityVerified, "https://192.0.2.1", true},
		"another one, which the list names wrongly": {v1alpha1.IdentityConfigured, "https://192.0.2.2", false},
	} {
		w := newWorld(7)
		w.passAll(3)
		w.agents[0].Spec.Identity, w.agents[0].Spec.Machines[1].Address = tt.identity, tt.address
		w.agents[0].Spec.Machines[2].Address = "https://192.0.2.6"
		if !tt.released {
			for i := range w.machines {
				w.machines[i].uuid = "" // BMCs that tell none
			}
		}
		ask(w, "asked", w.machines[1].Boot())
		w.check = func(_ *v1alpha1.Fence, a fencing.Action) {
			if _, ok := a.(fencing.CreateReceipt); ok && w.now-w.machines[1].beat < 40*time.Second {
				t.Errorf("%s: %s, %s after it was heard of", name, a, w.now-w.machines[1].beat)
			}
		}
		w.until(40, func() bool { return reaches(v1alpha1.FenceReleased)(w) })
		if s := fence1(w).Status; (s.Phase == v1alpha1.FenceReleased) != tt.released || (w.receiptOf("boot-1-0") != nil) != tt.released {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestAHeartbeatBeforeTheWatchesWereCut: a BMC that lies was read before a heartbeat, and of that the fencer's count of the silence, which begins again, knows nothing.
func TestAHeartbeatBeforeTheWatchesWereCut(t *testing.T) {
	t.Parallel()
	w := silentWorld()
	m := w.machines[1]
	m.bmc = liar
	if !w.until(20, func() bool { p := w.progress[fence1(w).Name]; return p != nil && len(p.Readings) > 1 }) {
		t.Fatalf("%+v", fence1(w).Status)
	}
	w.receipts = nil // the API server refused it
	m.linked = true
	w.passAll(1)
	m.linked = false
	w.silence.Restart(w.moment().Led)
	made := false
	w.check = func(_ *v1alpha1.Fence, a fencing.Action) {
		if c, ok := a.(fencing.CreateReceipt); ok {
			made = true
			if first := c.Receipt.Spec.ReadBacks[0].Time; began.Add(m.beat).After(first.Time) {
				t.Errorf("it was heard of at %s, and read back at %s", began.Add(m.beat), first)
			}
		}
	}
	w.until(20, func() bool { return made })
	if !made {
		t.Errorf("no receipt at all: %+v", fence1(w).Status)
	}
}

// TestConditions: what is said of nodes and pods, and when it changes.
func TestConditions(t *testing.T) {
	t.Parallel()
	conditions := func(w *world) string {
		var said []string
		f := w.facts()
		for _, c := range fencing.Conditions(w.policies, f, fencing.Decide(w.policies, f)) {
			m := w.machine(f.Nodes[c.Node].Name)
			said = append(said, m.Name+" "+string(c.Status)+" "+c.Reason)
			if c.OnNode {
				m.Partitioned = &corev1.NodeCondition{Type: fencing.ConditionPartitioned, Status: c.Status, Reason: c.Reason, Message: c.Message}
			}
			for _, i := range c.Pods {
				m.Pods[i].Partitioned = &corev1.PodCondition{Status: c.Status, Reason: c.Reason}
				said = append(said, m.Pods[i].Name)
			}
		}
		return strings.Join(said, ", ")
	}
	w := silentWorld()
	w.machines[1].Pods = append(w.machines[1].Pods, fencing.Pod{Name: "unprotected"}, fencing.Pod{Name: "forced", Protected: true, Deleting: true, Forced: true})
	for _, tt := range []struct {
		happen func()
		said   string
	}{
		{func() {}, "n1 True LeaseSilent, db-1"},
		{func() { w.passAll(3) }, ""},
		{func() {
			for _, m := range w.machines[2:] {
				m.linked = false
			}
			w.passAll(5)
		}, "n1 Unknown FencerCutOff, db-1"},
		{func() {
			for _, m := range w.machines[2:] {
				m.linked = true
			}
			w.passAll(1)
		}, "n1 True LeaseSilent, db-1"},
		{func() { w.newLeader(); w.passAll(2) }, ""},
		{func() { w.until(40, func() bool { return reaches(v1alpha1.FenceReleased)(w) }) }, "n1 True Fenced"},
		{func() { w.machines[1].linked = true; w.machines[1].turnOn(); w.passAll(2) }, "n1 False Returned"},
		{func() { w.passAll(2) }, ""},
	} {
		tt.happen()
		if got := conditions(w); got != tt.said {
			t.Errorf("%q, not %q", got, tt.said)
		}
	}
}

// TestForceDeleteThatWasCutOff: a pod of which only the first step of a force delete was done is deleted again, as nobody but its kubelet removes it; one that waits for finalizers is not.
func TestForceDeleteThatWasCutOff(t *testing.T) {
	t.Parallel()
	w := silentWorld()
	w.machines[1].Pods = []fencing.Pod{
		{Namespace: "shop", Name: "cut-off", UID: "cut-off", Protected: true, Deleting: true, Forced: true},
		{Namespace: "shop", Name: "held", UID: "held", Protected: true, Deleting: true, Forced: true, Held: true},
		{Namespace: "shop", Name: "deleting", UID: "deleting", Protected: true, Deleting: true},
	}
	w.until(40, func() bool { return reaches(v1alpha1.FenceReleased)(w) })
	if pods := w.machines[1].Pods; len(pods) != 1 || pods[0].Name != "held" {
		t.Errorf("there are %+v", pods)
	}
	if !slices.Equal(w.cutOff, []string{"cut-off"}) {
		t.Errorf("%v are deleted without being confirmed first", w.cutOff)
	}
}

// TestConditionByWatchdog: a node whose watchdog has reset it, by evidence that its policy took, is fenced as one whose power was read.
func TestConditionByWatchdog(t *testing.T) {
	t.Parallel()
	w := newWorld(7)
	w.withWatchdogs(func() bool { return true }, true)
	w.passAll(2)
	w.machines[1].linked = false
	if !w.until(60, func() bool { return reaches(v1alpha1.FenceReleased)(w) }) {
		t.Fatalf("%+v", w.fences)
	}
	f := w.facts()
	all := fencing.Conditions(w.policies, f, fencing.Decide(w.policies, f))
	if len(all) == 0 || all[0].Reason != fencing.PartitionedFenced || !strings.Contains(all[0].Message, "(WatchdogExpired)") {
		t.Errorf("%+v", all)
	}
}

// TestConditionSaysWhatToDo: a node that is only shown has no Fence whose message would say so, and whoever looks at 3 a.m. has nothing but its condition.
func TestConditionSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := silentWorld(func(p *v1alpha1.FencePolicySpec) { p.Agents = []v1alpha1.FencePolicyAgent{{Name: "gone"}} })
	f := w.facts()
	all := fencing.Conditions(w.policies, f, fencing.Decide(w.policies, f))
	if len(all) == 0 {
		t.Fatal("no condition")
	}
	for _, says := range []string{"no agent of its policy can power the machine off. ", "kubectl get fencepolicies -o wide", "kubectl podgrace confirm node/n1"} {
		if !strings.Contains(all[0].Message, says) {
			t.Errorf("%q lacks %q", all[0].Message, says)
		}
	}
}
