package confirm

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/volumelock"
)

// LockFacts are what is known of a VolumeLock whose volume is to be released.
type LockFacts struct {
	Now  time.Time
	Lock *v1alpha1.VolumeLock
	// Node of the name that it has; nil: there is none, or it can't be read, which NodeUnknown says.
	Node        *corev1.Node
	NodeUnknown string
	// Pods of that node which use the volume, or may; Waiting are those that can't yet, since the holder is an earlier Node of the name. PodsUnknown says why they could not be read.
	Pods, Waiting []string
	PodsUnknown   string

	Permission
}

// Releaser reads a VolumeLock and confirms its release, on the object and the release that were read.
type Releaser interface {
	// Lock reads the VolumeLock of the name, or that of the PersistentVolume of the name.
	Lock(ctx context.Context, name string) (LockFacts, error)
	May(ctx context.Context, rights []Right) (Permission, error)
	Release(ctx context.Context, l *v1alpha1.VolumeLock, text string) error
}

// lockRights are what it takes: the verb that the API server asks for when the annotation is written (deploy/components/volumelock/policies.yaml), and the annotation.
func lockRights(name string) []Right {
	return []Right{
		{Verb: guard.ConfirmVerb, Group: group, Resource: "volumelocks", Name: name},
		{Verb: "patch", Group: group, Resource: "volumelocks", Name: name},
	}
}

// JudgeLock reports whether a release can be confirmed: not before the VolumeAttachment is deleted, until when the node can mount again, and not beside a pod that uses the volume.
func JudgeLock(f LockFacts) Judgement {
	l := f.Lock
	switch {
	case l.Status.Release == nil:
		return Judgement{Refused, fmt.Sprintf("volume %s is attached to node %s (VolumeAttachment %s), which can mount it at any time. Delete the pods there that use it: it is released by itself, or can be confirmed once that is deleted.",
			l.Spec.PersistentVolume, l.Spec.Node.Name, volumelock.Holder(l).Name)}
	case len(f.Pods) > 0:
		return Judgement{Refused, fmt.Sprintf("%s of node %s: %s. Delete them, and wait until they are gone.", console.Plural(len(f.Pods), "pod uses it", "pods use it"), l.Spec.Node.Name, console.Some(f.Pods, 5, ", "))}
	case len(f.Missing) > 0:
		return Judgement{NotPermitted, fmt.Sprintf("%s may not confirm this, and lacks: %s.", f.User, f.missing())}
	case l.Annotations[v1alpha1.AnnotationConfirmRelease] == volumelock.Confirmation(l):
		return Judgement{Already, fmt.Sprintf("this release of volume %s is confirmed already.", l.Spec.PersistentVolume)}
	}
	return Judgement{Verdict: Ask}
}

// ReportLock writes who holds the volume and what its release waits for, the danger first.
func ReportLock(f LockFacts, style Style) string {
	l := f.Lock
	p := console.New(style, margin)
	if JudgeLock(f).Verdict.dangerous() {
		p.Marked(console.Red, "DANGER", fmt.Sprintf("If node %s still has the volume mounted, two nodes write to it once this is confirmed.", l.Spec.Node.Name),
			"Confirm only what you know: the machine has no power, or you have looked there and it is not mounted (findmnt, or /proc/mounts, and no process holds it open). That the node does not answer is not enough.")
		p.Gap()
	}
	p.Row("Volume", fmt.Sprintf("%s, driver %s: %s", l.Spec.PersistentVolume, l.Spec.Driver, console.Printable(l.Spec.Volume)))
	p.Row("Lock", l.Name+", UID "+string(l.UID))
	p.Row("Holder", fmt.Sprintf("node %s, boot %s, since %s", l.Spec.Node.Name, l.Spec.Node.BootID, since(l.CreationTimestamp.Time, f.Now)))
	p.Row("Node", f.node())
	if l.Spec.Adopted {
		p.Row("Adopted", "it was mounted before its driver was gated, so that the node's kubelet does not tell of it")
	}
	if r := l.Status.Release; r != nil {
		p.Row("Releasing", "since "+since(r.Since.Time, f.Now))
	}
	if l.Status.Message != "" {
		p.Row("Waits for", console.Printable(l.Status.Message))
	}
	pods := console.Some(f.Pods, 5, ", ")
	if f.PodsUnknown != "" {
		pods = "unknown: " + f.PodsUnknown
	}
	p.Row("Pods", orNone(pods))
	if len(f.Waiting) > 0 {
		p.Row("Waiting", console.Some(f.Waiting, 5, ", ")+", of the Node that has the name now")
	}
	p.Row("You", f.you())
	p.Gap()
	return p.String()
}

