package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/volumelock"
)

// Attacher is the attacher of some CSI drivers.
type Attacher struct {
	// Client writes. Live reads from the API server itself, Cache from informers.
	Client client.Client
	Live   client.Reader
	Cache  client.Reader
	// Drivers whose volumes are gated.
	Drivers  []string
	Recorder events.EventRecorder
	Metrics  *Metrics
	Clock    clock.PassiveClock

	lock sync.Mutex
	told map[string]told // by VolumeAttachment, while they are not attached
}

// told is what was said of the VolumeAttachment of a name. Another replica, or this one once it has started again, does not know, and says it again.
type told struct {
	of        types.UID
	refusal   volumelock.Refusal
	withdrawn time.Time // when it was said that it is not attached though it was; zero: it was not
}

// saidOf is what was said of an attachment.
func (x *Attacher) saidOf(a *storagev1.VolumeAttachment) told {
	x.lock.Lock()
	defer x.lock.Unlock()
	if t := x.told[a.Name]; t.of == a.UID {
		return t
	}
	return told{of: a.UID}
}

// said remembers what was said of an attachment.
func (x *Attacher) said(a *storagev1.VolumeAttachment, say volumelock.Say) {
	t, now := x.saidOf(a), x.Clock.Now()
	if a.Status.Attached {
		t.withdrawn = now
	}
	if say.Error != "" { // else that is taken back, which tells nobody anything
		t.refusal = volumelock.Refusal{Message: say.Error, At: now}
	}
	x.lock.Lock()
	defer x.lock.Unlock()
	if say.Attached {
		delete(x.told, a.Name)
		return
	}
	if x.told == nil {
		x.told = map[string]told{}
	}
	x.told[a.Name] = t
}

// forget what was said of an attachment that is gone.
func (x *Attacher) forget(attachment string) {
	x.lock.Lock()
	defer x.lock.Unlock()
	delete(x.told, attachment)
}

// steps is how many writes one reconciliation makes at most before it gives way to others: attaching takes three, releasing six.
const steps = 8

// ReconcileAttachment decides about one VolumeAttachment until nothing is to be written.
func (x *Attacher) ReconcileAttachment(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return x.reconcile(ctx, func(known *subject) (volumelock.Decision, *subject, error) {
		return x.decideAttachment(ctx, req.Name, known)
	})
}

// ReconcileLock decides about one VolumeLock until nothing is to be written.
func (x *Attacher) ReconcileLock(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return x.reconcile(ctx, func(*subject) (volumelock.Decision, *subject, error) { return x.decideLock(ctx, req.Name) })
}

// subject is what a decision is about, as it was read, or as the answer to a write returned it.
type subject struct {
	driver     *storagev1.CSIDriver
	name       string               // of the lock; empty: there can't be one
	lock       *v1alpha1.VolumeLock // nil: there is none
	attachment *storagev1.VolumeAttachment
	node       *corev1.Node
	volume     *corev1.PersistentVolume // of an attachment; nil: there is none
}

func (x *Attacher) reconcile(ctx context.Context, decide func(known *subject) (volumelock.Decision, *subject, error)) (ctrl.Result, error) {
	var known *subject
	for range steps {
		d, about, err := decide(known)
		known = nil
		if err != nil {
			return ctrl.Result{}, err
		}
		if about == nil {
			return ctrl.Result{}, nil
		}
		x.tell(ctx, d, about)
		if d.Write == nil {
			return ctrl.Result{RequeueAfter: d.After}, nil
		}
		switch err := x.write(ctx, d.Write, about); {
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err): // somebody was faster: what is so now is read again
			x.Metrics.conflict()
		case err != nil:
			return ctrl.Result{}, fmt.Errorf("%s: %w", d.Write, err)
		default:
			x.wrote(d, about)
			known = answered(d.Write, about)
			if say, ok := d.Write.(volumelock.Say); ok && say.Attached {
				return ctrl.Result{}, nil // it is looked at again if the informer has it in another way (news)
			}
		}
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// answered returns what is known after a write on the way to attach. The next write is decided by it, without another read (claim 4 of package volumelock). Nil: all is read again.
func answered(w volumelock.Write, about *subject) *subject {
	if about.attachment == nil || about.attachment.Status.Attached {
		return nil
	}
	switch w.(type) {
	case volumelock.Take, volumelock.Note, volumelock.Finalize:
		return about
	}
	return nil
}

// decideAttachment decides by what is known. Nil: it is read.
func (x *Attacher) decideAttachment(ctx context.Context, name string, known *subject) (d volumelock.Decision, about *subject, err error) {
	if about = known; about == nil {
		if about, err = x.look(ctx, name); err != nil || about == nil {
			return d, nil, err
		}
	}
	d, err = x.attach(ctx, about)
	return d, about, err
}

// attach decides about the attachment of a subject.
func (x *Attacher) attach(ctx context.Context, about *subject) (d volumelock.Decision, err error) {
	a := about.attachment
	if now := volumelock.LockFor(a, about.volume); now != about.name {
		return d, apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("volumelocks").GroupResource(), about.name, fmt.Errorf("VolumeAttachment %s is for VolumeLock %q now", a.Name, now))
	}
	same, err := x.sameHandle(ctx, about.volume)
	if err != nil {
		return d, err
	}
	said := x.saidOf(a)
	return volumelock.Attach(volumelock.AttachFacts{
		Lock: about.lock, Attachment: a, Volume: about.volume, SameHandle: same, Node: about.node, Conflict: volumelock.Conflict(a.Spec.Attacher, about.driver, a), DriverUID: uid(about.driver),
		NotAdopted: volumelock.NotAdopted(about.driver, a), Withdrawn: said.withdrawn, Told: said.refusal, Now: x.Clock.Now(),
	}), nil
}

