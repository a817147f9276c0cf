package volumelock

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
)

// answersNeeded is how often in a row a kubelet has to say that it does not use a volume (claim 16 of doc.go).
const answersNeeded = 2

// LaterNeeded is how many later heartbeats of one boot tell that it ran when the first of it was seen (claim 24 of doc.go).
const LaterNeeded = 2

// ReleaseFacts are what Release decides by.
type ReleaseFacts struct {
	// Lock that it is about, read before the others.
	Lock *v1alpha1.VolumeLock
	// Attachment of the name that Holder says, whatever its UID; nil: there is none.
	Attachment *storagev1.VolumeAttachment
	// Node of the name that the lock has, read after the Attachment; nil: there is none.
	Node *corev1.Node
	// Conflict is why the driver can't be gated; empty: it can. It is by the CSIDriver of this UID, which was read before all others; empty: there is none.
	Conflict  string
	DriverUID types.UID
	// Beside are other locks of the driver that the Node holds, which may be older than what was read. A kubelet is asked about all of them at once.
	Beside []v1alpha1.VolumeLock
	// Receipts are all FenceReceipts; none need to be there where none of the node stands.
	Receipts []v1alpha1.FenceReceipt
	// Now is our clock's time, which is only written down.
	Now time.Time
}

var (
	inUse    = policy.Reason{Code: "InUse", Short: "the volume is attached to the node"}
	orphan   = policy.Reason{Code: "NodeGoneAttached", Short: "the Node is gone, and its VolumeAttachment is still there", Help: "Nothing is released before that is deleted, which it is once its status says that it is not attached."}
	noted    = policy.Reason{Code: "Deleted", Short: "the VolumeAttachment is deleted"}
	rebooted = policy.Reason{Code: "NodeBooted", Short: "the node has had another boot since the VolumeAttachment was deleted"}
	proved   = policy.Reason{Code: "Released", Short: "the node does not use the volume any more"}
	asked    = policy.Reason{Code: "Asked", Short: "the node's kubelet is asked whether it uses the volume"}
	mounted  = policy.Reason{Code: "StillInUse", Short: "the node's kubelet does not say that it has unmounted the volume"}
	silent   = policy.Reason{Code: "NodeSilent", Short: "the node is not ready, so that nobody knows whether it has unmounted the volume",
		Help: "It is released once the node answers, or by a FenceReceipt for it (kubectl podgrace fence NODE), or by its annotation podgrace.dev/confirm-release if it is known to be off."}
	silentUngated = policy.Reason{Code: "NodeSilentUngated", Short: "the node is not ready, and which boot of it may have mounted the volume without asking is not known",
		Help: "No receipt that a boot is off counts yet; one that the instance is terminated does, or a person (kubectl podgrace volumelock confirm), or the node comes back and is rebooted."}
	gone = policy.Reason{Code: "NodeGone", Short: "the Node is gone, and whether its machine has unmounted the volume nobody knows",
		Help: "It is released by a receipt that its instance is terminated, or by its annotation podgrace.dev/confirm-release if it is known to be off."}
	byForce = policy.Reason{Code: "DetachedByForce", Short: "the volume may have been detached by force while the node used it, after which its kubelet's word is no proof",
		Help: "It is released once the node was rebooted, or by a FenceReceipt for it (kubectl podgrace fence NODE), or by its annotation podgrace.dev/confirm-release if it is known not to be mounted there."}
	regated   = policy.Reason{Code: "DriverMadeAnew", Short: "the CSIDriver was made anew, and meanwhile the node may have mounted the volume without asking"}
	listening = policy.Reason{Code: "Listening", Short: "it is not known yet which boot of the node runs since the driver is gated"}
	settled   = policy.Reason{Code: "BootKnown", Short: "it is known which boot of the node ran when the driver was gated"}
	resumed   = policy.Reason{Code: "GatedAgain", Short: "the driver can be gated again, by the same CSIDriver"}
	ungated   = policy.Reason{Code: "MountedBefore", Short: "the node may have mounted the volume while its driver was not gated, and its kubelet does not tell of such volumes",
		Help: "It is released once the node was rebooted, or by a FenceReceipt for it, or by its annotation podgrace.dev/confirm-release if it is known not to be mounted there."}
)

// releasing is one call of Release.
type releasing struct{ *ReleaseFacts }

