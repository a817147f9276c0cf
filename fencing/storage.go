package fencing

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
)

// Addresses remembers which InternalIPs each node had while it was healthy. What is said of a node after it fell silent is no ground to fence by: an address may be another
// machine's by then (rook/rook#14832). The zero value remembers nothing.
type Addresses struct{ nodes map[types.UID]recorded }

type recorded struct {
	boot, sign string
	// ips are all that this boot has told.
	ips []string
	// changed: this boot has told others as well. A node that is heard of again tells for some seconds what somebody else wrote while it was silent.
	changed bool
}

// Note notes the addresses of a node that is ready and has given a sign of life since the last time. Others than its kubelet write to a Node, too: what they do after it fell
// silent changes nothing here.
func (a *Addresses) Note(n *Node) {
	was, known := a.nodes[n.UID]
	if !n.Ready || !n.Heard || n.quiet() || n.BootID == "" || known && !heardSince(was.sign, n.Sign) {
		return
	}
	if a.nodes == nil {
		a.nodes = map[types.UID]recorded{}
	}
	now := recorded{boot: n.BootID, sign: n.Sign, ips: slices.Clone(n.InternalIPs)}
	if was.boot == n.BootID && (was.changed || !slices.Equal(was.ips, n.InternalIPs)) {
		now.changed = true
		now.ips = slices.Concat(was.ips, now.ips)
		slices.Sort(now.ips)
		now.ips = slices.Compact(now.ips)
		now.ips = now.ips[:min(len(now.ips), maxTold)]
	}
	a.nodes[n.UID] = now
}

// Of returns what was noted of this boot of the node; none: nothing was, or not always the same.
func (a *Addresses) Of(n *Node) []string {
	if was := a.nodes[n.UID]; was.boot == n.BootID && n.BootID != "" && !was.changed {
		return was.ips
	}
	return nil
}

// Told returns all that were noted of this boot of the node, also where they were not always the same: they may be its still.
func (a *Addresses) Told(n *Node) []string {
	if was := a.nodes[n.UID]; was.boot == n.BootID && n.BootID != "" {
		return was.ips
	}
	return nil
}

// Keep forgets the nodes that are there no more.
func (a *Addresses) Keep(nodes []Node) {
	there := make(map[types.UID]bool, len(nodes))
	for i := range nodes {
		there[nodes[i].UID] = true
	}
	for uid := range a.nodes {
		if !there[uid] {
			delete(a.nodes, uid)
		}
	}
}

// Class is a NetworkFenceClass: a CSI driver, and which of its storages. Parameters are those that csi-addons does not keep to itself.
type Class struct {
	UID        types.UID
	Driver     string
	Parameters map[string]string
}

// Volume is a PersistentVolume; Driver is empty where it is no CSI driver's.
type Volume struct {
	Name, Driver string
	// Attributes are its volumeAttributes.
	Attributes map[string]string
}

// has reports whether a volume is of the class's storage. One driver may serve several, which are told apart by parameters (ceph-csi: clusterID): what is fenced at one of them is not
// at another one, and a volume that does not say which it is on counts as another one's.
func (c Class) has(v *Volume) bool {
	if v.Driver == "" || v.Driver != c.Driver {
		return false
	}
	for key, value := range c.Parameters {
		if v.Attributes[key] != value {
			return false
		}
	}
	return true
}

// StorageFence is a NetworkFence.
type StorageFence struct {
	Name  string
	UID   types.UID
	CIDRs []string
	// Fenced is what it asks for; else it asks for the contrary. Lifted: that was done.
	Fenced, Lifted bool
	Deleting       bool
	Created        time.Time
	// Boot that it was made for by a fencer, and the UUID of its machine; nil: somebody else made it.
	Boot       *v1alpha1.BootReference
	SystemUUID string
}

// maxStorageVolumes is for how many volumes a receipt has room, and maxCIDRs how many addresses a target has.
const (
	maxStorageVolumes = 256
	maxCIDRs          = 16
	// maxTold is how many addresses of one boot are kept: a kubelet can write others each time.
	maxTold = 64
)

// freezeStorage is what a NetworkFence is to say, and what it revokes. Of a node that is not read live the volumes are not known: none.
func freezeStorage(x *v1alpha1.NetworkFenceAgent, n *Node, f *Facts) (storage *v1alpha1.FenceTargetStorage, why string) {
	storage = &v1alpha1.FenceTargetStorage{NetworkFenceClassName: x.NetworkFenceClassName}
	class, known := f.Classes[x.NetworkFenceClassName]
	switch {
	case f.foreseen: // what only the fencer knows is left to it
		return storage, ""
	case !f.Known.Storage:
		return nil, "can't be used: NetworkFences or NetworkFenceClasses could not be listed (csi-addons is not installed, or the fencer lacks the right: docs/fencing.md)"
	case !known:
		return nil, fmt.Sprintf("names NetworkFenceClass %s, which does not exist", x.NetworkFenceClassName)
	}
	storage.NetworkFenceClassUID, storage.Driver = class.UID, class.Driver
	if storage.CIDRs, why = cidrsOf(n, f); why == "" {
		why = NotAllowed(x, storage.CIDRs)
	}
	if why != "" {
		return nil, why
	}
	for i := range n.Volumes {
		if v := &n.Volumes[i]; class.has(v) && len(storage.Volumes) < maxStorageVolumes {
			storage.Volumes = append(storage.Volumes, v.Name)
		}
	}
	slices.Sort(storage.Volumes)
	storage.Volumes = slices.Compact(storage.Volumes)
	return storage, ""
}

