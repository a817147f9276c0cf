package volumelock

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// patience is how old a VolumeAttachment is before its status says why it is not attached. Until then the attach/detach controller only waits, and goes on at once when it is; an error
// makes it back off, by two minutes in the end. A handover takes less. It is a choice, by the API server's clock and ours, and says nothing of what is safe.
const patience = 40 * time.Second

// standing is how long an error stands in a VolumeAttachment's status, by our clock. As long as it does each try of the attach/detach controller fails at once, and after each one it waits for
// twice as long as before, 2m02s in the end (pkg/volume/csi/csi_attacher.go, verifyAttachmentStatus, and pkg/util/goroutinemap/exponentialbackoff, v1.36.3), whatever becomes of the volume
// meanwhile. A try that finds none looks again and again for two minutes, every 7.7 s at most (waitForVolumeAttachDetachStatusWithLister), and goes on once it is attached. So an error stands for
// as long as such a try needs to find it, of which the pod gets an Event.
const standing = 10 * time.Second

// An error that was taken back is said again after this long, since Events are kept for an hour only, and another one after this long: each costs the attach/detach controller a try.
const (
	sameAgain  = 10 * time.Minute
	otherAfter = 2 * time.Minute
)

// Refusal is why an attachment is not attached, and when that was said, by our clock.
type Refusal struct {
	Message string
	At      time.Time
}

// between withdrawals of one VolumeAttachment is at least this long: another attacher sets status.attached again at once, for as long as it runs.
const between = 10 * time.Second

// answerWithin is how long a deleted VolumeAttachment is kept at most for the kubelet of a node that is going to be deleted. Two answers take 10 to 20 s. It is a choice.
const answerWithin = time.Minute

// AttachFacts are what Attach decides by.
type AttachFacts struct {
	// Lock is the VolumeLock of the name that LockFor says, read before the others; nil: there is none.
	Lock *v1alpha1.VolumeLock
	// Attachment that it is about.
	Attachment *storagev1.VolumeAttachment
	// Volume is the PersistentVolume that it names; nil: there is none, or it names none.
	Volume *corev1.PersistentVolume
	// SameHandle are PersistentVolumes of its driver and volumeHandle, itself among them or not.
	SameHandle []corev1.PersistentVolume
	// Node of the name that the attachment has; nil: there is none.
	Node *corev1.Node
	// Conflict is why the driver can't be gated; empty: it can. It is by the CSIDriver of this UID, which was read before the Node; empty: there is none.
	Conflict  string
	DriverUID types.UID
	// NotAdopted is what the function of that name says of the driver and the attachment.
	NotAdopted bool
	// Withdrawn is when we last said of the attachment that it is not attached though it was, by our clock; zero: we have not, or have attached it since.
	Withdrawn time.Time
	// Told is what we last said of the attachment why it is not attached; zero: nothing, as far as we know.
	Told Refusal
	// Now is our clock's time, by which it is decided when to say what is waited for, for how long, how often to say that something is not attached, and how long a node that is going to be
	// deleted is waited for, and nothing else.
	Now time.Time
}

// LockFor is the name of the VolumeLock of a VolumeAttachment: the one that it was taken by, whatever its PersistentVolume has become, or that of its volume. Empty: there is none.
func LockFor(a *storagev1.VolumeAttachment, pv *corev1.PersistentVolume) string {
	if name := a.Annotations[v1alpha1.AnnotationVolumeLock]; name != "" {
		return name
	}
	return lockOf(pv)
}

func lockOf(pv *corev1.PersistentVolume) string {
	if pv == nil {
		return ""
	}
	v, err := VolumeOf(pv)
	if err != nil {
		return ""
	}
	return v.LockName()
}