// look reads what an attachment is decided by, in the order of claim 3 of package volumelock. It returns nil if the attachment is gone, or of another driver. Informers only tell that, and the name of the lock.
func (x *Attacher) look(ctx context.Context, name string) (*subject, error) {
	hint, err := read(ctx, x.Cache, name, &storagev1.VolumeAttachment{})
	if err != nil || hint == nil || !slices.Contains(x.Drivers, hint.Spec.Attacher) {
		if err == nil && hint == nil {
			x.forget(name)
		}
		return nil, err
	}
	about := &subject{}
	if about.name, err = x.lockFor(ctx, hint); err != nil {
		return nil, err
	}
	if about.driver, err = x.driver(ctx, hint.Spec.Attacher); err != nil {
		return nil, err
	}
	if about.lock, err = read(ctx, x.Live, about.name, &v1alpha1.VolumeLock{}); err != nil {
		return nil, err
	}
	if about.attachment, err = read(ctx, x.Live, name, &storagev1.VolumeAttachment{}); err != nil || about.attachment == nil {
		return nil, err
	}
	if about.volume, err = x.volume(ctx, about.attachment); err != nil {
		return nil, err
	}
	about.node, err = x.node(ctx, about.attachment.Spec.NodeName)
	return about, err
}

// lockFor is the name of an attachment's lock, by the informer's PersistentVolume, or the API server's where that has none yet.
func (x *Attacher) lockFor(ctx context.Context, a *storagev1.VolumeAttachment) (string, error) {
	if name := volumelock.LockFor(a, nil); name != "" {
		return name, nil
	}
	for _, from := range []client.Reader{x.Cache, x.Live} {
		if volume, err := read(ctx, from, volumeOf(a), &corev1.PersistentVolume{}); err != nil || volume != nil {
			return volumelock.LockFor(a, volume), err
		}
	}
	return "", nil
}

// driver is the CSIDriver of a name; nil: there is none.
func (x *Attacher) driver(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	driver, err := read(ctx, x.Live, name, &storagev1.CSIDriver{})
	if err == nil {
		x.Metrics.gate(name, volumelock.Conflict(name, driver, nil) == "")
	}
	return driver, err
}

// node is the Node of a name; nil: there is none.
func (x *Attacher) node(ctx context.Context, name string) (*corev1.Node, error) {
	return read(ctx, x.Live, name, &corev1.Node{})
}

func uid(driver *storagev1.CSIDriver) types.UID {
	if driver == nil {
		return ""
	}
	return driver.UID
}