func (f LockFacts) node() string {
	switch n := f.Node; {
	case f.NodeUnknown != "":
		return "unknown: " + f.NodeUnknown
	case n == nil:
		return "there is none of that name any more"
	case n.UID != f.Lock.Spec.Node.UID:
		return "another one has its name now (UID " + string(n.UID) + ")"
	case n.Status.NodeInfo.BootID != f.Lock.Spec.Node.BootID:
		return "it was rebooted since (boot " + n.Status.NodeInfo.BootID + "), Ready " + readyCondition(n, f.Now)
	default:
		return "Ready " + readyCondition(n, f.Now)
	}
}

// Lock shows a VolumeLock, asks, and confirms its release. It reports whether it is confirmed.
func (s *Session) Lock(ctx context.Context, r Releaser, name string) (bool, error) {
	f, err := r.Lock(ctx, name)
	if err != nil {
		return false, err
	}
	if f.Permission, err = r.May(ctx, lockRights(f.Lock.Name)); err != nil {
		return false, err
	}
	j := JudgeLock(f)
	fmt.Fprint(s.Out, ReportLock(f, s.Style))
	if j.Verdict == Ask {
		if s.DryRun {
			return s.dryRun(v1alpha1.AnnotationConfirmRelease, volumelock.Confirmation(f.Lock))
		}
		agreed, err := s.Agreed(ctx, "the node's name to confirm that it does not use the volume", f.Lock.Spec.Node.Name)
		if !agreed || err != nil {
			return agreed, err
		}
		if err := r.Release(ctx, f.Lock, volumelock.Confirmation(f.Lock)); err != nil {
			return false, err
		}
	}
	fmt.Fprint(s.Out, endOfLock(f, j, s.Style))
	return j.Verdict == Ask || j.Verdict == Already, nil
}

// endOfLock writes how it ended.
func endOfLock(f LockFacts, j Judgement, style Style) string {
	p := console.New(style, margin)
	switch j.Verdict {
	case NotPermitted:
		p.Marked(console.Red, "REFUSED", j.Reason)
		f.granting(p)
	case Already:
		p.Marked(console.Green, "CONFIRMED", j.Reason, follows(f.Lock)+" kubectl podgrace volumelock list "+f.Lock.Name+" shows it.")
	case Ask, Unneeded:
		p.Marked(console.Green, "CONFIRMED", fmt.Sprintf("node %s does not use volume %s. %s It is of this release, and of no later one.", f.Lock.Spec.Node.Name, f.Lock.Spec.PersistentVolume, follows(f.Lock)))
	case Refused:
		p.Marked(console.Red, "REFUSED", j.Reason)
	}
	return p.String()
}

// follows says what becomes of a confirmed release: nothing, while the driver is not gated, but that an adoption goes by it.
func follows(l *v1alpha1.VolumeLock) string {
	if meta.IsStatusConditionTrue(l.Status.Conditions, v1alpha1.ConditionConflict) {
		return "Its driver is not gated, and nothing is released before it is: kubectl podgrace volumelock adopt " + l.Spec.Driver + " goes by it if pods of another node use the volume; else confirm it again after that."
	}
	return "The volume lock releases it now."
}