// cidrsOf are the addresses that the node had while it was healthy, as blocks of one each.
func cidrsOf(n *Node, f *Facts) (cidrs []string, why string) {
	if len(n.Recorded) == 0 {
		return nil, "goes by the addresses that a node had while it was healthy, and this fencer did not see it healthy by this boot, or it had no InternalIP, or not always the same"
	}
	for _, text := range n.Recorded {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.Zone() != "" || !ip.Unmap().IsGlobalUnicast() {
			return nil, fmt.Sprintf("can't fence the node's address %q: it is none of a single machine", text)
		}
		ip = ip.Unmap()
		cidrs = append(cidrs, netip.PrefixFrom(ip, ip.BitLen()).String())
	}
	slices.Sort(cidrs)
	if cidrs = slices.Compact(cidrs); len(cidrs) > maxCIDRs {
		return nil, fmt.Sprintf("can't fence a node of %d addresses, which is more than %d", len(cidrs), maxCIDRs)
	}
	return cidrs, sharedAddress(cidrs, n.Name, f)
}

// NotAllowed says which address an agent may not fence, because it lies in none of the blocks that the agent names; empty: it may fence all of them.
func NotAllowed(x *v1alpha1.NetworkFenceAgent, cidrs []string) string {
	if len(x.AllowedCIDRs) == 0 {
		return ""
	}
	var allowed []netip.Prefix
	for _, text := range x.AllowedCIDRs {
		if p, err := netip.ParsePrefix(text); err == nil { // what can't be read allows nothing
			allowed = append(allowed, unmapped(p))
		}
	}
	for _, cidr := range cidrs {
		fenced, ok := parseBlock(cidr)
		if !ok || !slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Bits() <= fenced.Bits() && p.Contains(fenced.Addr()) }) {
			return fmt.Sprintf("may not fence %s, which lies in none of its allowedCIDRs (%s)", cidr, console.Some(x.AllowedCIDRs, 8, ", "))
		}
	}
	return ""
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

// block is an address as the block that has it alone; empty: it is none.
func block(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	ip = ip.Unmap()
	return netip.PrefixFrom(ip, ip.BitLen()).String()
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
	return slices.ContainsFunc(f.StorageFences, func(x StorageFence) bool { return x.Boot != nil && *x.Boot == boot })
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
	return f.unfencing(f.revokedFrom(r))
}

