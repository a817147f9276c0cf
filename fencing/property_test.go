package fencing_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	. "github.com/podgrace/podgrace/policy/policytest"
)

func TestMain(m *testing.M) { os.Exit(Run(m, 1000)) }

// counts says what histories have seen, so that the property is not one of histories in which nothing happens.
type counts struct {
	begun, ordered, receipts, reckoned, voids, released, over, refused, revoked, freed, lifted int
}

// TestHistories: whatever happens to machines, BMCs, fencers and the API server, nothing is released without a receipt that stands, no receipt is made for a boot that was
// heard of since its power was read, a receipt that is contradicted is voided in the next round that sees it, no more nodes are being fenced than the budget allows,
// nodes of the control plane and twins never are, and an incident ends or says what it waits for.
func TestHistories(t *testing.T) {
	t.Parallel()
	var seen counts
	histories := 0
	rapid.Check(t, func(t *rapid.T) {
		histories++
		runHistory(t, &seen)
	})
	t.Logf("%d histories: %+v", histories, seen)
	if histories < 1000 {
		return // too few of them to say
	}
	if seen.ordered == 0 || seen.receipts == 0 || seen.reckoned == 0 || seen.voids == 0 || seen.released == 0 || seen.over == 0 || seen.refused == 0 || seen.revoked == 0 || seen.freed == 0 || seen.lifted == 0 {
		t.Errorf("histories in which something never happens: %+v", seen)
	}
}

// TestIncidentsEnd: whatever happened, once machines, BMCs, agents and the API server are well again every incident comes to its end.
func TestIncidentsEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := runHistory(t, &counts{})
		w.twins, w.machines[1].SystemUUID = false, w.machines[1].uuid
		for range 120 {
			open := slices.ContainsFunc(w.fences, func(x *v1alpha1.Fence) bool { return x.Status.Phase != v1alpha1.FenceOver })
			if !open {
				return
			}
			for _, m := range w.machines {
				m.turnOn() // who finds a machine off powers it on
				m.linked, m.bmc, m.dog = true, good, len(w.agents) > 1
				m.Addresses, m.InternalIPs = []string{m.ip}, []string{m.ip}
			}
			w.san.answer = does
			w.pass(step)
			w.round()
			// A person deletes what the messages ask for: Fences whose agents were recreated, NetworkFences that somebody lifted, and what agents said that lied.
			w.fences = slices.DeleteFunc(w.fences, func(x *v1alpha1.Fence) bool {
				return strings.Contains(x.Status.Message, "no agent can be used any more")
			})
			w.san.fences = slices.DeleteFunc(w.san.fences, func(n *networkFence) bool {
				return slices.ContainsFunc(w.fences, func(x *v1alpha1.Fence) bool {
					return x.Status.Phase != v1alpha1.FenceOver && strings.Contains(x.Status.Message, "NetworkFence "+n.Name+" is no proof")
				})
			})
			standing := fencing.Standing(w.receipts)
			w.receipts = nil
			for _, r := range standing {
				w.receipts = append(w.receipts, *r)
			}
		}
		for _, x := range w.fences {
			if x.Status.Phase != v1alpha1.FenceOver {
				t.Errorf("Fence %s of node %s is still %s: %s", x.Name, x.Spec.Node.Name, x.Status.Phase, x.Status.Message)
			}
		}
	})
}

