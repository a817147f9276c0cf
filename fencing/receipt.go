package fencing

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/console"
)

// Standing are the receipts that are not void, nor void others.
func Standing(receipts []v1alpha1.FenceReceipt) []*v1alpha1.FenceReceipt {
	void := guard.Voided(receipts)
	var standing []*v1alpha1.FenceReceipt
	for i := range receipts {
		if r := &receipts[i]; r.Spec.Class != v1alpha1.EvidenceVoid && !void[r.Name] {
			standing = append(standing, r)
		}
	}
	return standing
}

// Proofs are what the removal guard lets go by the receipts that stand. Storage that was revoked frees no pod.
func Proofs(receipts []v1alpha1.FenceReceipt) []guard.Fence {
	var proofs []guard.Fence
	for _, r := range Standing(receipts) {
		switch s := &r.Spec; {
		case s.Class == v1alpha1.EvidenceStorageRevoked:
		case s.Pod != nil && s.Pod.UID != "":
			proofs = append(proofs, guard.Fence{Name: r.Name, PodUID: s.Pod.UID})
		case s.Node != nil && s.Node.UID != "" && s.Node.BootID != "":
			proofs = append(proofs, guard.Fence{Name: r.Name, NodeUID: s.Node.UID, BootID: s.Node.BootID})
		}
	}
	return proofs
}

// proves reports whether a receipt proves that this boot of the node is off. What a watchdog must have done counts only where the policy took it from one of its agents.
func proves(r *v1alpha1.FenceReceipt, boot v1alpha1.BootReference, t *v1alpha1.FenceTarget) bool {
	if n := r.Spec.Node; n == nil || n.UID != boot.UID || n.BootID != boot.BootID || boot.UID == "" || boot.BootID == "" {
		return false
	}
	switch r.Spec.Class {
	case v1alpha1.EvidencePoweredOff, v1alpha1.EvidenceInstanceTerminated, v1alpha1.EvidenceConfirmed:
		return true
	case v1alpha1.EvidenceWatchdogExpired:
		for i := range t.Agents {
			if accepts(&t.Agents[i].FencePolicyAgent, r.Spec.Class) {
				return true
			}
		}
	case v1alpha1.EvidenceStorageRevoked, v1alpha1.EvidenceVoid:
	}
	return false
}

// receiptFor returns the standing receipt of a boot; nil: there is none.
func receiptFor(boot v1alpha1.BootReference, t *v1alpha1.FenceTarget, f *Facts) *v1alpha1.FenceReceipt {
	if t == nil {
		t = &v1alpha1.FenceTarget{}
	}
	for _, r := range f.look().standing[boot.BootID] {
		if proves(r, boot, t) {
			return r
		}
	}
	return nil
}

// contradicts returns the node that contradicts a receipt; nil: none does. It has the boot that the receipt says is off, and gave a sign of life since.
func (f *Facts) contradicts(r *v1alpha1.FenceReceipt) *Node {
	if r.Spec.Node == nil {
		return nil
	}
	n := f.bootSeen(r.Spec.Node.BootID)
	switch {
	case n == nil || !n.Live:
		return nil
	case r.Spec.LastSign != "" && guard.HeardSince(r.Spec.LastSign, n.Sign):
		return n
	case r.Spec.LastSign == "" && n.Ready && n.Heard && !n.quiet(): // made by a person, without it
		return n
	}
	return nil
}

// mayBeAnother reports whether the sign of life that contradicts a receipt may be that of another boot: the Lease does not say which one renews it, and a kubelet that starts renews it beside
// its first report of the Node, and perhaps before (pkg/kubelet/kubelet.go Run, 1.36.3). By the next renewal it has reported.
func (n *Node) mayBeAnother(r *v1alpha1.FenceReceipt) bool {
	lease := strings.LastIndex(r.Spec.LastSign, "/") + 1
	return lease > 0 && n.Before == r.Spec.LastSign && strings.HasPrefix(n.Sign, r.Spec.LastSign[:lease])
}

