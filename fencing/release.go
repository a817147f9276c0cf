package fencing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
)

// The parts of a release, by what the policy said when it was decided.
func releases(r v1alpha1.FenceRelease) (pods, taint bool) {
	return r != v1alpha1.ReleaseNothing, r == v1alpha1.ReleasePodsAndTaint || r == ""
}

// receiptHolds reports whether the Fence's receipt stands, and nothing contradicts it. Where it does not the incident is over, or waits until the receipt is void.
func (s *step) receiptHolds() *v1alpha1.FenceReceipt {
	name := s.fence.Status.Receipt
	i := slices.IndexFunc(s.facts.Receipts, func(r v1alpha1.FenceReceipt) bool { return r.Name == name })
	switch {
	case i < 0 || name == "":
		s.to(v1alpha1.FenceOver, Told{Warning: true, Reason: "FenceReceiptGone", Message: fmt.Sprintf("FenceReceipt %s was deleted: nothing more is released by it", cmp.Or(name, "(none)"))})
		return nil
	case s.facts.look().void[name]:
		s.to(v1alpha1.FenceOver, Told{Warning: true, Alarm: true, Reason: "FenceReceiptVoid", Message: fmt.Sprintf("FenceReceipt %s is void: what it says is not so any more. Nothing more is released; power node %s off by hand, "+
			"and check what its pods wrote", name, s.fence.Spec.Node.Name)})
		return nil
	}
	r := &s.facts.Receipts[i]
	if s.facts.contradicts(r) != nil && r.Spec.Class == v1alpha1.EvidenceStorageRevoked {
		s.over("NodeReturned", "node %s was heard of again by the boot whose storage is revoked: nothing more is released by FenceReceipt %s. Its storage stays revoked until it has booted anew: reboot it",
			s.fence.Spec.Node.Name, name)
		return nil
	}
	if s.facts.contradicts(r) != nil {
		s.wait("node %s was heard of since FenceReceipt %s was written: nothing is released, and the receipt is being voided unless it was by another boot", s.fence.Spec.Node.Name, name)
		return nil
	}
	if t := s.fence.Status.Target; t == nil || !proves(r, s.fence.Spec.Node, t) && !revoked(r, s.fence) {
		s.to(v1alpha1.FenceOver, Told{Warning: true, Reason: "FenceRefused", Message: fmt.Sprintf("FenceReceipt %s proves nothing of the boot that this Fence is for: somebody edited its status. Nothing is released", name)})
		return nil
	}
	return r
}

// back ends an incident whose node is gone, or back by another boot. The kubelet of that boot knows what runs: there is nothing to release. The taint is taken away
// once it is ready, and not before: without it the pods that the old boot had would be started where their volumes are being detached.
func (s *step) back() bool {
	n, boot := s.node, s.fence.Spec.Node
	switch {
	case n == nil:
		s.over("NodeDeleted", "Node %s was deleted: pod garbage collection removes its pods", boot.Name)
	case n.UID != boot.UID:
		s.over("NodeDeleted", "there is another Node %s (UID %s): what is bound to it now is its own kubelet's matter", boot.Name, n.UID)
	case n.BootID == "" || n.BootID == boot.BootID:
		return false
	case n.Taint == nil || *n.Taint != TaintValue:
		s.over("NodeReturned", "node %s is back by another boot%s", boot.Name, s.forgotten())
	case !n.Ready:
		s.wait("node %s is back by another boot: it waits until it is Ready, and takes the taint out-of-service away then", boot.Name)
	default:
		s.do("node "+boot.Name+" is back by another boot: the taint out-of-service is taken away", RemoveTaint{Name: n.Name, UID: n.UID})
	}
	return true
}

// release releases what the receipt lets go: first the confirmation, by which the compiled conditions of the guard let go what follows also while the webhook is away,
// then the protected pods, then the taint. What follows does not wait for the confirmation to be written: the guard goes by the receipt, and a kubelet can fill the annotations
// of its Node up to their limit.
func (s *step) release() {
	if s.stronger() {
		return
	}
	r := s.receiptHolds()
	if r == nil || s.back() {
		return
	}
	n, boot := s.node, s.fence.Spec.Node
	pods, taint := releases(s.fence.Status.Target.Release)
	switch {
	case r.Spec.Class == v1alpha1.EvidenceStorageRevoked && !s.facts.Known.Storage:
		s.wait("it waits until NetworkFences can be listed: by one of them the storage may have been given back")
	case !pods:
		s.to(v1alpha1.FenceReleased, Told{Reason: "FenceReleased", Message: fmt.Sprintf("node %s is fenced (FenceReceipt %s, %s), and its FencePolicy leaves it to a person to release its pods: kubectl delete pod --force is let through, as far as the receipt goes", boot.Name, r.Name, r.Spec.Class)})
	case n.Ready:
		s.wait("node %s is fenced, and the API server still has it as Ready: it waits until the node lifecycle controller, which takes 50 s for it, has marked it (kube-controller-manager)", boot.Name)
	case !n.PodsKnown || taint && !n.AttachedKnown:
		s.wait("it waits until the pods and VolumeAttachments of node %s can be listed", boot.Name)
	case r.Spec.Class == v1alpha1.EvidenceStorageRevoked:
		s.releaseOfStorage(r)
	default:
		s.releaseAll(taint)
	}
}