var (
	deleting    = policy.Reason{Code: "Deleting", Short: "the VolumeAttachment is being deleted"}
	answering   = policy.Reason{Code: "AskedBeforeItGoes", Short: "the VolumeAttachment is deleted, and kept until the node's kubelet has answered, since the node is going to be deleted"}
	refused     = policy.Reason{Code: "NotGated", Short: "the volume can't be locked"}
	conflicting = policy.Reason{Code: "Conflict", Short: "the driver can't be gated"}
	rival       = policy.Reason{Code: "OtherAttacher", Short: "somebody else sets status.attached of the driver's VolumeAttachments, so that several nodes may have the volume",
		Help: "It is another attacher of the driver: stop it, a sidecar external-attacher for instance."}
	changed = policy.Reason{Code: "VolumeChanged", Short: "the PersistentVolume leads to another volume than the one that was attached by its name",
		Help: "Delete the pods that use it, and its VolumeAttachment once the Node lists it no more in status.volumesInUse, some ten seconds after they are gone; then it is attached anew."}
	ambiguous = policy.Reason{Code: "SameHandle", Short: "PersistentVolumes have the same volumeHandle and are different volumes", Help: "Kubelets take them for one, and by the VolumeAttachment of the one mount the other. Give each a volumeHandle of its own."}
	shared    = policy.Reason{Code: "Shared", Short: "several nodes may mount the volume, by its access modes"}
	forged    = policy.Reason{Code: "NotOurs", Short: "the VolumeLock is not for the volume that its name says: somebody made it by hand",
		Help: "It is never released by itself. Look who made it, and delete it if no node has the volume."}
	taken      = policy.Reason{Code: "Taken", Short: "the node takes the volume"}
	retaken    = policy.Reason{Code: "Retaken", Short: "the volume is attached, and had no VolumeLock: somebody deleted it, or set status.attached. It is taken again for its node"}
	unreported = policy.Reason{Code: "NotReported", Short: "the node's kubelet does not say yet that it uses the volume",
		Help: "It does within some ten seconds of when a pod is there. One that mounted the volume before its driver was gated does not, and goes on without being attached."}
	noNode    = policy.Reason{Code: "NoNode", Short: "there is no such Node"}
	otherNode = policy.Reason{Code: "NodeMadeAnew", Short: "the Node was deleted and made anew while it held the volume, and the machine that it was may still have it mounted",
		Help: "It is released by a receipt that its instance is terminated, or by its annotation podgrace.dev/confirm-release."}
	held     = policy.Reason{Code: "Held", Short: "another node holds the volume"}
	second   = policy.Reason{Code: "SecondHolder", Short: "the volume is attached to a node that does not hold it: somebody set status.attached. It is said to be detached; whether the node has mounted it nobody knows"}
	samePath = policy.Reason{Code: "SameVolume", Short: "the node holds the same volume by another PersistentVolume"}
	moved    = policy.Reason{Code: "Again", Short: "the node that holds the volume wants it again"}
	attached = policy.Reason{Code: "Attached", Short: "the node holds the volume"}
)

// attaching is one call of Attach.
type attaching struct {
	*AttachFacts
	a *storagev1.VolumeAttachment
}

// attachRules in their order: the first that has an answer decides.
var attachRules = []func(*attaching) *Decision{
	(*attaching).deleted, (*attaching).lost, (*attaching).conflict, (*attaching).gated, (*attaching).sameVolume, (*attaching).unambiguous, (*attaching).shared, (*attaching).free, (*attaching).genuine, (*attaching).own, (*attaching).again, (*attaching).others,
}

// Attach decides about one VolumeAttachment of a gated driver, by what was read in the order that the package's documentation says.
func Attach(f AttachFacts) Decision {
	x := &attaching{AttachFacts: &f, a: f.Attachment}
	for _, rule := range attachRules {
		if d := rule(x); d != nil {
			return *d
		}
	}
	return Decision{}
}

// holdsIt reports whether the lock is held by this attachment.
func (x *attaching) holdsIt() bool {
	return x.Lock != nil && Holder(x.Lock) == v1alpha1.AttachmentReference{Name: x.a.Name, UID: x.a.UID}
}

// kept reports whether our finalizer keeps the attachment.
func (x *attaching) kept() bool {
	return slices.Contains(x.a.Finalizers, v1alpha1.FinalizerVolumeLock)
}

