package guard

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Fence is the receipt of a fence: a pod's processes, or all processes of one boot of a node, can do no more harm, or such a boot can't write to some volumes any more.
type Fence struct {
	// Name of the receipt, for messages.
	Name string
	// PodUID that was fenced; empty where a whole node was.
	PodUID types.UID
	// NodeUID and BootID of the node that was fenced.
	NodeUID types.UID
	BootID  string
	// LastSign is the node's last sign of life when it was fenced (ConfirmOff). A receipt for a boot that was heard of since is void.
	LastSign string
	// Volumes are the names of PersistentVolumes that the boot can't write to any more, where that is all that was done.
	Volumes []string
}

// Voided returns the names of the receipts that another receipt voids. A receipt of class Void counts only for the receipt that it was written for: one that has the UID that it names and is for
// the same boot of a node, or for the same pod. So nobody voids a receipt before it exists, or one of a node that they have no right on: the API server checks the right for the node or pod
// that a receipt is for (deploy/webhook/fencing.yaml).
func Voided(receipts []v1alpha1.FenceReceipt) map[string]bool {
	voids := map[string][]*v1alpha1.FenceReceiptSpec{}
	for i := range receipts {
		if s := &receipts[i].Spec; s.Class == v1alpha1.EvidenceVoid {
			voids[s.Voids] = append(voids[s.Voids], s)
		}
	}
	void := map[string]bool{}
	for i := range receipts {
		r := &receipts[i]
		if slices.ContainsFunc(voids[r.Name], func(s *v1alpha1.FenceReceiptSpec) bool { return isOf(s, r) }) {
			void[r.Name] = true
		}
	}
	return void
}

// isOf reports whether a receipt of class Void was written for a receipt of the name that it has. One without a UID is the fencer's, where an older CustomResourceDefinition dropped the field. A
// receipt in a file may have none.
func isOf(void *v1alpha1.FenceReceiptSpec, r *v1alpha1.FenceReceipt) bool {
	return (void.VoidsUID == "" || r.UID == "" || void.VoidsUID == r.UID) && ptr.Equal(void.Node, r.Spec.Node) && ptr.Equal(void.Pod, r.Spec.Pod)
}

// FencesOf are the receipts that count: not those that another one voids.
func FencesOf(receipts []v1alpha1.FenceReceipt) []Fence {
	voided := Voided(receipts)
	var all []Fence
	for i := range receipts {
		r := &receipts[i]
		if r.Spec.Class == v1alpha1.EvidenceVoid || voided[r.Name] {
			continue
		}
		f := Fence{Name: r.Name, LastSign: r.Spec.LastSign, Volumes: r.Spec.Volumes}
		if r.Spec.Pod != nil {
			f.PodUID = r.Spec.Pod.UID
		}
		if n := r.Spec.Node; n != nil {
			f.NodeUID, f.BootID = n.UID, n.BootID
		}
		if r.Spec.Class == v1alpha1.EvidenceStorageRevoked && len(f.Volumes) == 0 {
			continue // it would count as one for the whole boot
		}
		all = append(all, f)
	}
	return all
}

// ofBoot reports whether the receipt is for this boot of the node, which was not heard of since.
func (f Fence) ofBoot(n Node) bool {
	return f.PodUID == "" && n.UID != "" && n.BootID != "" && f.NodeUID == n.UID && f.BootID == n.BootID && f.LastSign == n.LastSign
}

// stopped reports whether the node's processes are known to have ended: the node is not ready, and this very boot of it is confirmed to be off, or fenced.
func (f Facts) stopped() bool {
	n := f.Node
	if n.State != NodePresent || n.Ready {
		return false
	}
	return n.ConfirmedOff || slices.ContainsFunc(f.Fences, func(r Fence) bool { return len(r.Volumes) == 0 && r.ofBoot(n) })
}

// fenced allows the removal of a pod with a receipt of a fence: for this very pod, or for this boot of its node, or for the volumes that are all it is protected for.
func fenced(req Request, facts Facts) *Decision {
	for _, r := range facts.Fences {
		if r.PodUID != "" && r.PodUID == req.Pod.UID && len(r.Volumes) == 0 {
			return allow(becauseFenced)
		}
	}
	if facts.stopped() {
		return allow(NodeStopped)
	}
	if n := facts.Node; n.State == NodePresent && !n.Ready && len(facts.revoked()) > 0 {
		if volumes, but := facts.Policy.Storage(req.Pod, facts.Claims); but == "" && !slices.ContainsFunc(volumes, facts.writable) {
			return allow(becausePodStorageRevoked)
		}
	}
	return nil
}

// revoked are the volumes that this boot of the node can't write to any more.
func (f Facts) revoked() (volumes []string) {
	for _, r := range f.Fences {
		if r.ofBoot(f.Node) {
			volumes = append(volumes, r.Volumes...)
		}
	}
	return volumes
}

// writable reports whether this boot of the node may write to a volume, for all that is known.
func (f Facts) writable(volume string) bool { return !slices.Contains(f.revoked(), volume) }

// storageRevoked allows the removal of a VolumeAttachment whose volume this boot of the node can't write to any more.
func storageRevoked(req Request, facts Facts) *Decision {
	volume, n := req.VolumeAttachment.Spec.Source.PersistentVolumeName, facts.Node
	if volume == nil || n.State != NodePresent || n.Ready {
		return nil
	}
	if !facts.writable(*volume) {
		return allow(becauseStorageRevoked)
	}
	return nil
}