func (x *Attacher) decideLock(ctx context.Context, name string) (d volumelock.Decision, about *subject, err error) {
	hint, err := read(ctx, x.Cache, name, &v1alpha1.VolumeLock{})
	if err != nil || hint == nil || !slices.Contains(x.Drivers, hint.Spec.Driver) {
		return d, nil, err
	}
	driver, err := x.driver(ctx, hint.Spec.Driver)
	if err != nil {
		return d, nil, err
	}
	about = &subject{}
	if about.lock, err = read(ctx, x.Live, name, &v1alpha1.VolumeLock{}); err != nil || about.lock == nil {
		return d, nil, err
	}
	if is := about.lock.Spec.Driver; is != hint.Spec.Driver { // another of the name
		return d, nil, apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("volumelocks").GroupResource(), name, fmt.Errorf("it is of driver %s now", is))
	}
	if about.attachment, err = read(ctx, x.Live, volumelock.Holder(about.lock).Name, &storagev1.VolumeAttachment{}); err != nil {
		return d, nil, err
	}
	if about.node, err = x.node(ctx, about.lock.Spec.Node.Name); err != nil {
		return d, nil, err
	}
	facts := volumelock.ReleaseFacts{
		Lock: about.lock, Attachment: about.attachment, Node: about.node, Conflict: volumelock.Conflict(hint.Spec.Driver, driver, about.attachment), DriverUID: uid(driver), Now: x.Clock.Now(),
	}
	if about.lock.Status.Release != nil { // nobody else looks at these
		facts.Beside = slices.DeleteFunc(x.locks(ctx, byNode, about.lock.Spec.Node.Name), func(l v1alpha1.VolumeLock) bool { return l.Spec.Driver != about.lock.Spec.Driver })
		if facts.Receipts, err = x.receipts(ctx, about.lock.Spec.Node.UID); err != nil {
			return d, nil, err
		}
	}
	return volumelock.Release(facts), about, nil
}

// receipts are all FenceReceipts, read live if the informer has one of the node that stands. That it is late is no harm: without a receipt nothing is released, and once it has another one the
// node's locks are looked at (heldByFenced).
func (x *Attacher) receipts(ctx context.Context, node types.UID) ([]v1alpha1.FenceReceipt, error) {
	var known, all v1alpha1.FenceReceiptList
	if err := x.Cache.List(ctx, &known, client.MatchingFields{byNode: string(node)}); err != nil {
		return nil, fmt.Errorf("list FenceReceipts of node %s: %w", node, err)
	}
	if len(fencing.Standing(known.Items)) == 0 {
		return nil, nil
	}
	if err := x.Live.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("list FenceReceipts: %w", err)
	}
	return all.Items, nil
}

// volumeOf is the name of an attachment's PersistentVolume; empty: it names none.
func volumeOf(a *storagev1.VolumeAttachment) string {
	if a.Spec.Source.PersistentVolumeName == nil {
		return ""
	}
	return *a.Spec.Source.PersistentVolumeName
}

// volume is the PersistentVolume of an attachment; nil: there is none.
func (x *Attacher) volume(ctx context.Context, a *storagev1.VolumeAttachment) (*corev1.PersistentVolume, error) {
	return read(ctx, x.Live, volumeOf(a), &corev1.PersistentVolume{})
}

// read returns nil where there is no such object, or the name is empty.
func read[T client.Object](ctx context.Context, from client.Reader, name string, into T) (T, error) {
	var none T
	if name == "" {
		return none, nil
	}
	switch err := from.Get(ctx, client.ObjectKey{Name: name}, into); {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("read %T %s: %w", into, name, err)
	}
	return into, nil
}

// tell says what must not be.
func (x *Attacher) tell(ctx context.Context, d volumelock.Decision, about *subject) {
	if !d.Alarm {
		log.FromContext(ctx).V(1).Info("decided", "reason", d.Reason.Code, "message", d.Message)
		return
	}
	x.Metrics.alarm(d.Reason.Code)
	log.FromContext(ctx).Info("ALARM", "reason", d.Reason.Code, "message", d.Message)
	x.event(about, corev1.EventTypeWarning, d.Reason.Code, d.Message)
}

// wrote counts and tells what was stored.
func (x *Attacher) wrote(d volumelock.Decision, about *subject) {
	switch w := d.Write.(type) {
	case volumelock.Say:
		x.said(about.attachment, w)
	case volumelock.Detach:
		x.event(about, corev1.EventTypeNormal, "VolumeDetached", d.Message+": it was deleted")
	case volumelock.Free:
		x.Metrics.free(w.Evidence)
		x.event(about, corev1.EventTypeNormal, "VolumeReleased", d.Message)
	}
}

// event is on the VolumeLock, or on the VolumeAttachment where there is none.
func (x *Attacher) event(about *subject, kind, reason, text string) {
	if x.Recorder == nil {
		return
	}
	text = console.Note(text)
	switch {
	case about.lock != nil && about.node != nil:
		x.Recorder.Eventf(about.lock, about.node, kind, reason, "VolumeLock", "%s", text)
	case about.lock != nil:
		x.Recorder.Eventf(about.lock, nil, kind, reason, "VolumeLock", "%s", text)
	default:
		x.Recorder.Eventf(about.attachment, nil, kind, reason, "VolumeLock", "%s", text)
	}
}