// finalized reports whether the attachment has what it must have before it is attached by a lock.
func (x *attaching) finalized(lock string) bool {
	return x.kept() && x.a.Annotations[v1alpha1.AnnotationVolumeLock] == lock
}

// deleted lets a VolumeAttachment go once its deletion stands in the lock, and not before: what is read after that is later than the deletion. It is not kept until the volume is released:
// its node may want it again (but see leaving), for which the attach/detach controller makes a new one, and so it does for another node, whose pod then learns here whom it waits for.
func (x *attaching) deleted() *Decision {
	switch {
	case x.a.DeletionTimestamp == nil:
		return nil
	case !x.kept():
		return &Decision{Reason: deleting}
	case x.holdsIt() && (x.Lock.Status.Release == nil || x.Lock.Status.Release.Attachment != x.a.UID):
		return &Decision{Reason: deleting}
	}
	if left := x.leaving(); left > 0 {
		return &Decision{Reason: answering, After: left}
	}
	return &Decision{Reason: deleting, Write: Unfinalize{}}
}

// leaving is how much longer a deleted VolumeAttachment is kept for its kubelet's answers. An autoscaler deletes a node as soon as it has none any more, and then nobody answers: the volume
// would stay held until a receipt or a person says that the instance is terminated. So it is kept where nobody comes back to the node, as long as its kubelet can still release the volume, and for no more
// than a while since its deletion was noted. If a clock was set meanwhile it may be let go sooner, as elsewhere, and never later: a time that is to come is none.
func (x *attaching) leaving() time.Duration {
	if x.Conflict != "" || !x.holdsIt() || !holds(x.Lock, x.Node) || !ready(x.Node) || !emptied(x.Node) {
		return 0
	}
	if boot := x.Node.Status.NodeInfo.BootID; Unsettled(x.Lock) || boot == x.Lock.Status.UngatedBootID || boot == x.Lock.Status.DistrustedBootID {
		return 0
	}
	ago := x.Now.Sub(x.Lock.Status.Release.Since.Time)
	if ago < 0 {
		return 0
	}
	return answerWithin - ago
}

// NotAdopted reports whether kubelets wait for the volumes of a driver which nobody attaches, until a person adopts it: it attaches, and has no attacher of its own, as far as this attachment tells. While
// it is being adopted that is on its way.
func NotAdopted(driver *storagev1.CSIDriver, a *storagev1.VolumeAttachment) bool {
	switch {
	case OwnAttacher(a) != "":
		return false
	case driver == nil:
		return true
	case driver.Spec.AttachRequired != nil && !*driver.Spec.AttachRequired:
		return false
	}
	return !Adopted(driver) && !Adopting(driver)
}

// conflict: where the attacher is another nothing is written, but of what a VolumeLock is held by (lost). Where there is none at all it is said what everybody waits for.
func (x *attaching) conflict() *Decision {
	if x.Conflict == "" {
		return nil
	}
	d := wait(conflicting, "%s", x.Conflict)
	if e := x.a.Status.AttachError; x.NotAdopted || e != nil && e.Message == x.Told.Message { // what we have said is taken back, whatever has become of the driver
		return x.refuse(d)
	}
	return d
}

// lost withdraws what a Node holds that is gone: whoever registers by that name next must not find it attached. That comes before what else may be wrong with the volume, since
// it is not deleted before (Release), nor with the driver, of which kubelets may wait all the same.
func (x *attaching) lost() *Decision {
	switch {
	case !x.holdsIt() || holds(x.Lock, x.Node):
		return nil
	case x.Node == nil:
		return x.withdraw(wait(noNode, "there is no Node %s", x.a.Spec.NodeName))
	}
	return x.withdraw(wait(otherNode, ""))
}