func runHistory(t *rapid.T, seen *counts) *world {
	w := newWorld(rapid.IntRange(4, 7).Draw(t, "nodes"), func(s *v1alpha1.FencePolicySpec) {
		s.Budget.MaxConcurrent = rapid.Int32Range(1, 2).Draw(t, "budget")
		s.Release = Pick(t, "release", v1alpha1.ReleasePodsAndTaint, v1alpha1.ReleasePodsAndTaint, v1alpha1.ReleasePods, v1alpha1.ReleaseNothing)
	})
	if Chance(t, "storage") {
		withStorage(t, w)
	}
	w.twins = Rarely(t, "twins")
	if w.twins {
		w.machines[1].SystemUUID = w.machines[2].SystemUUID
	}
	if Chance(t, "watchdogs") {
		w.withWatchdogs(func() bool { return !Rarely(t, "no watchdog") }, Chance(t, "alone"))
	}
	for _, m := range w.machines {
		if Chance(t, "a volume") {
			m.Attached = []string{"va-" + m.Name}
		}
	}
	w.check = func(x *v1alpha1.Fence, a fencing.Action) { checkAction(t, w, seen, x, a) }
	for range rapid.IntRange(10, 45).Draw(t, "steps") {
		happen(t, w)
		w.pass(step)
		w.round()
		checkRound(t, w)
		w.unread, w.cached, w.refuse = false, false, false
	}
	for range 3 {
		w.pass(step)
		w.round()
		checkRound(t, w)
	}
	for _, x := range w.fences {
		if x.Status.Message == "" || x.Status.Phase == "" {
			t.Fatalf("Fence %s says nothing: %+v", x.Name, x.Status)
		}
		if x.Status.Phase == v1alpha1.FenceOver {
			seen.over++
		}
	}
	seen.voids += w.alarms
	return w
}

// happen is what befalls the world before a round.
func happen(t *rapid.T, w *world) {
	what := rapid.IntRange(0, 43).Draw(t, "event")
	m := w.machines[min(rapid.SampledFrom([]int{1, 1, 1, 2, 2, 0, 3, 4, 5, 6}).Draw(t, "at"), len(w.machines)-1)]
	switch {
	case what < 8: // nothing
	case what < 10 || what == 36: // what voids receipts are made of
		m.linked, m.bmc = false, liar
	case what < 12:
		comesBack(t, w)
	case what < 17:
		m.linked = false
	case what < 20:
		m.linked = true
	case what < 22:
		m.power, m.goesAt = false, 0
	case what < 25:
		m.turnOn()
	case what == 25 && !w.twins: // without the other one's Node nobody can know that a node lies about its machine
		m.there = false
		w.gone[m.Name] = true
	case what < 29:
		m.bmc = Pick(t, "bmc", good, good, mute, stuck, rubbish, foreign, liar)
	case what < 31:
		w.newLeader()
	case what == 31:
		w.silence.Restart(w.moment().Led)
	case what == 32:
		w.pass(Pick(t, "paused", 20*time.Second, 3*time.Minute))
	case what == 33:
		w.unread = true
	case what == 34:
		w.cached = true
	case what == 35:
		w.refuse = true
	case what < 38:
		request(t, w, m)
	case what == 38:
		personOrAccident(t, w, m)
	case what > 39:
		storageHappens(t, w, m)
	default:
		everywhere(t, w)
	}
}

// comesBack has a machine be heard of that a receipt says is off while it runs, which voids that, or else have one boot again that was taken for off or cut off from its storage,
// which it gets back then. By chance alone these are one of some hundred histories.
func comesBack(t *rapid.T, w *world) {
	var stopped, running []*machine
	for _, r := range fencing.Standing(w.receipts) {
		m := w.machine(r.Spec.Node.Name)
		if stopped = append(stopped, m); r.Spec.Class != v1alpha1.EvidenceStorageRevoked && m.runs(r.Spec.Node.BootID) {
			running = append(running, m)
		}
	}
	for _, x := range w.san.fences {
		stopped = append(stopped, w.machine(x.Boot.Name))
	}
	switch {
	case len(running) > 0:
		Pick(t, "who is heard of", running...).linked = true
	case len(stopped) > 0:
		m := Pick(t, "who boots anew", stopped...)
		m.power, m.goesAt = false, 0
		m.turnOn()
		m.linked = true
	}
}

