package fencing

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing/storage"
	"github.com/podgrace/podgrace/internal/console"
)

// freezeStorage is what a NetworkFence is to say, and what it revokes. Of a node that is not read live the volumes are not known: none.
func freezeStorage(x *v1alpha1.NetworkFenceAgent, n *Node, f *Facts) (frozen *v1alpha1.FenceTargetStorage, why string) {
	frozen = &v1alpha1.FenceTargetStorage{NetworkFenceClassName: x.NetworkFenceClassName}
	class, known := f.Classes[x.NetworkFenceClassName]
	switch {
	case f.foreseen: // what only the fencer knows is left to it
		return frozen, ""
	case !f.Known.Storage:
		return nil, "can't be used: NetworkFences or NetworkFenceClasses could not be listed (csi-addons is not installed, or the fencer lacks the right: docs/fencing.md)"
	case !known:
		return nil, fmt.Sprintf("names NetworkFenceClass %s, which does not exist", x.NetworkFenceClassName)
	}
	frozen.NetworkFenceClassUID, frozen.Driver = class.UID, class.Driver
	if frozen.CIDRs, why = storage.Blocks(n.Recorded); why == "" {
		why = cmp.Or(sharedAddress(frozen.CIDRs, n.Name, f), storage.NotAllowed(x, frozen.CIDRs))
	}
	if why != "" {
		return nil, why
	}
	frozen.Volumes = class.Revokes(n.Volumes)
	return frozen, ""
}

// sharedAddress says which other node has one of the addresses, or had it while it was healthy; empty: none.
func sharedAddress(cidrs []string, node string, f *Facts) string {
	cidr, other := f.otherNode(cidrs, node)
	switch {
	case other == nil:
		return ""
	case other.ControlPlane:
		return fmt.Sprintf("would fence %s, which is an address of node %s of the control plane as well", cidr, other.Name)
	}
	return fmt.Sprintf("would fence %s, which is an address of node %s as well", cidr, other.Name)
}

// otherNode is another node that has one of the addresses, or had it while it was healthy; nil: none.
func (f *Facts) otherNode(cidrs []string, node string) (cidr string, other *Node) {
	for _, cidr := range cidrs {
		for _, i := range f.look().addresses[cidr] {
			if f.Nodes[i].Name != node {
				return cidr, &f.Nodes[i]
			}
		}
	}
	return "", nil
}

// withVolumes leaves the agents of a target out that would revoke nothing, or of which it is not known what.
func withVolumes(t *v1alpha1.FenceTarget, n *Node) (problems []problem) {
	t.Agents = slices.DeleteFunc(t.Agents, func(a v1alpha1.FenceTargetAgent) bool {
		if a.Storage == nil || n.VolumesKnown && len(a.Storage.Volumes) > 0 { // what is not known of now is not revoked later: the target is frozen
			return false
		}
		why := "has no volume to revoke: none of its NetworkFenceClass is attached to the node, or used by a pod of it that a policy guards"
		if !n.VolumesKnown {
			why = "can't tell which volumes it revokes: they could not be read"
		}
		problems = append(problems, problem{text: "FenceAgent " + a.Name + " " + why})
		return true
	})
	return problems
}

// TakesStorage reports whether an agent of a target takes storage away; of nil none does.
func TakesStorage(t *v1alpha1.FenceTarget) bool {
	return t != nil && slices.ContainsFunc(t.Agents, func(a v1alpha1.FenceTargetAgent) bool { return a.Storage != nil })
}

// networkFenceOf reports whether there is a NetworkFence that a fencer made for this boot.
func (f *Facts) networkFenceOf(boot v1alpha1.BootReference) bool {
	return slices.ContainsFunc(f.StorageFences, func(x storage.Fence) bool { return x.Boot != nil && *x.Boot == boot })
}

// mayHoldStorage reports whether a NetworkFence of a Fence is there, as far as it is known.
func (f *Facts) mayHoldStorage(x *v1alpha1.Fence) bool {
	return TakesStorage(x.Status.Target) && (!f.Known.Storage || f.networkFenceOf(x.Spec.Node))
}

// revoked reports whether a receipt is that the storage of this Fence's boot was taken away by an agent from which its policy accepted that.
func revoked(r *v1alpha1.FenceReceipt, fence *v1alpha1.Fence) bool {
	t := fence.Status.Target
	if t == nil || r.Spec.Class != v1alpha1.EvidenceStorageRevoked || r.Spec.Fence != fence.Name || r.Spec.Node == nil || *r.Spec.Node != fence.Spec.Node {
		return false
	}
	return slices.ContainsFunc(t.Agents, func(a v1alpha1.FenceTargetAgent) bool {
		return a.Name == r.Spec.Agent && a.Storage != nil && accepts(&a.FencePolicyAgent, r.Spec.Class)
	})
}

// receiptOfStorage returns the receipt by which the storage of a Fence's boot was revoked, and which was not heard of since; nil: there is none.
func receiptOfStorage(fence *v1alpha1.Fence, f *Facts) *v1alpha1.FenceReceipt {
	for _, r := range f.look().standing[fence.Spec.Node.BootID] {
		if revoked(r, fence) && f.contradicts(r) == nil && f.givenBack(r) == "" {
			return r
		}
	}
	return nil
}