// releaseRules in their order: the first that has an answer decides.
var releaseRules = []func(*releasing) *Decision{
	(*releasing).genuine, (*releasing).gated, (*releasing).attached, (*releasing).deleted, (*releasing).proof, (*releasing).booted, (*releasing).settle, (*releasing).conflict, (*releasing).known, (*releasing).adopted, (*releasing).forced, (*releasing).ask, (*releasing).answer,
}

// Release decides about one VolumeLock. The lock was read first, then the attachment, then the node.
func Release(f ReleaseFacts) Decision {
	x := &releasing{&f}
	d := x.decide()
	if ask, ok := d.Write.(Ask); ok {
		d.Write = Ask{Volumes: append(ask.Volumes, x.beside()...)}
	}
	return d
}

func (x *releasing) decide() Decision {
	for _, rule := range releaseRules {
		if d := rule(x); d != nil {
			return *d
		}
	}
	return Decision{}
}

func (x *releasing) genuine() *Decision {
	if genuine(x.Lock) {
		return nil
	}
	d := wait(forged, "")
	d.Alarm = true
	return d
}

// gated notes that the driver can't be gated any more, or can again, and that its CSIDriver is another one. Between two of them there may have been one that is not gated, whether anybody saw
// it or not: pods that came then have the volume mounted without telling, also on this node. So what is known of a release begins again, and a person has to confirm again. With the same CSIDriver,
// whose annotation somebody took away and put back, nothing does: its attachRequired can't be changed, so that kubelets asked all the while.
func (x *releasing) gated() *Decision {
	anew, told := DriverUID(x.Lock) != x.DriverUID, meta.IsStatusConditionTrue(x.Lock.Status.Conditions, v1alpha1.ConditionConflict)
	if !anew && told == (x.Conflict != "") {
		return nil
	}
	reason, text := resumed, resumed.Short
	switch {
	case x.Conflict != "":
		reason, text = conflicting, x.Conflict
	case anew:
		reason, text = regated, regated.Short
	}
	d := x.note(reason, func(s *v1alpha1.VolumeLockStatus) {
		c := metav1.Condition{Type: v1alpha1.ConditionConflict, Status: metav1.ConditionFalse, Reason: "Gated", Message: "the driver is gated", LastTransitionTime: metav1.NewTime(x.Now)}
		if x.Conflict != "" {
			c.Status, c.Reason, c.Message = metav1.ConditionTrue, "NotGated", message(x.Conflict)
		}
		if told || x.Conflict != "" {
			meta.SetStatusCondition(&s.Conditions, c)
		}
		if anew {
			x.begin(s)
		}
	})
	d.Message, d.Alarm = message(text), x.Conflict != "" || anew
	return d
}

// begin has what is known of a release begin again, for a boot that may have mounted without asking. Which one that is the Node does not tell: the machine may have another one already, of
// which no status has arrived yet.
func (x *releasing) begin(s *v1alpha1.VolumeLockStatus) {
	s.DriverUID, s.UngatedBootID, s.Heard = &x.DriverUID, v1alpha1.BootUnknown, nil
	if r := s.Release; r != nil {
		r.Since, r.BootID, r.Asked, r.Answers = metav1.NewMicroTime(x.Now), "", nil, 0
	}
}

// Unsettled reports whether it is not known yet which is the last boot that may have mounted without asking, so that each status of its node is news to a lock.
func Unsettled(l *v1alpha1.VolumeLock) bool {
	boot := l.Status.UngatedBootID
	return boot == v1alpha1.BootUnknown || l.Spec.Adopted && boot == ""
}