func request(t *rapid.T, w *world, m *machine) {
	boot := m.Boot()
	switch rapid.IntRange(0, 5).Draw(t, "target") {
	case 4:
		boot.BootID = "boot-of-nobody"
	case 5:
		boot.UID = "node-of-nobody"
	}
	w.fences = append(w.fences, &v1alpha1.Fence{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("asked-%d", len(w.fences))},
		Spec: v1alpha1.FenceSpec{Node: boot, Reason: v1alpha1.FenceRequested, RequestedBy: "alice"}})
}

func personOrAccident(t *rapid.T, w *world, m *machine) {
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0: // a person confirms what is so
		if !m.power && m.there && !m.Ready {
			boot := m.Boot()
			w.receipts = append(slices.Clone(w.receipts), v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("word-%d", len(w.receipts))},
				Spec: v1alpha1.FenceReceiptSpec{Node: &boot, Class: v1alpha1.EvidenceConfirmed, By: "alice", LastSign: m.Sign}})
		}
	case 1:
		if len(w.receipts) > 0 {
			w.receipts = slices.Clone(w.receipts)[:len(w.receipts)-1]
		}
	case 2:
		if len(w.fences) > 0 {
			w.fences = w.fences[:len(w.fences)-1]
		}
	case 3: // the agent is recreated
		w.agents = slices.Clone(w.agents)
		w.agents[0].UID += "x"
	}
}

func everywhere(t *rapid.T, w *world) {
	switch on := Chance(t, "on"); {
	case Chance(t, "links"):
		for _, m := range w.machines[len(w.machines)/2-1:] {
			m.linked = on
		}
	case on:
		for _, m := range w.machines {
			m.turnOn()
			m.bmc = good
		}
	default:
		w.machines[1].linked, w.machines[2].linked = false, false
	}
}

// checkAction holds an action, or a status that was stored, against the world.
func checkAction(t *rapid.T, w *world, seen *counts, x *v1alpha1.Fence, a fencing.Action) {
	var boot v1alpha1.BootReference
	var m *machine
	if x != nil { // it is of an incident
		boot, m = x.Spec.Node, w.machine(x.Spec.Node.Name)
	}
	switch a := a.(type) {
	case nil:
		checkStatus(t, w, seen, x)
	case fencing.OrderOff:
		seen.ordered++
		at := x.Status.Attempt
		switch {
		case at == nil || at.Number != a.Attempt || at.Agent != a.Agent.Name:
			t.Fatalf("%s, of which the stored attempt is %+v", a, at)
		case m.ControlPlane || w.twins && (boot.Name == "n1" || boot.Name == "n2"):
			t.Fatalf("node %s: %s", boot.Name, a)
		case a.Agent.Storage != nil && !slices.Equal(a.Agent.Storage.CIDRs, []string{m.ip + "/32"}):
			t.Fatalf("node %s, which has %s: %s of %v", boot.Name, m.ip, a, a.Agent.Storage.CIDRs)
		case a.Agent.Storage == nil && w.at(a.Machine.Address) != m:
			t.Fatalf("node %s: %s at %s", boot.Name, a, a.Machine.Address)
		case x.Spec.Reason == v1alpha1.FenceSilent && m.there && m.BootID == boot.BootID && m.Sign != x.Status.Target.LastSign:
			t.Fatalf("node %s was heard of: %s", boot.Name, a)
		case a.Agent.Name == "bmc" && a.Agent.UID != w.agents[0].UID:
			t.Fatalf("%s, which was made anew", a)
		}
	case fencing.CreateReceipt:
		seen.receipts++
		r := a.Receipt.Spec
		if r.Class == v1alpha1.EvidenceWatchdogExpired {
			seen.reckoned++
			if m.runs(boot.BootID) {
				t.Fatalf("%s, and node %s runs", a, boot.Name)
			}
			break
		}
		if heard, ok := m.heard[boot.BootID]; ok && began.Add(heard).After(r.ReadBacks[0].Time.Time) {
			t.Fatalf("%s: node %s was heard of %s after its beginning, and read back at %v", a, boot.Name, heard, r.ReadBacks)
		}
		if r.Class == v1alpha1.EvidenceStorageRevoked {
			seen.revoked++
			if w.writes(m, boot.BootID) {
				t.Fatalf("%s, and node %s can write", a, boot.Name)
			}
		} else if m.runs(boot.BootID) && !m.lied {
			t.Fatalf("%s, and node %s runs", a, boot.Name)
		}
	case fencing.LiftFence:
		seen.lifted++
		if x := w.san.fence(a.UID); w.machine(x.Boot.Name).runs(x.Boot.BootID) {
			t.Fatalf("%s, and the boot that it is for runs", a)
		}
		return
	case fencing.DeleteLifted:
		return
	case fencing.ConfirmOff, fencing.DeletePod, fencing.AddTaint:
		seen.released++
		if r := w.receipt(x.Status.Receipt); r != nil && r.Spec.Class == v1alpha1.EvidenceStorageRevoked {
			checkFreed(t, w, seen, x, a)
			return
		}
		if !slices.ContainsFunc(fencing.Standing(w.receipts), func(r *v1alpha1.FenceReceipt) bool { return r.Name == x.Status.Receipt && *r.Spec.Node == boot }) {
			t.Fatalf("%s without a receipt: %+v of %+v", a, x.Status, w.receipts)
		}
		if m.runs(boot.BootID) && !m.lied {
			t.Fatalf("%s, and node %s runs", a, boot.Name)
		}
		if m.there && (m.UID != boot.UID || m.BootID != boot.BootID) {
			t.Fatalf("%s, which is another node, or another boot: %+v", a, m.Boot())
		}
	case fencing.RemoveTaint:
		if m.BootID == boot.BootID || !m.Ready {
			t.Fatalf("%s, which has no other boot that is ready", a)
		}
	}
}