// givenBack is the NetworkFence by which storage is given back that a receipt says is revoked, while a Node has the boot from which it was taken; empty: none does. A fencer lifts
// none before that has ended: somebody else did.
func (f *Facts) givenBack(r *v1alpha1.FenceReceipt) string {
	if r.Spec.Class != v1alpha1.EvidenceStorageRevoked || r.Spec.Node == nil || !f.Known.Storage {
		return ""
	}
	if n := f.bootSeen(r.Spec.Node.BootID); n == nil || !n.Live {
		return ""
	}
	return storage.Unfencing(f.StorageFences, f.revokedFrom(r))
}

// revokedFrom are the addresses from which the storage takes nothing more by a receipt, as the incident has them, or what it made where it was deleted.
func (f *Facts) revokedFrom(r *v1alpha1.FenceReceipt) (cidrs []string) {
	for i := range f.Fences {
		if t := f.Fences[i].Status.Target; t != nil && f.Fences[i].Name == r.Spec.Fence {
			for j := range t.Agents {
				if a := &t.Agents[j]; a.Name == r.Spec.Agent && a.Storage != nil {
					return a.Storage.CIDRs
				}
			}
		}
	}
	for i := range f.StorageFences {
		if x := &f.StorageFences[i]; x.Boot != nil && *x.Boot == *r.Spec.Node {
			cidrs = append(cidrs, x.CIDRs...)
		}
	}
	return cidrs
}

// bound says why storage that was revoked does not free a pod; empty: it does.
func (p *Pod) bound(volumes []string) string {
	if p.But != "" || len(p.Volumes) == 0 {
		return console.Shorten(message(cmp.Or(p.But, "its volumes are not known")), 200)
	}
	for _, v := range p.Volumes {
		if !slices.Contains(volumes, v) {
			return "its volume " + v + " is not revoked"
		}
	}
	return ""
}

type (
	// LiftFence has a NetworkFence say Unfenced, where its UID is this one and it says Fenced.
	LiftFence struct {
		Name string
		UID  types.UID
	}
	// DeleteLifted deletes a NetworkFence that has been lifted, where its UID is this one.
	DeleteLifted struct {
		Name string
		UID  types.UID
	}
)

func (LiftFence) action()    {}
func (DeleteLifted) action() {}

func (a LiftFence) String() string    { return "lift NetworkFence " + a.Name }
func (a DeleteLifted) String() string { return "delete NetworkFence " + a.Name + ", which is lifted" }

// Lifts returns the NetworkFences of fencers that are to be lifted or deleted, because the machine that they were made for has booted again (storage.Lifts), and what the others wait for.
func Lifts(facts Facts) (lifts []Action, waiting []string) {
	if !facts.Known.Storage || !facts.Known.Nodes {
		return nil, nil
	}
	machines := make([]storage.Machine, len(facts.StorageFences))
	for i := range facts.StorageFences {
		machines[i] = facts.machineOf(&facts.StorageFences[i])
	}
	lift, remove, waiting := storage.Lifts(facts.StorageFences, machines)
	for _, i := range lift {
		lifts = append(lifts, LiftFence{Name: facts.StorageFences[i].Name, UID: facts.StorageFences[i].UID})
	}
	for _, i := range remove {
		lifts = append(lifts, DeleteLifted{Name: facts.StorageFences[i].Name, UID: facts.StorageFences[i].UID})
	}
	return lifts, waiting
}

// machineOf is what is known of the machine that a NetworkFence was made for.
func (f *Facts) machineOf(x *storage.Fence) (m storage.Machine) {
	if x.Boot == nil {
		return m
	}
	if n := f.bootSeen(x.Boot.BootID); n != nil {
		m.Node, m.Ready = n.Name, n.Ready
	} else {
		m.Rebooted = f.rebooted(x)
	}
	if address, other := f.otherNode(x.CIDRs, x.Boot.Name); other != nil {
		m.OtherNode, m.Address = other.Name, address
	}
	return m
}

// rebooted reports whether another boot of the machine that a NetworkFence was made for is ready. That a Node has the name, or is the very same object, is not enough: another
// machine may have taken it while the first one still runs, also one of the same make whose UUID identifies nothing. A UUID alone is not enough either: a clone has the same one, and a
// kubelet can write any, but not to a Node of another name (NodeRestriction).
func (f *Facts) rebooted(x *storage.Fence) bool {
	return slices.ContainsFunc(f.Nodes, func(n Node) bool {
		return n.Live && n.Ready && n.BootID != "" && n.Name == x.Boot.Name && sameUUID(n.SystemUUID, x.SystemUUID)
	})
}

// Unlifted counts the NetworkFences of fencers that csi-addons has not reported as unfenced: those of incidents that go on, and those of incidents that are over or whose Fence is
// deleted. known: they could be listed.
func Unlifted(facts Facts) (open, over storage.Unlifted, known bool) {
	if !facts.Known.Storage || !facts.Known.Fences {
		return open, over, false
	}
	goesOn := map[v1alpha1.BootReference]bool{}
	for i := range facts.Fences {
		if x := &facts.Fences[i]; x.Status.Phase != v1alpha1.FenceOver {
			goesOn[x.Spec.Node] = true
		}
	}
	open, over = storage.CountUnlifted(facts.StorageFences, goesOn)
	return open, over, true
}