// byStorage reports whether the Fence goes by a receipt that its storage was revoked.
func (s *step) byStorage() bool {
	i := slices.IndexFunc(s.facts.Receipts, func(r v1alpha1.FenceReceipt) bool { return r.Name == s.fence.Status.Receipt })
	return i >= 0 && revoked(&s.facts.Receipts[i], s.fence)
}

// stronger goes over to a receipt that the boot is off, where only its storage was revoked: a person's word, for instance.
func (s *step) stronger() bool { return s.byStorage() && s.provedOff() }

// releaseOfStorage releases the pods whose volumes are all revoked, and which are protected for nothing else. The node may still run: it is not confirmed to be off and not
// tainted as out of service, which would have all its pods removed and all its volumes detached. The volumes that are revoked the attach-detach controller detaches by force, six minutes
// after the pod is gone (attachdetach/reconciler ReconcilerMaxWaitForUnmountDuration, 1.36.3), and the removal guard lets it.
func (s *step) releaseOfStorage(r *v1alpha1.FenceReceipt) {
	n, boot := s.node, s.fence.Spec.Node
	var actions []Action
	var names, bound []string
	for i := range n.Pods {
		p := &n.Pods[i]
		if !p.Protected || p.left() {
			continue
		}
		if why := p.bound(r.Spec.Volumes); why != "" {
			bound = append(bound, fmt.Sprintf("%s/%s (%s)", p.Namespace, p.Name, why))
			continue
		}
		actions = append(actions, DeletePod{Node: boot, Pod: p.Reference(), Heartbeat: n.Heartbeat, CutOff: p.Forced})
		names = append(names, p.Namespace+"/"+p.Name)
	}
	slices.Sort(names)
	slices.Sort(bound)
	if len(actions) > 0 {
		s.do("the storage of node "+boot.Name+" is revoked: pods "+console.Some(names, 3, ", ")+" are being deleted", actions...)
		return
	}
	text := "the storage of node " + boot.Name + " is revoked, and the pods that are protected for it alone are released"
	if len(bound) > 0 {
		text = fmt.Sprintf("the storage of node %s is revoked, which does not free %s. If the machine is known to be off: kubectl podgrace confirm node/%s", boot.Name, console.Some(bound, 3, "; "), boot.Name)
	}
	after := "; the storage is given back then"
	if forgotten := s.forgotten(); forgotten != "" {
		after = forgotten
	}
	s.to(v1alpha1.FenceReleased, Told{Reason: "FenceReleased", Message: text + ". It is over when the node is back by another boot" + after})
}

// forgotten says that nobody gives the storage back that was revoked; empty: somebody does. csi-addons forgets a NetworkFence that is deleted, and the fencer has none to lift then. It lifts none
// before the node is back, by which the incident is over.
func (s *step) forgotten() string {
	i := slices.IndexFunc(s.facts.Receipts, func(r v1alpha1.FenceReceipt) bool { return r.Name == s.fence.Status.Receipt })
	if i < 0 || !revoked(&s.facts.Receipts[i], s.fence) || !s.facts.Known.Storage || s.facts.networkFenceOf(s.fence.Spec.Node) {
		return ""
	}
	return fmt.Sprintf(". Its NetworkFence was deleted, by which nothing is given back: once the machine has booted anew, apply one that says Unfenced for %s", strings.Join(s.facts.revokedFrom(&s.facts.Receipts[i]), ", "))
}

func (s *step) releaseAll(taint bool) {
	n, boot := s.node, s.fence.Spec.Node
	var actions []Action
	var names []string
	if n.ConfirmOff != n.Sign {
		actions = append(actions, ConfirmOff{Node: boot, Value: n.Sign})
	}
	for i := range n.Pods {
		if p := &n.Pods[i]; p.Protected && !p.left() {
			actions = append(actions, DeletePod{Node: boot, Pod: p.Reference(), Heartbeat: n.Heartbeat, CutOff: p.Forced})
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	slices.Sort(names)
	waits := ""
	if len(names) > 0 {
		waits = "pods " + console.Some(names, 3, ", ") + " are being deleted"
	}
	if taint && len(n.Attached) > 0 && n.Taint == nil {
		actions = append(actions, AddTaint{Node: boot})
		waits = cmp.Or(waits, "volumes are attached to it") + ", and it is tainted as out of service"
	}
	if len(actions) > 0 {
		s.do("node "+boot.Name+" is off: "+cmp.Or(waits, "this is written to its annotations"), actions...)
		return
	}
	s.to(v1alpha1.FenceReleased, Told{Reason: "FenceReleased", Message: fmt.Sprintf("node %s is off, and its protected pods are released. It is over when the node is back by another boot, or its Node is deleted: repair the machine and power it on", boot.Name)})
}

// watch waits until the node is back. By a receipt of storage pods are released meanwhile of which it was not known before that they can be, or that were bound since: nobody else deletes
// them, as the garbage collector does those of a node that is tainted.
func (s *step) watch() {
	if s.stronger() {
		return
	}
	r := s.receiptHolds()
	if r == nil || s.back() {
		return
	}
	s.next.Status.Message = s.fence.Status.Message
	pods, _ := releases(s.fence.Status.Target.Release)
	if n := s.node; r.Spec.Class == v1alpha1.EvidenceStorageRevoked && pods && !n.Ready && n.PodsKnown && s.facts.Known.Storage {
		s.releaseOfStorage(r)
	}
}
