package adoption

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/volumelock"
)

// Stage is how far an adoption has come.
type Stage string

// The stages.
const (
	// None: there is no such driver.
	None Stage = "None"
	// Ungated: the CSIDriver is to be deleted and recreated.
	Ungated Stage = "Ungated"
	// Deleted: it was deleted, and is to be recreated.
	Deleted Stage = "Deleted"
	// Attaches: it says attachRequired already, and nobody has adopted what is mounted.
	Attaches Stage = "Attaches"
	// Adopting: it was recreated, and is to be looked at again.
	Adopting Stage = "Adopting"
	// Adopted: all is done.
	Adopted Stage = "Adopted"
)

// Code is a kind of obstacle, by which a person says that it is no reason.
type Code string

// The obstacles. Those of Waivable a person can know more of than can be read.
const (
	NoDriver     Code = "no-driver"
	OwnAttacher  Code = "own-attacher"
	AttachesSelf Code = "attaches"
	Managed      Code = "managed"
	NoVolumeLock Code = "no-volume-lock"
	SilentNodes  Code = "silent-nodes"
	TwoNodes     Code = "two-nodes"
	Locked       Code = "locked"
	NodeUnknown  Code = "node-unknown"
	NotAdopted   Code = "not-adopted"
	Waiting      Code = "waiting"
	Held         Code = "held"
	CopyDiffers  Code = "copy-differs"
)

// Waivable are the obstacles in spite of which one can go on.
func Waivable() []Code {
	return []Code{AttachesSelf, Managed, NoVolumeLock, SilentNodes, NotAdopted, Held, CopyDiffers}
}

// Obstacle stands against it.
type Obstacle struct {
	Code Code
	// What is so, and what to do about it.
	What, Help string
	// Waived: it was said that it is no reason.
	Waived bool
}

// Plan is what is done to adopt a driver.
type Plan struct {
	Driver string
	Stage  Stage
	// Object is the CSIDriver as it was read; nil: there is none.
	Object *storagev1.CSIDriver
	// Old is the CSIDriver that is deleted; nil: none is.
	Old *storagev1.CSIDriver
	// New is the CSIDriver that is made; nil: none is.
	New *storagev1.CSIDriver
	// Locks are made.
	Locks []v1alpha1.VolumeLock
	// Replaced are deleted before Locks of their names are made: a person has confirmed that their nodes are rid of the volumes.
	Replaced []v1alpha1.VolumeLock
	// Users are the pods for which each of the locks is made, by the lock's name, NAMESPACE/NAME.
	Users map[string][]string
	// Standing is how many VolumeLocks of the nodes that use their volumes are there already.
	Standing int
	// Shared is how many PersistentVolumes several nodes may mount, which are attached at once.
	Shared int
	// Undecided are pods of which it does not show yet whether their node waits for the gate.
	Undecided []string
	Obstacles []Obstacle
}

// Refused reports whether something stands against it.
func (p *Plan) Refused() bool { return refused(p.Obstacles) }

func refused(all []Obstacle) bool {
	return slices.ContainsFunc(all, func(o Obstacle) bool { return !o.Waived })
}

// PlanFor plans an adoption, in spite of these obstacles.
func PlanFor(f *Facts, despite ...Code) *Plan {
	p := &Plan{Driver: f.Driver, Stage: StageOf(f.Object, f.Kept), Object: f.Object, Users: map[string][]string{}}
	switch p.Stage {
	case None:
		p.Obstacles = append(p.Obstacles, Obstacle{Code: NoDriver, What: "there is no CSIDriver " + f.Driver, Help: "kubectl get csidrivers lists those that are there"})
		return p
	case Adopted:
		return p
	case Ungated:
		p.Old, p.New = f.Object, wanted(f.Object)
		p.owners(f.Object)
	case Deleted:
		p.New = wanted(f.Kept)
	case Attaches:
		p.attaches(f)
		p.copyDiffers(f)
	case Adopting:
	}
	p.volumeLock(f)
	if names := f.silent(); len(names) > 0 {
		p.Obstacles = append(p.Obstacles, Obstacle{Code: SilentNodes,
			What: fmt.Sprintf("%s not ready: %s. What they have mounted is not known, since their pods may have been deleted by force", console.Plural(len(names), "node is", "nodes are"), console.Some(names, 5, ", ")),
			Help: "wait until they are ready; or have them fenced (kubectl podgrace fence NODE), or confirm that they are off (kubectl podgrace confirm node/NODE)"})
	}
	p.uses(f)
	waive(p.Obstacles, despite)
	return p
}

