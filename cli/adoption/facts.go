package adoption

import (
	"crypto/sha256"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/volumelock"
)

// Facts are what is known of a driver. The pods were read last.
type Facts struct {
	// Driver is its name.
	Driver string
	// Object is its CSIDriver; nil: there is none.
	Object *storagev1.CSIDriver
	// Kept is the CSIDriver as an adoption wants it that has not ended; nil: there is none.
	Kept *storagev1.CSIDriver
	// Volumes are PersistentVolumes, those of other drivers among them or not.
	Volumes     []corev1.PersistentVolume
	Nodes       []corev1.Node
	CSINodes    []storagev1.CSINode
	Attachments []storagev1.VolumeAttachment
	Locks       []v1alpha1.VolumeLock
	Receipts    []v1alpha1.FenceReceipt
	Pods        []corev1.Pod
	// Gated are the drivers that the volume lock that runs is told to gate; GatedUnknown says why that is not known.
	Gated        []string
	GatedUnknown string
}

// use is a volume that pods of a node use.
type use struct {
	lock   string // its VolumeLock's name
	volume *corev1.PersistentVolume
	node   string
	pods   []string // NAMESPACE/NAME
	// begun: one of the pods has come so far that the volume is mounted.
	begun bool
}

// exclusive are the volumes of the driver that only one node at a time may mount, by the claims that they are bound to. shared is how many PersistentVolumes several nodes may mount.
func (f *Facts) exclusive() (volumes map[types.NamespacedName]*corev1.PersistentVolume, shared int) {
	volumes = map[types.NamespacedName]*corev1.PersistentVolume{}
	for i := range f.Volumes {
		v := &f.Volumes[i]
		switch {
		case v.Spec.CSI == nil || v.Spec.CSI.Driver != f.Driver:
		case !volumelock.Exclusive(v):
			shared++
		case v.Spec.ClaimRef != nil:
			volumes[types.NamespacedName{Namespace: v.Spec.ClaimRef.Namespace, Name: v.Spec.ClaimRef.Name}] = v
		}
	}
	return volumes, shared
}

// uses are the exclusive volumes with the nodes whose pods use them.
func (f *Facts) uses() (all []use, shared int) {
	volumes, shared := f.exclusive()
	for i := range f.Pods {
		p := &f.Pods[i]
		if p.Spec.NodeName == "" || graceperiod.Finished(p) {
			continue
		}
		for _, name := range policy.AllClaimNames(p) {
			v := volumes[types.NamespacedName{Namespace: p.Namespace, Name: name}]
			if v == nil {
				continue
			}
			locked, err := volumelock.VolumeOf(v)
			if err != nil {
				continue // one without a handle, which nobody can mount
			}
			same := func(u use) bool { return u.lock == locked.LockName() && u.node == p.Spec.NodeName }
			j := slices.IndexFunc(all, same)
			if j < 0 {
				j, all = len(all), append(all, use{lock: locked.LockName(), volume: v, node: p.Spec.NodeName})
			}
			if who := p.Namespace + "/" + p.Name; !slices.Contains(all[j].pods, who) {
				all[j].pods = append(all[j].pods, who)
			}
			all[j].begun = all[j].begun || Begun(p)
		}
	}
	return all, shared
}

// Begun reports whether a pod's volumes are mounted: its sandbox is made after that (pkg/kubelet/kubelet.go, SyncPod: WaitForAttachAndMount, v1.36.3).
func Begun(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning || slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue
	})
}

// gated reports whether the kubelet takes a volume for one that is to be attached: it lists no others.
func (f *Facts) gated(u *use) bool {
	n := f.node(u.node)
	return n != nil && slices.Contains(n.Status.VolumesInUse, volumelock.InUseName(f.Driver, u.volume.Spec.CSI.VolumeHandle))
}

// attached reports whether the volume is attached to the node, so that pods have it by the gate.
func (f *Facts) attached(u *use) bool {
	name := attachmentName(u.volume.Spec.CSI.VolumeHandle, f.Driver, u.node)
	return slices.ContainsFunc(f.Attachments, func(a storagev1.VolumeAttachment) bool { return a.Name == name && a.Status.Attached })
}

func (f *Facts) node(name string) *corev1.Node {
	if i := slices.IndexFunc(f.Nodes, func(n corev1.Node) bool { return n.Name == name }); i >= 0 {
		return &f.Nodes[i]
	}
	return nil
}

func (f *Facts) lock(name string) *v1alpha1.VolumeLock {
	if i := slices.IndexFunc(f.Locks, func(l v1alpha1.VolumeLock) bool { return l.Name == name }); i >= 0 {
		return &f.Locks[i]
	}
	return nil
}

// silent are the nodes that are not ready, have the driver, and are not known to be off: what they have mounted their pods alone don't tell, since these may have been deleted by force.
func (f *Facts) silent() (names []string) {
	without := map[string]bool{} // nodes that are known not to have the driver
	for i := range f.CSINodes {
		c := &f.CSINodes[i]
		without[c.Name] = !slices.ContainsFunc(c.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == f.Driver })
	}
	standing := fencing.Standing(f.Receipts)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		off := func(r *v1alpha1.FenceReceipt) bool {
			b := r.Spec.Node
			return b != nil && b.UID == n.UID && b.BootID == n.Status.NodeInfo.BootID && r.Spec.Class != v1alpha1.EvidenceStorageRevoked
		}
		if !ready(n) && !without[n.Name] && !slices.ContainsFunc(standing, off) {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// attachmentName is the name that the attach/detach controller gives to the VolumeAttachment of a volume and a node (pkg/volume/csi/csi_attacher.go, getAttachmentName, v1.36.3).
func attachmentName(handle, driver, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+node)))
}