// Voids are the receipts that void those which are contradicted: the boot that they say is off was heard of since, or the storage that they say is revoked was given back to it. Create
// them before anything else is done, and tell it as loudly as can be.
func Voids(facts Facts) (create []CreateReceipt, tell []Told) {
	for _, r := range Standing(facts.Receipts) {
		text := facts.voidBecause(r)
		if text == "" {
			continue
		}
		if r.Spec.Agent != "" {
			text += fmt.Sprintf(". FenceAgent %s is not used for it any more", r.Spec.Agent)
		}
		void := v1alpha1.FenceReceipt{
			ObjectMeta: metav1.ObjectMeta{Name: freeName(r.Name[:min(len(r.Name), 240)]+"-void", facts.Receipts)},
			Spec: v1alpha1.FenceReceiptSpec{Node: r.Spec.Node.DeepCopy(), Class: v1alpha1.EvidenceVoid, Fence: r.Spec.Fence, Agent: r.Spec.Agent, Machine: r.Spec.Machine.DeepCopy(),
				Voids: r.Name, VoidsUID: r.UID, Message: message(text)},
		}
		create = append(create, CreateReceipt{Receipt: void})
		tell = append(tell, Told{Warning: true, Alarm: true, Reason: "FenceReceiptVoid", Message: message(text)})
	}
	return create, tell
}

// voidBecause says why a receipt is to be void, and what to do; empty: it is not.
func (f *Facts) voidBecause(r *v1alpha1.FenceReceipt) string {
	n := f.contradicts(r)
	if r.Spec.Class != v1alpha1.EvidenceStorageRevoked {
		if n == nil || n.mayBeAnother(r) {
			return ""
		}
		return fmt.Sprintf("FenceReceipt %s (%s) is void: it says that the boot %s of node %s is off, and node %s has been heard of by that boot since. Pods that were released by it may run twice: "+
			"power node %s off by hand, and check what it wrote", r.Name, r.Spec.Class, r.Spec.Node.BootID, r.Spec.Node.Name, n.Name, n.Name)
	}
	by := f.givenBack(r)
	if n != nil || by == "" || receiptFor(*r.Spec.Node, nil, f) != nil { // it lets nothing go any more, or the machine is off
		return ""
	}
	return fmt.Sprintf("FenceReceipt %s (%s) is void: NetworkFence %s gives the storage back that it says is revoked from the boot %s of node %s, which may still run. Pods that were released by it may "+
		"write beside those that run elsewhere: power node %s off by hand, and check what was written", r.Name, r.Spec.Class, by, r.Spec.Node.BootID, r.Spec.Node.Name, r.Spec.Node.Name)
}

// freeName is the name, with a number where another receipt has it: one that a person wrote would keep it for ever. Two fencers find the same one.
func freeName(name string, taken []v1alpha1.FenceReceipt) string {
	free := name
	for i := 2; slices.ContainsFunc(taken, func(r v1alpha1.FenceReceipt) bool { return r.Name == free }); i++ {
		free = fmt.Sprint(name, "-", i)
	}
	return free
}

// accepts reports whether the policy accepts this class of evidence from the agent.
func accepts(a *v1alpha1.FencePolicyAgent, class v1alpha1.EvidenceClass) bool {
	accepted := a.Evidence
	if len(accepted) == 0 {
		accepted = []v1alpha1.EvidenceClass{v1alpha1.EvidencePoweredOff, v1alpha1.EvidenceInstanceTerminated, v1alpha1.EvidenceConfirmed}
	}
	return slices.Contains(accepted, class)
}

// newReceipt is a proof of a class. Its name is that of the boot's last sign of life, so that two fencers make the same one, and one that is void is never
// in the way of another.
func newReceipt(fence *v1alpha1.Fence, a *v1alpha1.FenceTargetAgent, sign string, class v1alpha1.EvidenceClass, text string) v1alpha1.FenceReceipt {
	return v1alpha1.FenceReceipt{
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(fence.Spec.Node.Name, "receipt/"+string(fence.Spec.Node.UID)+"/"+fence.Spec.Node.BootID+"/"+sign)},
		Spec: v1alpha1.FenceReceiptSpec{
			Node: fence.Spec.Node.DeepCopy(), Class: class, Fence: fence.Name, Agent: a.Name, Machine: a.Machine.DeepCopy(), Identity: a.Identity, LastSign: sign,
			Message: message(text),
		},
	}
}