// unfencing is a NetworkFence that says Unfenced for one of the addresses; empty: none does.
func (f *Facts) unfencing(cidrs []string) string {
	i := slices.IndexFunc(f.StorageFences, func(x StorageFence) bool { return !x.Fenced && Overlap(x.CIDRs, cidrs) })
	if i < 0 {
		return ""
	}
	return f.StorageFences[i].Name
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

// Lifts are the NetworkFences of fencers that are to be lifted, because the machine that they are for has booted again: what could write there has ended. They go by what stands in
// the NetworkFences, so that Fences which were deleted leave none behind. Waiting says why others are not lifted, where somebody is kept from the storage by that, or has to act.
func Lifts(facts Facts) (lifts []Action, waiting []string) {
	if !facts.Known.Storage || !facts.Known.Nodes {
		return nil, nil
	}
	ended := make([]bool, len(facts.StorageFences))
	for i := range facts.StorageFences {
		ended[i] = facts.bootedAnew(&facts.StorageFences[i])
	}
	for i := range facts.StorageFences {
		x := &facts.StorageFences[i]
		if x.Boot == nil {
			continue
		}
		why := ""
		switch other := facts.otherFence(i, ended); {
		case x.Deleting || !ended[i]:
			why = facts.stays(x)
		case x.Fenced && other != "":
			why = fmt.Sprintf("is not lifted, though its machine has booted anew: NetworkFence %s fences the same address", other)
		case x.Fenced:
			lifts = append(lifts, LiftFence{Name: x.Name, UID: x.UID})
		case x.Lifted:
			lifts = append(lifts, DeleteLifted{Name: x.Name, UID: x.UID})
		default:
			why = x.undone()
		}
		if why != "" {
			waiting = append(waiting, "NetworkFence "+x.Name+" "+why)
		}
	}
	return lifts, waiting
}

// StillFenced is how many NetworkFences of fencers still keep addresses from a storage.
type StillFenced struct {
	NetworkFences int
	// Since is when the oldest of them was made; zero: there is none.
	Since time.Time
}

func (s *StillFenced) add(x *StorageFence) {
	s.NetworkFences++
	if s.Since.IsZero() || x.Created.Before(s.Since) {
		s.Since = x.Created
	}
}

// Unlifted counts the NetworkFences of fencers of which csi-addons does not say that they are lifted: those of incidents that go on, and those of incidents that are over, or whose Fence is
// gone, which wait for a reboot, for csi-addons, or for a person. known: they could be listed.
func Unlifted(facts Facts) (open, over StillFenced, known bool) {
	if !facts.Known.Storage || !facts.Known.Fences {
		return open, over, false
	}
	goesOn := map[v1alpha1.BootReference]bool{}
	for i := range facts.Fences {
		if x := &facts.Fences[i]; x.Status.Phase != v1alpha1.FenceOver {
			goesOn[x.Spec.Node] = true
		}
	}
	for i := range facts.StorageFences {
		switch x := &facts.StorageFences[i]; {
		case x.Boot == nil || x.Lifted:
		case goesOn[*x.Boot]:
			open.add(x)
		default:
			over.add(x)
		}
	}
	return open, over, true
}

// stays says of a NetworkFence that can't be lifted, or not yet, who is kept from the storage by it, or what somebody has to do; empty: it is only waited for.
func (f *Facts) stays(x *StorageFence) string {
	byHand := fmt.Sprintf("If it is known to be off: kubectl patch networkfence %s --type=merge -p '{\"spec\":{\"fenceState\":\"Unfenced\"}}', then delete it", x.Name)
	cidr, other := f.otherNode(x.CIDRs, x.Boot.Name)
	n := f.bootSeen(x.Boot.BootID)
	switch {
	case x.Deleting && !x.Fenced:
		return ""
	case x.Lifted: // by somebody else, who knows what the fencer does not
		return fmt.Sprintf("was lifted by hand, and is still there: as long as it is, no other NetworkFence for the same address is evidence (kubectl delete networkfence %s)", x.Name)
	case !x.Fenced:
		return x.undone()
	case x.Deleting:
		return fmt.Sprintf("is being deleted, by which csi-addons forgets it and gives nothing back: once the machine of node %s has booted anew, or is known to be off, apply one that says Unfenced for the same addresses", x.Boot.Name)
	case other != nil:
		return fmt.Sprintf("keeps node %s from the storage, which has got the address %s of node %s since: give it another address, or power the machine of node %s off. %s", other.Name, cidr, x.Boot.Name, x.Boot.Name, byHand)
	case n == nil:
		return fmt.Sprintf("stays: no Node has the boot that it is for any more, and no Node %s is ready that is known to be that machine by another one, so that it may still run. %s", x.Boot.Name, byHand)
	case n.Ready:
		return fmt.Sprintf("is for the boot by which node %s is heard of: its pods can't write until it has booted anew. Reboot it", n.Name)
	}
	return ""
}

// undone says that csi-addons has not lifted what is to be lifted.
func (x *StorageFence) undone() string {
	return fmt.Sprintf("says Unfenced, and csi-addons does not say that this was done (kubectl describe networkfence %s): until it is, pods of node %s can't write", x.Name, x.Boot.Name)
}

// bootedAnew reports whether another boot of the machine that a NetworkFence is for has been seen, and is ready. A Node that has the name, or the very Node, is not enough: another
// machine may have taken it, while the first one goes on, also one of the same make whose UUID tells nothing. Neither is a UUID: a clone has the same, and a kubelet writes
// what it likes, but not to a Node of another name (NodeRestriction).
func (f *Facts) bootedAnew(x *StorageFence) bool {
	if x.Boot == nil || f.bootSeen(x.Boot.BootID) != nil {
		return false
	}
	return slices.ContainsFunc(f.Nodes, func(n Node) bool {
		return n.Live && n.Ready && n.BootID != "" && n.Name == x.Boot.Name && sameUUID(n.SystemUUID, x.SystemUUID)
	})
}

// otherFence is a NetworkFence that fences an address of this one, and is not to be lifted as well; empty: none does. The storage has one list: who lifts one, lifts both.
func (f *Facts) otherFence(at int, ended []bool) string {
	for i := range f.StorageFences {
		if o := &f.StorageFences[i]; i != at && o.Fenced && !ended[i] && Overlap(o.CIDRs, f.StorageFences[at].CIDRs) {
			return o.Name
		}
	}
	return ""
}

// Overlap reports whether two lists of blocks have an address in common. What can't be read overlaps with everything.
func Overlap(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			p, okP := parseBlock(x)
			q, okQ := parseBlock(y)
			if !okP || !okQ || p.Overlaps(q) {
				return true
			}
		}
	}
	return false
}

// mappedBits are how many bits of an IPv4 address that is written as one of IPv6 are no part of it (::ffff:0:0/96).
const mappedBits = 96

// parseBlock reads a block. One of IPv4 addresses that are written as IPv6 is that of the IPv4 addresses: drivers read blocks by package net, for which these are the same.
func parseBlock(text string) (p netip.Prefix, ok bool) {
	p, err := netip.ParsePrefix(text)
	p = unmapped(p)
	// A block that has all of IPv4 among its addresses is not told apart from anything.
	mapped := p.Addr().Is6() && p.Contains(netip.AddrFrom16([16]byte{10: 0xff, 11: 0xff}))
	return p, err == nil && !mapped
}

func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= mappedBits {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
	}
	return p
}