// settle finds the last boot that may have mounted without asking while the volume is held, by heartbeats that are later than a read since the gate stood: a status of an ended boot may
// arrive late once, not twice (claim 24 of doc.go). What the boot of a receipt has to be is noted then as by deleted, if that has been. It comes after what is noted of the deletion and what others have
// proved, neither of which has to wait for it.
func (x *releasing) settle() *Decision {
	if x.Conflict != "" || !Unsettled(x.Lock) || !holds(x.Lock, x.Node) {
		return nil
	}
	boot, beat, heard := x.Node.Status.NodeInfo.BootID, heartbeat(x.Node), x.Lock.Status.Heard
	switch {
	case boot == "" || beat.IsZero():
		return nil
	case heard == nil || heard.BootID != boot || beat.Before(&heard.Heartbeat):
		return x.note(listening, func(s *v1alpha1.VolumeLockStatus) { s.Heard = &v1alpha1.HeardBoot{BootID: boot, Heartbeat: beat} })
	case !heard.Heartbeat.Before(&beat):
		return nil
	case heard.Later+1 < LaterNeeded:
		return x.note(listening, func(s *v1alpha1.VolumeLockStatus) { s.Heard.Heartbeat, s.Heard.Later = beat, heard.Later+1 })
	}
	return x.note(settled, func(s *v1alpha1.VolumeLockStatus) { x.know(s, boot) })
}

// know notes which boot is the last that may have mounted without asking, and the one that the node has if the deletion is noted already.
func (x *releasing) know(s *v1alpha1.VolumeLockStatus, boot string) {
	s.UngatedBootID, s.Heard = boot, nil
	if r := s.Release; r != nil && r.Attachment == Holder(x.Lock).UID {
		r.BootID, r.Asked, r.Answers = boot, nil, 0
	}
}

// attached: nothing is released while the VolumeAttachment is there and not deleted. One whose Node is gone is deleted here, since nobody else does: Attach has withdrawn it, and the
// attach/detach controller forgets what does not say attached (VolumesAreAttached). That releases nothing (claim 27 of doc.go).
func (x *releasing) attached() *Decision {
	h, a := Holder(x.Lock), x.Attachment
	if a == nil || a.DeletionTimestamp != nil || h.UID != "" && h.UID != a.UID {
		return nil
	}
	switch {
	case h.UID == "" && !holds(x.Lock, x.Node) && !a.Status.Attached:
		return nil // what was adopted had none yet, and now it may be that of a new Node of the name: nobody is attached by it, and it is no concern of this lock's
	case !holds(x.Lock, x.Node) && !a.Status.Attached:
		return &Decision{Reason: orphan, Message: message(orphan.Short), Write: Detach{}}
	case !holds(x.Lock, x.Node):
		return x.said(orphan, "")
	}
	if d := x.settle(); d != nil { // the volume is held, and may be for long
		return d
	}
	if x.Lock.Status.Message != "" {
		return x.note(inUse, func(*v1alpha1.VolumeLockStatus) {})
	}
	return &Decision{Reason: inUse}
}

// deleted notes that the VolumeAttachment is deleted, or gone, with the boot that the node has by a read after that.
func (x *releasing) deleted() *Decision {
	h, r := Holder(x.Lock), x.Lock.Status.Release
	if r != nil && r.Attachment == h.UID {
		return nil
	}
	release := &v1alpha1.VolumeRelease{Attachment: h.UID, Since: metav1.NewMicroTime(x.Now)}
	if holds(x.Lock, x.Node) && !Unsettled(x.Lock) { // else a receipt for the boot that the Node shows would count, and another one may run
		release.BootID = x.Node.Status.NodeInfo.BootID
	}
	return x.note(noted, func(s *v1alpha1.VolumeLockStatus) {
		s.Release = release
		if holds(x.Lock, x.Node) && x.mayBeForced() {
			s.DistrustedBootID = x.Node.Status.NodeInfo.BootID
		}
	})
}

// mayBeForced reports whether the volume may have been detached by force. The attach/detach controller does that from a node that is not ready, or has the taint out-of-service
// (pkg/controller/volume/attachdetach/reconciler/reconciler.go, v1.36.3), and both can have been while nobody looked: whether the node has been ready all the time tells since when it is.
func (x *releasing) mayBeForced() bool {
	n := x.Node
	return x.listed() || !ready(n) || outOfService(n) || !sameReady(witness(x.Lock), readyPeriod(n))
}

