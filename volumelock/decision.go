package volumelock

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/policy"
)

// Decision is what becomes of a VolumeAttachment, or of a VolumeLock: one write, or what is waited for.
type Decision struct {
	// Reason is the rule that decided.
	Reason policy.Reason
	// Message says in a line what is so and what to do; empty: nothing needs to be said.
	Message string
	// Write is what to do; nil: nothing now. After it is decided again.
	Write Write
	// Alarm: what must not be has happened, and somebody should look at once.
	Alarm bool
	// After is when to decide again though nothing happens; 0: no earlier than something does.
	After time.Duration
}

// Write is one write: one of the types below. Each is refused by the API server if what it changes is not as it was read.
type Write interface {
	fmt.Stringer
	write()
}

type (
	// Take creates the VolumeLock. That there is one of that name is a conflict.
	Take struct{ Lock v1alpha1.VolumeLock }
	// Note stores the VolumeLock's status, at the resourceVersion that was read.
	Note struct{ Status v1alpha1.VolumeLockStatus }
	// Free deletes the VolumeLock, at the UID and resourceVersion that were read. Evidence is what for, for metrics and Events.
	Free struct{ Evidence Evidence }
	// Finalize puts the finalizer, and the lock's name as an annotation, on the VolumeAttachment, at the resourceVersion that was read.
	Finalize struct{ Lock string }
	// Unfinalize takes the finalizer away.
	Unfinalize struct{}
	// Say stores the VolumeAttachment's status, at the resourceVersion that was read: whether it is attached, or why it is not; without an error what was said of that is taken back.
	Say struct {
		Attached bool
		Error    string
	}
	// Detach deletes the VolumeAttachment, at the UID and resourceVersion that were read.
	Detach struct{}
	// Ask adds volumes to status.volumesInUse of the Node, at the resourceVersion that was read.
	Ask struct{ Volumes []corev1.UniqueVolumeName }
)

func (Take) write()       {}
func (Note) write()       {}
func (Free) write()       {}
func (Finalize) write()   {}
func (Unfinalize) write() {}
func (Say) write()        {}
func (Detach) write()     {}
func (Ask) write()        {}

func (w Take) String() string     { return "take the volume for node " + w.Lock.Spec.Node.Name }
func (w Note) String() string     { return "note in the VolumeLock: " + w.Status.Message }
func (w Free) String() string     { return "release the volume by " + string(w.Evidence) }
func (w Finalize) String() string { return "put the finalizer on the VolumeAttachment" }
func (Unfinalize) String() string { return "take the finalizer from the VolumeAttachment" }
func (Detach) String() string     { return "delete the VolumeAttachment" }
func (w Ask) String() string      { return fmt.Sprintf("ask the kubelet whether it uses %s", w.Volumes) }

func (w Say) String() string {
	if !w.Attached && w.Error == "" {
		return "take back why it is not attached"
	}
	return fmt.Sprintf("say attached: %t %s", w.Attached, w.Error)
}

// Evidence is by what a volume was released.
type Evidence string

// What releases a volume.
const (
	ByKubelet Evidence = "Kubelet"
	ByReceipt Evidence = "Receipt"
	ByStorage Evidence = "StorageRevoked"
	ByPerson  Evidence = "Confirmed"
)

// Evidences are all of them.
func Evidences() []Evidence { return []Evidence{ByKubelet, ByReceipt, ByStorage, ByPerson} }

// Holder is the VolumeAttachment by which a lock is held.
func Holder(l *v1alpha1.VolumeLock) v1alpha1.AttachmentReference {
	if l.Status.Attachment != nil {
		return *l.Status.Attachment
	}
	return l.Spec.Attachment
}

// Whose says who holds a volume, and since when.
func Whose(l *v1alpha1.VolumeLock) string {
	return fmt.Sprintf("volume %s is held by node %s since %s (kubectl describe volumelock %s)",
		l.Spec.PersistentVolume, l.Spec.Node.Name, l.CreationTimestamp.UTC().Format(time.RFC3339), l.Name)
}

// genuine reports whether a lock is for what its name says. Who makes one by hand can write what he likes.
func genuine(l *v1alpha1.VolumeLock) bool { return volumeOfLock(l).LockName() == l.Name }

// heartbeat is when the kubelet worked out the status that the Node has, by its clock; zero: it has none. The node lifecycle controller does not change it.
func heartbeat(n *corev1.Node) metav1.Time {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.LastHeartbeatTime
		}
	}
	return metav1.Time{}
}

// ready reports whether the Node is.
func ready(n *corev1.Node) bool {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// readyPeriod is since when the Node's boot is ready; nil: it is not.
func readyPeriod(n *corev1.Node) *v1alpha1.ReadyPeriod {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return &v1alpha1.ReadyPeriod{BootID: n.Status.NodeInfo.BootID, Since: c.LastTransitionTime}
		}
	}
	return nil
}

// witness is since when the node was ready when the volume was last seen attached as it should be; nil: it never was.
func witness(l *v1alpha1.VolumeLock) *v1alpha1.ReadyPeriod {
	switch {
	case l.Status.Ready != nil:
		return l.Status.Ready
	case l.Spec.ReadySince != nil:
		return &v1alpha1.ReadyPeriod{BootID: l.Spec.Node.BootID, Since: *l.Spec.ReadySince}
	}
	return nil
}

func sameReady(a, b *v1alpha1.ReadyPeriod) bool {
	return a != nil && b != nil && a.BootID == b.BootID && a.Since.Equal(&b.Since)
}

// leavingTaints are those by which autoscalers keep pods from a node that they are going to delete: Karpenter 1 (pkg/apis/v1/taints.go) and 0.3x (pkg/apis/v1beta1/taints.go), and the cluster
// autoscaler (utils/taints/taints.go, ToBeDeletedTaint).
var leavingTaints = []string{"karpenter.sh/disrupted", "karpenter.sh/disruption", "ToBeDeletedByClusterAutoscaler"}

// emptied reports whether nobody is scheduled to a Node any more.
func emptied(n *corev1.Node) bool {
	return n.Spec.Unschedulable || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return slices.Contains(leavingTaints, t.Key) })
}

func outOfService(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// hasAttached reports whether the attach/detach controller counts a volume as attached to the Node: it takes it out first when it detaches it.
func hasAttached(n *corev1.Node, volume corev1.UniqueVolumeName) bool {
	return slices.ContainsFunc(n.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == volume })
}

// uses reports whether the Node lists a volume as in use.
func uses(n *corev1.Node, volume corev1.UniqueVolumeName) bool {
	return slices.Contains(n.Status.VolumesInUse, volume)
}

// holds reports whether a Node is the holder of a lock, and no other of the name.
func holds(l *v1alpha1.VolumeLock, n *corev1.Node) bool {
	return n != nil && n.Name == l.Spec.Node.Name && n.UID == l.Spec.Node.UID && n.UID != types.UID("")
}

// maxMessage is how long a VolumeError's message may be, in bytes (pkg/apis/storage/validation/validation.go, maxVolumeErrorMessageSize, v1.36.3). A VolumeLock's may be as many characters.
const maxMessage = 1024

// message makes a text fit for a status. Others wrote parts of it.
func message(text string) string { return console.Bounded(text, maxMessage) }

func wait(reason policy.Reason, format string, args ...any) *Decision {
	text := reason.Short
	if format != "" {
		text = fmt.Sprintf(format, args...)
	}
	if reason.Help != "" {
		text += ". " + reason.Help
	}
	return &Decision{Reason: reason, Message: message(text)}
}