// gated refuses what can't be locked.
func (x *attaching) gated() *Decision {
	switch {
	case x.a.Spec.Source.PersistentVolumeName == nil:
		return x.refuse(wait(refused, "the volume lock does not know volumes that are no PersistentVolumes"))
	case x.Volume == nil:
		return x.refuse(wait(refused, "there is no PersistentVolume %s", *x.a.Spec.Source.PersistentVolumeName))
	}
	v, err := VolumeOf(x.Volume)
	if err != nil {
		return x.refuse(wait(refused, "PersistentVolume %s: %v", x.Volume.Name, err))
	}
	if v.Driver != x.a.Spec.Attacher {
		return x.refuse(wait(refused, "PersistentVolume %s is of driver %s, and its VolumeAttachment for %s", x.Volume.Name, v.Driver, x.a.Spec.Attacher))
	}
	return nil
}

// sameVolume refuses a PersistentVolume that was recreated, maybe for another volume: the lock by which it is attached is the old one's, and so is the volume that the kubelet mounts which
// waits for this VolumeAttachment, by whose name it finds it.
//
// Times have whole seconds. A VolumeAttachment of the second in which its PersistentVolume was created is ordinary (a volume is provisioned and attached at once), so it counts as the later one.
// Only who may write PersistentVolumes could make use of that, by one of the same volumeHandle.
func (x *attaching) sameVolume() *Decision {
	lock, source := x.a.Annotations[v1alpha1.AnnotationVolumeLock], x.Volume.Spec.CSI
	switch same := x.a.Name == AttachmentName(source.Driver, source.VolumeHandle, x.a.Spec.NodeName) && !x.a.CreationTimestamp.Before(&x.Volume.CreationTimestamp); {
	case same && (lock == "" || lock == lockOf(x.Volume)):
		return nil
	case x.holdsIt():
		return x.refuse(wait(changed, ""))
	}
	return x.withdraw(wait(changed, ""))
}

// unambiguous refuses a volume that kubelets take for another: they and the attach/detach controller know a volume by its handle alone, so that a node that has the one attached mounts the
// other without a lock. As long as no other node gets either, no two have the same.
func (x *attaching) unambiguous() *Decision {
	for i := range x.SameHandle {
		other := &x.SameHandle[i]
		if lockOf(other) == lockOf(x.Volume) && Exclusive(other) == Exclusive(x.Volume) {
			continue
		}
		d := wait(ambiguous, "PersistentVolumes %s and %s have the same volumeHandle and are different volumes, or one is for one node and one for several", x.Volume.Name, other.Name)
		if x.a.Status.Attached && Exclusive(x.Volume) && !x.holdsIt() {
			return nil // whose it is, or that it is nobody's, comes first
		}
		d.Alarm = x.a.Status.Attached
		return x.refuse(d)
	}
	return nil
}

// shared attaches at once what several nodes may mount.
func (x *attaching) shared() *Decision {
	if Exclusive(x.Volume) {
		return nil
	}
	d := &Decision{Reason: shared}
	if x.Lock != nil && x.Lock.Spec.Node.Name != x.a.Spec.NodeName {
		d.Message = message("PersistentVolume " + x.Volume.Name + " lets several nodes mount it, and by another PersistentVolume only one node may: " + Whose(x.Lock))
	}
	if !x.a.Status.Attached {
		d.Write = Say{Attached: true}
	}
	return d
}

// free takes a volume that nobody holds, for a node whose kubelet says that it is to use it.
func (x *attaching) free() *Decision {
	if x.Lock != nil {
		return nil
	}
	n := x.Node
	if n == nil || n.UID == "" || n.Status.NodeInfo.BootID == "" {
		return x.withdraw(wait(noNode, "there is no Node %s that says which boot it has", x.a.Spec.NodeName))
	}
	lock := x.lock(readyPeriod(n))
	d := &Decision{Reason: taken, Write: Take{Lock: lock}}
	switch {
	case x.a.Status.Attached:
		d.Write, d.Alarm, d.Reason = Take{Lock: x.lock(nil)}, true, retaken
		if !Ours(x.a) {
			d.Reason = rival
		}
		d.Message = wait(d.Reason, "").Message
	case !uses(n, InUseName(x.a.Spec.Attacher, x.Volume.Spec.CSI.VolumeHandle)):
		return x.refuse(wait(unreported, ""))
	}
	return d
}