func checkStatus(t *rapid.T, w *world, seen *counts, x *v1alpha1.Fence) {
	busy := 0
	for _, o := range w.fences {
		if o.Status.Phase == v1alpha1.FenceDecided || o.Status.Phase == v1alpha1.FenceActing {
			busy++
		}
	}
	if most := int(w.policies[0].Spec.Budget.MaxConcurrent); busy > most {
		t.Fatalf("%d nodes are being fenced, and the budget is %d", busy, most)
	}
	switch x.Status.Phase {
	case v1alpha1.FenceDecided:
		seen.begun++
	case v1alpha1.FenceOver:
		if x.Status.Target == nil {
			seen.refused++
		}
	case v1alpha1.FenceWaiting, v1alpha1.FenceActing, v1alpha1.FenceVerified, v1alpha1.FenceReleased:
	}
	if x.Status.Message == "" {
		t.Fatalf("Fence %s does not say why it is %s", x.Name, x.Status.Phase)
	}
}

// checkRound holds the receipts against the world after a round in which everything could be read and written.
func checkRound(t *rapid.T, w *world) {
	if w.unread || w.cached || w.refuse {
		return
	}
	for _, pod := range w.san.freed {
		if m := w.machine(pod.Node.Name); w.writes(m, pod.Node.BootID) {
			t.Fatalf("pod %s was released by its storage, and node %s can write", pod.Name, m.Name)
		}
	}
	for _, r := range fencing.Standing(w.receipts) {
		m := w.machine(r.Spec.Node.Name)
		if r.Spec.Class == v1alpha1.EvidenceStorageRevoked {
			continue // no lie, whatever is heard of the node
		}
		if m.there && m.BootID == r.Spec.Node.BootID && m.Sign != r.Spec.LastSign {
			t.Fatalf("FenceReceipt %s stands, and its boot was heard of: %s, not %s", r.Name, m.Sign, r.Spec.LastSign)
		}
	}
}