// proof releases by what others have proved. While the driver can't be gated that its VolumeAttachment is deleted keeps nobody from mounting, so that only counts what ends the instance for good.
func (x *releasing) proof() *Decision {
	r := x.Lock.Status.Release
	if x.Conflict == "" && x.Lock.Annotations[v1alpha1.AnnotationConfirmRelease] == Confirmation(x.Lock) {
		return free(ByPerson, "a person confirms that node %s does not use it", x.Lock.Spec.Node.Name)
	}
	for _, f := range fencing.Standing(x.Receipts) {
		s := &f.Spec
		switch n := s.Node; {
		case n == nil || n.UID != x.Lock.Spec.Node.UID || n.BootID == "":
		case s.Class == v1alpha1.EvidenceInstanceTerminated:
			return free(ByReceipt, "FenceReceipt %s: the instance of node %s is terminated", f.Name, n.Name)
		case x.Conflict != "":
		case n.BootID != r.BootID: // another boot may have mounted it since
		case heardOfSince(x.Lock, x.Node, s): // as the guard: it is void, or the storage is given back, before anybody has written so
		case s.Class != v1alpha1.EvidenceStorageRevoked:
			return free(ByReceipt, "FenceReceipt %s: node %s is off", f.Name, n.Name)
		case slices.Contains(s.Volumes, x.Lock.Spec.PersistentVolume):
			return free(ByStorage, "FenceReceipt %s: node %s can't reach it", f.Name, n.Name)
		}
	}
	return nil
}

// booted notes the boot of a node that is not ready and has another one than is noted. A machine that boots during a release is fenced by the boot that it has then, and who fences it asks nobody about earlier ones. By
// the same reasons a receipt for that one counts: it is the last that has been heard of, what an earlier one has mounted ended with that, and it has not begun to since. A node that is ready tells by itself, and a receipt for
// the boot before may be on its way. Where a boot may have mounted without asking the one that is noted stays: a status of an earlier one may have arrived just when that became known.
func (x *releasing) booted() *Decision {
	if Unsettled(x.Lock) || x.Lock.Status.UngatedBootID != "" || !holds(x.Lock, x.Node) || ready(x.Node) {
		return nil
	}
	boot := x.Node.Status.NodeInfo.BootID
	if boot == "" || boot == x.Lock.Status.Release.BootID {
		return nil
	}
	return x.note(rebooted, func(s *v1alpha1.VolumeLockStatus) { s.Release.BootID = boot })
}

// heardOfSince reports whether the boot that a receipt is about has a later status than the receipt knows, or is ready.
func heardOfSince(l *v1alpha1.VolumeLock, n *corev1.Node, s *v1alpha1.FenceReceiptSpec) bool {
	if !holds(l, n) || n.Status.NodeInfo.BootID != s.Node.BootID {
		return false
	}
	beat := guard.ConfirmOff(n, nil) // with no renewal of a lease, which is not read here
	return ready(n) || s.LastSign != "" && !strings.HasPrefix(s.LastSign, beat)
}

// Confirmation is what the annotation podgrace.dev/confirm-release of a lock must say to release it: it is of this release, and of no other. Empty, which is no confirmation: none goes on.
func Confirmation(l *v1alpha1.VolumeLock) string {
	r := l.Status.Release
	if r == nil {
		return "none" // which no release has
	}
	return fmt.Sprintf("%s/%s/%s", l.UID, r.Attachment, r.Since.UTC().Format(metav1.RFC3339Micro))
}

// conflict: nothing else is released while the driver can't be gated.
func (x *releasing) conflict() *Decision {
	if x.Conflict == "" {
		return nil
	}
	return x.said(conflicting, "%s", x.Conflict)
}

// known: only the very Node that took it can tell.
func (x *releasing) known() *Decision {
	switch {
	case x.Node == nil:
		return x.said(gone, "")
	case !holds(x.Lock, x.Node):
		return x.said(otherNode, "")
	}
	if beat := heartbeat(x.Node); beat.IsZero() {
		return x.quiet()
	}
	return nil
}

// quiet is about a node that does not answer. While it is not known which boot a receipt has to be about none counts (deleted, proof).
func (x *releasing) quiet() *Decision {
	if Unsettled(x.Lock) {
		return x.said(silentUngated, "")
	}
	return x.said(silent, "")
}

// adopted: a kubelet that mounted without the gate has no say by that boot: the one that is heard of twice since (settle), or answers the first question since (answer), for that one runs
// then, and each later one began with the gate there. One that is seen later than the gate may have begun before. That it lists the volume because another pod came does not change that: what it had mounted before it still
// takes for a volume that needs not be attached (actual_state_of_world.go).
func (x *releasing) adopted() *Decision {
	boot := x.Node.Status.NodeInfo.BootID
	if !Unsettled(x.Lock) && boot == x.Lock.Status.UngatedBootID {
		return x.said(ungated, "")
	}
	return nil
}