// lock is the one by which the volume is taken, by a node that has been ready since then; nil: it is not, or has the volume already.
func (x *attaching) lock(ready *v1alpha1.ReadyPeriod) v1alpha1.VolumeLock {
	v, _ := VolumeOf(x.Volume) // gated has seen to it
	var since *metav1.Time
	if ready != nil {
		since = &ready.Since
	}
	return v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: v.LockName()}, Spec: v1alpha1.VolumeLockSpec{
		Driver: v.Driver, Volume: v.Key, Identity: v.Identity, PersistentVolume: x.Volume.Name, VolumeHandle: x.Volume.Spec.CSI.VolumeHandle,
		Node:       v1alpha1.BootReference{Name: x.Node.Name, UID: x.Node.UID, BootID: x.Node.Status.NodeInfo.BootID},
		Attachment: v1alpha1.AttachmentReference{Name: x.a.Name, UID: x.a.UID}, ReadySince: since, DriverUID: x.DriverUID,
	}}
}

func (x *attaching) genuine() *Decision {
	if genuine(x.Lock) {
		return nil
	}
	d := x.refuse(wait(forged, "%s: VolumeLock %s", forged.Short, x.Lock.Name))
	d.Alarm = true
	return d
}

// own attaches what the lock is held by: first the finalizer, then the status.
func (x *attaching) own() *Decision {
	switch {
	case !x.holdsIt():
		return nil
	case x.Lock.Status.Release != nil: // of an attachment that is not deleted: somebody wrote that
		d := x.refuse(wait(forged, "VolumeLock %s says that its VolumeAttachment is deleted, and it is not: somebody edited it", x.Lock.Name))
		d.Alarm = true
		return d
	case !x.finalized(x.Lock.Name):
		return &Decision{Reason: attached, Write: Finalize{Lock: x.Lock.Name}}
	case x.a.Status.Attached:
		return x.watched()
	}
	return &Decision{Reason: attached, Write: Say{Attached: true}}
}

// watched notes since when the node is ready while nobody has begun to detach the volume from it. Had it been detached by force before, it would not stand in volumesAttached.
func (x *attaching) watched() *Decision {
	now := readyPeriod(x.Node)
	if now == nil || sameReady(witness(x.Lock), now) || outOfService(x.Node) || !hasAttached(x.Node, InUseName(x.Lock.Spec.Driver, x.Lock.Spec.VolumeHandle)) {
		return &Decision{Reason: attached}
	}
	s := x.Lock.Status.DeepCopy()
	s.Ready = now
	return &Decision{Reason: attached, Write: Note{Status: *s}}
}

// Settled reports whether a Node's status is no news to a VolumeAttachment: it is attached as it should be, and Attach would write nothing. It spares most of the work there is: a node
// updates its status every ten seconds to five minutes, and hardly anything of it matters to the volumes that it has.
func Settled(l *v1alpha1.VolumeLock, a *storagev1.VolumeAttachment, n *corev1.Node) bool {
	x := &attaching{&AttachFacts{Lock: l, Attachment: a, Node: n}, a}
	if !x.holdsIt() || !holds(l, n) || !a.Status.Attached || l.Status.Release != nil {
		return false
	}
	return x.own().Write == nil
}

// HeldBy reports whether an attachment holds a lock, and neither is on its way out. The lock may be nil.
func HeldBy(l *v1alpha1.VolumeLock, a *storagev1.VolumeAttachment) bool {
	x := &attaching{&AttachFacts{Lock: l}, a}
	return x.holdsIt() && l.Status.Release == nil && a.DeletionTimestamp == nil
}

// Finalized reports whether an attachment has what it must have before it is attached by a lock.
func Finalized(a *storagev1.VolumeAttachment) bool {
	x := &attaching{&AttachFacts{}, a}
	return x.kept() && Ours(a)
}

// AtRest reports whether a lock is held as it should be, so that Release would write nothing and wait for nothing. The Node's heartbeat may be left out.
func AtRest(f ReleaseFacts) bool {
	d := Release(f)
	return d.Reason == inUse && d.Write == nil && !Unsettled(f.Lock)
}