func waive(all []Obstacle, despite []Code) {
	for i := range all {
		all[i].Waived = slices.Contains(despite, all[i].Code) && slices.Contains(Waivable(), all[i].Code)
	}
}

// StageOf is how far the adoption of a driver has come, by its CSIDriver and the copy of one that is to be made; nil: there is none.
func StageOf(d, kept *storagev1.CSIDriver) Stage {
	switch {
	case d == nil && kept == nil:
		return None
	case d == nil:
		return Deleted
	case d.Spec.AttachRequired != nil && !*d.Spec.AttachRequired:
		return Ungated
	case volumelock.Adopting(d):
		return Adopting
	case volumelock.Adopted(d):
		return Adopted
	}
	return Attaches
}

// wanted is the CSIDriver as it is to be. Its mark comes once it has a UID; until then nothing of it is attached, as of any that nobody has adopted.
func wanted(d *storagev1.CSIDriver) *storagev1.CSIDriver {
	return anew(d, true)
}

// anew is a CSIDriver to be made in the place of another: with its labels, annotations, owners and spec, but without its mark.
func anew(d *storagev1.CSIDriver, attach bool) *storagev1.CSIDriver {
	n := &storagev1.CSIDriver{
		TypeMeta:   metav1.TypeMeta{APIVersion: storagev1.SchemeGroupVersion.String(), Kind: "CSIDriver"},
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Labels: maps.Clone(d.Labels), Annotations: maps.Clone(d.Annotations), OwnerReferences: slices.Clone(d.OwnerReferences)},
		Spec:       *d.Spec.DeepCopy(),
	}
	n.Spec.AttachRequired = &attach
	delete(n.Annotations, v1alpha1.AnnotationGated)
	if len(n.Annotations) == 0 {
		n.Annotations = nil
	}
	return n
}

func (p *Plan) owners(d *storagev1.CSIDriver) {
	for _, o := range ownersOf(d) {
		p.Obstacles = append(p.Obstacles, Obstacle{Code: Managed, What: "the CSIDriver is kept by " + o.who, Help: o.help})
	}
}

// attaches: who attaches volumes by a driver of their own has an attacher, and two are too many. Where nothing is attached, in a new cluster for instance, there is nothing to say: it is marked.
func (p *Plan) attaches(f *Facts) {
	others := ""
	for i := range f.Attachments {
		a := &f.Attachments[i]
		if a.Spec.Attacher != f.Driver {
			continue
		}
		if why := volumelock.OwnAttacher(a); why != "" {
			p.Obstacles = append(p.Obstacles, Obstacle{Code: OwnAttacher, What: why, Help: "its volumes are attached already: leave it as it is"})
			return
		}
		if a.Status.Attached && !volumelock.Ours(a) {
			others = a.Name
		}
	}
	if others == "" {
		return
	}
	p.Obstacles = append(p.Obstacles, Obstacle{Code: AttachesSelf, What: "the CSIDriver says attachRequired: true already, and VolumeAttachment " + others + " was attached by another attacher than the volume lock",
		Help: "if none runs any more (no external-attacher beside its controller), its running mounts can be adopted"})
}

// copyDiffers: who has made a CSIDriver by hand, after an adoption or a leaving was interrupted, has made another one than there was, and the copy that tells what that was is deleted in the end.
func (p *Plan) copyDiffers(f *Facts) {
	if f.Kept == nil || equality.Semantic.DeepEqual(wanted(f.Kept).Spec, wanted(f.Object).Spec) {
		return
	}
	p.Obstacles = append(p.Obstacles, Obstacle{Code: CopyDiffers, What: "the CSIDriver is not as the copy that was kept of the one before (ConfigMap volumelock-csidriver-" + f.Driver + "), besides attachRequired: somebody made it meanwhile",
		Help: "delete the CSIDriver, for which kubelets wait all the while, and give this command again, which makes it by the copy; or compare the two, and keep the one that is there"})
}

func (p *Plan) volumeLock(f *Facts) {
	what := ""
	switch {
	case f.GatedUnknown != "":
		what = "whether the volume lock runs for it is not known: " + f.GatedUnknown
	case !slices.Contains(f.Gated, f.Driver):
		what = "the volume lock that runs does not gate it (--drivers)"
	default:
		return
	}
	p.Obstacles = append(p.Obstacles, Obstacle{Code: NoVolumeLock, What: what,
		Help: "name it in --drivers of the Deployment podgrace-volumelock first (docs/volume-lock.md): without it nothing is attached, and pods wait"})
}