// forced: what was in use when it was detached a kubelet forgets to list once it is restarted, so that it has no say by that boot, whatever happened since: a later attachment of the volume
// does not correct that (actual_state_of_world.go).
func (x *releasing) forced() *Decision {
	if boot := x.Lock.Status.DistrustedBootID; boot == "" || x.Node.Status.NodeInfo.BootID != boot {
		return nil
	}
	if !ready(x.Node) {
		return x.quiet()
	}
	return x.said(byForce, "")
}

func (x *releasing) listed() bool {
	return holds(x.Lock, x.Node) && uses(x.Node, InUseName(x.Lock.Spec.Driver, x.Lock.Spec.VolumeHandle))
}

// ask puts the volume into the node's list, and notes the heartbeat that it has while it stands there.
func (x *releasing) ask() *Decision {
	switch {
	case x.Lock.Status.Release.Asked != nil:
		return nil
	case !x.listed():
		return &Decision{Reason: asked, Write: Ask{Volumes: []corev1.UniqueVolumeName{InUseName(x.Lock.Spec.Driver, x.Lock.Spec.VolumeHandle)}}}
	}
	beat := heartbeat(x.Node)
	return x.note(asked, func(s *v1alpha1.VolumeLockStatus) { s.Release.Asked = &beat })
}

// beside are the volumes of other locks about which the kubelet would be asked now as well: a hundred questions that are put one by one are in each other's way. A lock that has become another
// since is no harm: what is put into the list is what says that the volume is used, and only what a lock notes later, by a Node that was read then, counts as a question.
func (x *releasing) beside() (volumes []corev1.UniqueVolumeName) {
	for i := range x.Beside {
		l := &x.Beside[i]
		if l.Name == x.Lock.Name || l.Status.Release == nil {
			continue
		}
		f := *x.ReleaseFacts
		f.Lock, f.Attachment = l, nil
		if ask, ok := (&releasing{&f}).decide().Write.(Ask); ok {
			volumes = append(volumes, ask.Volumes...)
		}
	}
	slices.Sort(volumes)
	return slices.Compact(volumes)
}

// answer takes the volume's absence from the list, with a later heartbeat, for an answer. With one that is not later it is none: the kubelet is asked from the beginning.
func (x *releasing) answer() *Decision {
	r := x.Lock.Status.Release
	beat := heartbeat(x.Node)
	switch {
	case x.listed() && !ready(x.Node):
		return x.quiet()
	case x.listed():
		return x.said(mounted, "node %s still lists it as in use (status.volumesInUse)", x.Node.Name)
	case !r.Asked.Before(&beat):
		return x.note(asked, func(s *v1alpha1.VolumeLockStatus) { s.Release.Asked, s.Release.Answers = nil, 0 })
	case r.Answers+1 >= answersNeeded && Unsettled(x.Lock):
		return x.note(ungated, func(s *v1alpha1.VolumeLockStatus) { x.know(s, x.Node.Status.NodeInfo.BootID) })
	case r.Answers+1 >= answersNeeded:
		return free(ByKubelet, "the kubelet of node %s has unmounted it", x.Node.Name)
	}
	return x.note(asked, func(s *v1alpha1.VolumeLockStatus) { s.Release.Asked, s.Release.Answers = nil, r.Answers+1 })
}

func free(by Evidence, format string, args ...any) *Decision {
	return &Decision{Reason: proved, Message: message(fmt.Sprintf(format, args...)), Write: Free{Evidence: by}}
}

// note stores a change of the status; what it waited for is over.
func (x *releasing) note(reason policy.Reason, change func(*v1alpha1.VolumeLockStatus)) *Decision {
	s := x.Lock.Status.DeepCopy()
	s.Message = ""
	change(s)
	return &Decision{Reason: reason, Write: Note{Status: *s}}
}

// said waits, and stores what for where that has changed.
func (x *releasing) said(reason policy.Reason, format string, args ...any) *Decision {
	d := wait(reason, format, args...)
	if d.Message != x.Lock.Status.Message {
		s := x.Lock.Status.DeepCopy()
		s.Message = d.Message
		d.Write = Note{Status: *s}
	}
	return d
}
