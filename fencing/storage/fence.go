package storage

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// MaxVolumes is for how many volumes a FenceReceipt has room.
const MaxVolumes = 256

// Class is a NetworkFenceClass: a CSI driver, and which of its storage clusters.
type Class struct {
	UID    types.UID
	Driver string
	// Parameters are those that csi-addons passes to the driver.
	Parameters map[string]string
}

// Volume is a PersistentVolume.
type Volume struct {
	Name string
	// Driver is empty if the volume is not a CSI volume.
	Driver string
	// Attributes are its volumeAttributes.
	Attributes map[string]string
}

// Has reports whether a volume is on the storage of the class. One driver may serve several storage clusters, which differ in their parameters (ceph-csi: clusterID). A fence on
// one of them does nothing on another, and a volume without these parameters counts as on another one.
func (c Class) Has(v *Volume) bool {
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

// Revokes returns the names of those volumes that are on the storage of the class, sorted, at most MaxVolumes.
func (c Class) Revokes(volumes []Volume) (names []string) {
	for i := range volumes {
		if v := &volumes[i]; c.Has(v) && len(names) < MaxVolumes {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Fence is a NetworkFence.
type Fence struct {
	Name  string
	UID   types.UID
	CIDRs []string
	// Fenced: its fenceState is Fenced, else Unfenced. Lifted: csi-addons has reported that it is unfenced.
	Fenced, Lifted bool
	Deleting       bool
	Created        time.Time
	// Boot that a fencer made it for, and the UUID of its machine; nil: somebody else made it.
	Boot       *v1alpha1.BootReference
	SystemUUID string
}

// Unfencing returns the name of a NetworkFence that says Unfenced for one of the addresses. It is empty if there is none.
func Unfencing(fences []Fence, cidrs []string) string {
	i := slices.IndexFunc(fences, func(x Fence) bool { return !x.Fenced && Overlap(x.CIDRs, cidrs) })
	if i < 0 {
		return ""
	}
	return fences[i].Name
}

// Machine is what is known of the machine that a NetworkFence was made for.
type Machine struct {
	// Rebooted: the machine runs another boot, and its node is ready. What could write to the storage has ended.
	Rebooted bool
	// Node is the name of the Node that has the boot of the NetworkFence, and Ready whether it is ready. It is empty if no Node has that boot.
	Node  string
	Ready bool
	// OtherNode is another node that has one of the addresses now, and Address that address. It is empty if there is none.
	OtherNode, Address string
}

// Lifts returns which NetworkFences of fencers say Unfenced next (lift), and which are deleted because they were lifted (remove). Both are indices of fences. machines has the
// machine of each NetworkFence with a boot, at the same index. Only what the NetworkFences say is used, so that none is left behind if its Fence was deleted. waiting has a sentence
// for each other one that keeps somebody from the storage, or that somebody must act on.
func Lifts(fences []Fence, machines []Machine) (lift, remove []int, waiting []string) {
	for i := range fences {
		x, m := &fences[i], &machines[i]
		if x.Boot == nil {
			continue
		}
		why := ""
		switch other := otherFence(fences, machines, i); {
		case x.Deleting || !m.Rebooted:
			why = x.stays(m)
		case x.Fenced && other != "":
			why = fmt.Sprintf("is not lifted, though its machine has booted anew: NetworkFence %s fences the same address", other)
		case x.Fenced:
			lift = append(lift, i)
		case x.Lifted:
			remove = append(remove, i)
		default:
			why = x.undone()
		}
		if why != "" {
			waiting = append(waiting, "NetworkFence "+x.Name+" "+why)
		}
	}
	return lift, remove, waiting
}

// otherFence returns the name of another NetworkFence that fences one of the addresses and is not lifted as well. The storage has one list of addresses: lifting one NetworkFence
// lifts both.
func otherFence(fences []Fence, machines []Machine, at int) string {
	for i := range fences {
		if o := &fences[i]; i != at && o.Fenced && !machines[i].Rebooted && Overlap(o.CIDRs, fences[at].CIDRs) {
			return o.Name
		}
	}
	return ""
}

// stays returns why a NetworkFence is not lifted yet, as the predicate of a sentence. It is empty if there is nothing to do but wait.
func (x *Fence) stays(m *Machine) string {
	byHand := fmt.Sprintf("If it is known to be off: kubectl patch networkfence %s --type=merge -p '{\"spec\":{\"fenceState\":\"Unfenced\"}}', then delete it", x.Name)
	switch {
	case x.Deleting && !x.Fenced:
		return ""
	case x.Lifted: // by somebody else, who knows what the fencer does not
		return fmt.Sprintf("was lifted by hand, and is still there: as long as it is, no other NetworkFence for the same address is evidence (kubectl delete networkfence %s)", x.Name)
	case !x.Fenced:
		return x.undone()
	case x.Deleting:
		return fmt.Sprintf("is being deleted, by which csi-addons forgets it and gives nothing back: once the machine of node %s has booted anew, or is known to be off, apply one that says Unfenced for the same addresses", x.Boot.Name)
	case m.OtherNode != "":
		return fmt.Sprintf("keeps node %s from the storage, which has got the address %s of node %s since: give it another address, or power the machine of node %s off. %s", m.OtherNode, m.Address, x.Boot.Name, x.Boot.Name, byHand)
	case m.Node == "":
		return fmt.Sprintf("stays: no Node has the boot that it is for any more, and no Node %s is ready that is known to be that machine by another one, so that it may still run. %s", x.Boot.Name, byHand)
	case m.Ready:
		return fmt.Sprintf("is for the boot by which node %s is heard of: its pods can't write until it has booted anew. Reboot it", m.Node)
	}
	return ""
}

// undone returns that csi-addons has not reported the unfencing, as the predicate of a sentence.
func (x *Fence) undone() string {
	return fmt.Sprintf("says Unfenced, and csi-addons does not say that this was done (kubectl describe networkfence %s): until it is, pods of node %s can't write", x.Name, x.Boot.Name)
}

// Unlifted is how many NetworkFences of fencers still keep addresses from a storage.
type Unlifted struct {
	NetworkFences int
	// Since is when the oldest of them was created. It is zero if there is none.
	Since time.Time
}

// CountUnlifted counts the NetworkFences of fencers that csi-addons has not reported as unfenced: open are those whose boot is in goesOn, over are all others, which wait for a
// reboot, for csi-addons or for a person.
func CountUnlifted(fences []Fence, goesOn map[v1alpha1.BootReference]bool) (open, over Unlifted) {
	for i := range fences {
		switch x := &fences[i]; {
		case x.Boot == nil || x.Lifted:
		case goesOn[*x.Boot]:
			open.add(x)
		default:
			over.add(x)
		}
	}
	return open, over
}

func (u *Unlifted) add(x *Fence) {
	u.NetworkFences++
	if u.Since.IsZero() || x.Created.Before(u.Since) {
		u.Since = x.Created
	}
}