// uses makes a lock for each volume that a pod uses past the gate.
func (p *Plan) uses(f *Facts) {
	all, shared := f.uses()
	p.Shared = shared
	if p.Stage != Ungated { // who waits for the gate, which kubelets do without a CSIDriver, too, has its volume in volumesInUse, and so does who has mounted it, once its kubelet was started again
		all = slices.DeleteFunc(all, func(u use) bool { return f.gated(&u) && (!u.begun || f.attached(&u)) })
		for _, u := range all {
			if !u.begun {
				p.Undecided = append(p.Undecided, u.pods...)
			}
		}
	}
	byLock := map[string][]use{}
	for _, u := range all {
		byLock[u.lock] = append(byLock[u.lock], u)
	}
	for _, lock := range slices.Sorted(maps.Keys(byLock)) {
		p.use(f, f.lock(lock), byLock[lock])
	}
}

// use is about one volume, on one node or on several.
func (p *Plan) use(f *Facts, there *v1alpha1.VolumeLock, on []use) {
	u := on[0]
	n := f.node(u.node)
	refuse := func(code Code, what, help string) {
		p.Obstacles = append(p.Obstacles, Obstacle{Code: code, What: what, Help: help})
	}
	switch {
	case len(on) > 1:
		var where []string
		for _, u := range on {
			where = append(where, fmt.Sprintf("%s (%s)", u.node, console.Some(u.pods, 3, ", ")))
		}
		refuse(TwoNodes, fmt.Sprintf("volume %s is used on %d nodes: %s", u.volume.Name, len(on), strings.Join(where, ", ")), "delete the pods on all but one of them, and wait until they are gone")
	case n == nil || n.UID == "" || n.Status.NodeInfo.BootID == "":
		refuse(NodeUnknown, fmt.Sprintf("volume %s is used on node %s (%s), and there is no such Node that says which boot it has", u.volume.Name, u.node, console.Some(u.pods, 3, ", ")), "wait until the pods are gone, or the Node is back")
	case there == nil || confirmed(f, there):
		if there != nil {
			p.Replaced = append(p.Replaced, *there)
		}
		l := lockFor(f.Driver, u, v1alpha1.BootReference{Name: n.Name, UID: n.UID, BootID: n.Status.NodeInfo.BootID})
		p.Locks, p.Users[l.Name] = append(p.Locks, l), u.pods
	case there.Spec.Node.UID != n.UID:
		refuse(Locked, fmt.Sprintf("volume %s is used on node %s (%s), and a VolumeLock of before is of another Node (UID %s): %s", u.volume.Name, u.node, console.Some(u.pods, 3, ", "), there.Spec.Node.UID, volumelock.Whose(there)),
			"if that one does not use it any more: kubectl podgrace volumelock confirm "+there.Name+", and this command again")
	default:
		p.Standing++
	}
}

// confirmed reports whether a person has confirmed, since the CSIDriver is as it is, that the holder of a lock is rid of the volume. The volume lock goes by that only once the driver is gated, and
// a CSIDriver that is recreated makes it void (volumelock.Release): that the lock gives way to those who use the volume is for the adoption to see to. A lock of the very node counts
// without it, whatever its boot and however it was taken: under a CSIDriver of another UID it is taken for one of a boot that may have mounted without asking.
func confirmed(f *Facts, l *v1alpha1.VolumeLock) bool {
	var driver types.UID
	if f.Object != nil {
		driver = f.Object.UID
	}
	return l.Status.Release != nil && l.Annotations[v1alpha1.AnnotationConfirmRelease] == volumelock.Confirmation(l) && volumelock.DriverUID(l) == driver
}

// lockFor is the VolumeLock of a volume that a node had mounted before.
func lockFor(driver string, u use, node v1alpha1.BootReference) v1alpha1.VolumeLock {
	v, _ := volumelock.VolumeOf(u.volume) // uses has seen to it
	handle := u.volume.Spec.CSI.VolumeHandle
	return v1alpha1.VolumeLock{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "VolumeLock"},
		ObjectMeta: metav1.ObjectMeta{Name: u.lock},
		Spec: v1alpha1.VolumeLockSpec{
			Driver: v.Driver, Volume: v.Key, Identity: v.Identity, PersistentVolume: u.volume.Name, VolumeHandle: handle,
			Node: node, Attachment: v1alpha1.AttachmentReference{Name: attachmentName(handle, driver, u.node)}, Adopted: true,
		},
	}
}

// Names of the waivable obstacles, for people.
func Names() string {
	var all []string
	for _, c := range Waivable() {
		all = append(all, string(c))
	}
	return strings.Join(all, ", ")
}
