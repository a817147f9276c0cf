package volumelocktest

import (
	"math/rand/v2"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/volumelock"
)

// Attacher is one replica in the midst of a decision.
type Attacher struct {
	stage   int
	about   string // the VolumeAttachment; empty: the VolumeLock
	driver  *storagev1.CSIDriver
	attach  volumelock.AttachFacts
	release volumelock.ReleaseFacts
}

// Jump has the clock of the attachers' machines be years before or after the truth, by something else each time that it is read, and sometimes right.
func Jump(seed uint64) func(*World) {
	const years = int64(10 * 365 * 24 * time.Hour)
	return func(w *World) {
		r := rand.New(rand.NewPCG(seed, 3))
		w.Jumps = func() time.Duration { return time.Duration(r.Int64N(2*years)-years) * time.Duration(r.IntN(3)) / 2 }
	}
}

// Whole has one attacher read, decide and write with nothing between.
func (w *World) Whole(x *Attacher, about string) {
	if hand := w.Hand; hand != nil {
		w.Hand, w.deciding = nil, true // who comes between is another one
		hand(about)
		w.Hand, w.deciding = hand, false
		return
	}
	*x = Attacher{}
	for range 4 {
		w.Advance(x, about)
		if x.stage == 0 {
			return
		}
	}
}

// Advance takes one attacher one read further, or has it decide and write.
func (w *World) Advance(x *Attacher, about string) {
	x.stage++
	switch x.stage {
	case 1:
		x.about, x.driver = about, w.driver
		x.attach.Lock, x.release.Lock = w.lock, w.lock
		if about == "" && w.lock == nil {
			x.stage = 0
		}
	case 2:
		if x.about != "" {
			x.attach.Attachment = w.attachments[x.about]
			if x.attach.Attachment == nil {
				x.stage = 0
			}
			return
		}
		x.release.Attachment = w.attachments[volumelock.Holder(x.release.Lock).Name]
	case 3:
		if x.about != "" {
			x.attach.Node = w.nodes[x.attach.Attachment.Spec.NodeName]
			x.attach.Volume = volumeNamed(*x.attach.Attachment.Spec.Source.PersistentVolumeName)
		} else {
			x.release.Node, x.release.Receipts = w.nodes[x.release.Lock.Spec.Node.Name], w.receipts
		}
	case 4:
		x.stage = 0
		x.attach.Now = w.Clock()
		x.release.Now = x.attach.Now
		x.attach.Conflict, x.attach.DriverUID = volumelock.Conflict(Driver, x.driver, x.attach.Attachment), driverUID(x.driver)
		x.release.Conflict, x.release.DriverUID = volumelock.Conflict(Driver, x.driver, x.release.Attachment), driverUID(x.driver)
		attach, release := x.attach, x.release
		if w.Mutant != nil {
			w.Mutant(&attach, &release)
		}
		if x.about != "" {
			w.carryOut(volumelock.Attach(attach), &x.attach, nil)
		} else {
			w.carryOut(volumelock.Release(release), nil, &x.release)
		}
	}
}

// carryOut does as the API server would.
func (w *World) carryOut(d volumelock.Decision, a *volumelock.AttachFacts, r *volumelock.ReleaseFacts) {
	if d.Write != nil {
		about := "the lock"
		if a != nil {
			about = a.Attachment.Name
		}
		w.log("attacher, about %s: %s: %s", about, d.Reason.Code, d.Write)
	}
	var l *v1alpha1.VolumeLock
	if a != nil {
		l = a.Lock
	} else {
		l = r.Lock
	}
	stale := func(kind, read, is string) bool {
		if read != is {
			w.Seen.conflicts++
		}
		return read != is && !w.Unguarded[kind]
	}
	switch x := d.Write.(type) {
	case nil:
		return
	case volumelock.Take:
		if w.lock != nil && !w.Unguarded["take"] {
			w.Seen.conflicts++
			return
		}
		w.Seen.taken++
		w.lock = x.Lock.DeepCopy()
		w.lock.UID, w.lock.ResourceVersion, w.lock.CreationTimestamp = w.uid("lock-"), w.next(), metav1.NewTime(w.Now())
	case volumelock.Note:
		if w.lock == nil || w.lock.UID != l.UID || stale("lock", l.ResourceVersion, w.lock.ResourceVersion) {
			return
		}
		if d.Reason.Code == "Again" {
			w.Seen.again++
		}
		w.store(x.Status)
	case volumelock.Free:
		if w.lock == nil || !w.Unguarded["lock"] && w.lock.UID != l.UID || stale("lock", l.ResourceVersion, w.lock.ResourceVersion) {
			return
		}
		switch x.Evidence {
		case volumelock.ByKubelet:
			w.Seen.handed++
		case volumelock.ByReceipt:
			w.Seen.byReceipt++
		case volumelock.ByStorage:
			w.Seen.byStorage++
		case volumelock.ByPerson:
			w.Seen.byPerson++
		}
		w.lock = nil
	case volumelock.Ask:
		n := w.nodes[r.Lock.Spec.Node.Name]
		if n == nil || stale("node", r.Node.ResourceVersion, n.ResourceVersion) {
			return
		}
		if r.Lock.Status.Release.Answers > 0 {
			w.Seen.askedTwice++
		}
		c := n.DeepCopy()
		c.ResourceVersion, c.Status.VolumesInUse = w.next(), append(slices.Clone(n.Status.VolumesInUse), x.Volumes...)
		w.nodes[n.Name] = c
	case volumelock.Detach:
		v := w.attachments[r.Attachment.Name]
		if v == nil || v.UID != r.Attachment.UID || stale("attachment", r.Attachment.ResourceVersion, v.ResourceVersion) {
			return
		}
		w.Seen.forgotten++
		w.remove(v)
	default:
		w.changeAttachment(d, a, stale)
	}
}

// store writes the lock's status.
func (w *World) store(s v1alpha1.VolumeLockStatus) {
	c := w.lock.DeepCopy()
	c.Status, c.ResourceVersion = s, w.next()
	if w.lock.Status.Release == nil && s.Release != nil {
		w.noted()
	}
	w.lock = c
}

func (w *World) changeAttachment(d volumelock.Decision, a *volumelock.AttachFacts, stale func(kind, read, is string) bool) {
	old := w.attachments[a.Attachment.Name]
	if old == nil || stale("attachment", a.Attachment.ResourceVersion, old.ResourceVersion) {
		return
	}
	c := old.DeepCopy()
	c.ResourceVersion = w.next()
	switch x := d.Write.(type) {
	case volumelock.Finalize:
		c.Finalizers, c.Annotations = append(slices.Clone(c.Finalizers), v1alpha1.FinalizerVolumeLock), map[string]string{v1alpha1.AnnotationVolumeLock: x.Lock}
	case volumelock.Unfinalize:
		c.Finalizers = slices.DeleteFunc(slices.Clone(c.Finalizers), func(f string) bool { return f == v1alpha1.FinalizerVolumeLock })
	case volumelock.Say:
		if x.Attached {
			w.Seen.attached++
			delete(w.forgotten, c.UID)
		} else if c.Status.Attached {
			w.Seen.withdrawn++
			w.forgotten[c.UID] = true
		}
		c.Status.Attached, c.Status.AttachError = x.Attached, nil
		if x.Error != "" {
			c.Status.AttachError = &storagev1.VolumeError{Time: metav1.NewTime(w.Now()), Message: x.Error}
		}
	}
	w.attachments[c.Name] = c
	if c.DeletionTimestamp != nil && len(c.Finalizers) == 0 {
		delete(w.attachments, c.Name)
	}
}