// again gives the lock that a node holds to its new VolumeAttachment for the same volume: the one before is gone, for the name is the same. What goes on of a release ends. Of one that is gone before its
// deletion was noted, since somebody took its finalizer away, nobody knows whether it was detached by force: that is noted now (Release, mayBeForced). What was adopted had none before.
func (x *attaching) again() *Decision {
	switch {
	case x.a.Spec.NodeName != x.Lock.Spec.Node.Name || Holder(x.Lock).Name != x.a.Name:
		return nil
	case !holds(x.Lock, x.Node):
		return x.withdraw(wait(otherNode, ""))
	case !x.Lock.Spec.Adopted && !x.a.Status.Attached && !uses(x.Node, InUseName(x.Lock.Spec.Driver, x.Lock.Spec.VolumeHandle)):
		return x.refuse(wait(unreported, ""))
	}
	s := x.Lock.Status.DeepCopy()
	if x.Lock.Status.Release == nil && Holder(x.Lock).UID != "" {
		s.DistrustedBootID = x.Node.Status.NodeInfo.BootID
	}
	s.Attachment, s.Release, s.Message = &v1alpha1.AttachmentReference{Name: x.a.Name, UID: x.a.UID}, nil, ""
	return &Decision{Reason: moved, Write: Note{Status: *s}}
}

// others wait for whoever holds the volume.
func (x *attaching) others() *Decision {
	if x.a.Spec.NodeName == x.Lock.Spec.Node.Name && holds(x.Lock, x.Node) {
		return x.withdraw(wait(samePath, "node %s holds the same volume by PersistentVolume %s", x.a.Spec.NodeName, x.Lock.Spec.PersistentVolume))
	}
	why := Whose(x.Lock)
	if x.Lock.Status.Message != "" {
		why += ": " + x.Lock.Status.Message
	}
	return x.withdraw(wait(held, "%s", why))
}

// withdraw says of what is attached and must not be that it is not. A kubelet that has not begun to mount does not any more. Whoever has set it again is another attacher, with which that is
// disputed now and then only.
func (x *attaching) withdraw(d *Decision) *Decision {
	switch ago := x.Now.Sub(x.Withdrawn); {
	case !x.a.Status.Attached:
		return x.refuse(d)
	case x.Withdrawn.IsZero():
	case ago < between:
		return &Decision{Reason: rival, Message: message(rival.Short + ". " + rival.Help + " " + d.Message), Alarm: true, After: between - ago}
	default:
		d.Message, d.Reason = message(rival.Short+". "+rival.Help+" "+d.Message), rival
	}
	if d.Reason == held || d.Reason == samePath {
		d.Message = message(second.Short + ". " + d.Message)
		d.Reason = second
	}
	d.Alarm, d.Write = true, Say{Error: d.Message}
	return d
}

// refuse says why in the VolumeAttachment, once it is old enough, and takes it back once it was heard; never of one that is attached.
func (x *attaching) refuse(d *Decision) *Decision {
	if x.a.Status.Attached {
		return d
	}
	if e := x.a.Status.AttachError; e != nil {
		if ago := x.Now.Sub(e.Time.Time); ago >= 0 && ago < standing {
			d.After = standing - ago
		} else {
			d.Write = Say{}
		}
		return d
	}
	if age := x.Now.Sub(x.a.CreationTimestamp.Time); age < patience && slices.Contains(passing, d.Reason) {
		d.After = min(patience-age, patience) // our clock may be behind by years, and then be set right
		return d
	}
	again := otherAfter
	if x.Told.Message == d.Message {
		again = sameAgain
	}
	if ago := x.Now.Sub(x.Told.At); !x.Told.At.IsZero() && ago >= 0 && ago < again {
		d.After = again - ago
		return d
	}
	d.Write = Say{Error: d.Message}
	return d
}

// passing are the reasons that mostly pass by themselves. A driver's own attacher, by which it is no driver that nobody has adopted, needs a moment for its finalizer.
var passing = []policy.Reason{unreported, held, samePath, conflicting}