// readReceipt is the proof that two readings are.
func readReceipt(fence *v1alpha1.Fence, a *v1alpha1.FenceTargetAgent, sign string, readings [2]Read) v1alpha1.FenceReceipt {
	r := newReceipt(fence, a, sign, classOf(readings), fmt.Sprintf("FenceAgent %s read twice that the machine of node %s has no power", a.Name, fence.Spec.Node.Name))
	for _, read := range readings {
		r.Spec.ReadBacks = append(r.Spec.ReadBacks, v1alpha1.PowerReadBack{Time: metav1.NewMicroTime(read.At.Wall.Truncate(time.Microsecond)), State: console.Shorten(message(read.State), 64), SystemUUID: console.Shorten(message(read.SystemUUID), 64)})
	}
	if r.Spec.Class == v1alpha1.EvidenceStorageRevoked && a.Storage != nil {
		r.Name = nameOf(fence.Spec.Node.Name, "storage/"+fence.Name+"/"+a.Name+"/"+sign) // of this incident, whose NetworkFence it is
		r.Spec.Volumes = slices.Clone(a.Storage.Volumes)
		r.Spec.Message = message(fmt.Sprintf("FenceAgent %s read twice that the storage of CSI driver %s takes nothing more from node %s (%s)", a.Name, a.Storage.Driver, fence.Spec.Node.Name, strings.Join(a.Storage.CIDRs, ", ")))
	}
	return r
}

// classOf is the class of evidence that two readings are: the weaker one.
func classOf(readings [2]Read) v1alpha1.EvidenceClass {
	switch {
	case readings[0].Power == PowerRevoked || readings[1].Power == PowerRevoked:
		return v1alpha1.EvidenceStorageRevoked
	case readings[0].Power == PowerGone && readings[1].Power == PowerGone:
		return v1alpha1.EvidenceInstanceTerminated
	}
	return v1alpha1.EvidencePoweredOff
}

const (
	// keptFor is how long a Fence that is over, and a receipt that lets nothing go any more, are kept for people to read. By the time of day: where that is wrong, what goes early was of no
	// use but to readers.
	keptFor = 7 * 24 * time.Hour
	// retiredAtOnce bounds what one round deletes of each.
	retiredAtOnce = 10
)

// Retire returns the Fences and receipts that can be deleted, the oldest first: all of them are read in each round. Kept are Fences for a silence that goes on, which would be fenced again, and
// those of which a NetworkFence may be there: where their agent is gone it is looked for by them alone; receipts of a boot that a Node still has, and of single pods; and those that are void, with what voids them: they keep an agent that said what was not so from being used again.
func Retire(facts Facts) (fences []*v1alpha1.Fence, receipts []*v1alpha1.FenceReceipt) {
	if !facts.Known.all() {
		return nil, nil
	}
	old := func(created time.Time) bool { return facts.Now.Wall.Sub(created) > keptFor }
	needed := map[string]bool{}
	for i := range facts.Fences {
		f := &facts.Fences[i]
		if f.Status.Phase != v1alpha1.FenceOver {
			needed[f.Status.Receipt] = true
			continue
		}
		ended := f.CreationTimestamp.Time
		for _, t := range f.Status.Times {
			if t.Time.After(ended) {
				ended = t.Time.Time
			}
		}
		if n := facts.node(f.Spec.Node.Name); old(ended) && (n == nil || FenceName(n) != f.Name) && !facts.mayHoldStorage(f) {
			fences = append(fences, f)
		}
	}
	for _, r := range Standing(facts.Receipts) {
		if r.Spec.Node != nil && !needed[r.Name] && old(r.CreationTimestamp.Time) && facts.bootSeen(r.Spec.Node.BootID) == nil {
			receipts = append(receipts, r)
		}
	}
	slices.SortStableFunc(fences, func(a, b *v1alpha1.Fence) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	slices.SortStableFunc(receipts, func(a, b *v1alpha1.FenceReceipt) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return fences[:min(len(fences), retiredAtOnce)], receipts[:min(len(receipts), retiredAtOnce)]
}
