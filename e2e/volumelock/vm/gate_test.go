package vm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
)

// TestTwoWriters is what the volume lock is there for: of a driver that attaches nothing two nodes mount one ReadWriteOnce volume, and write to one file.
func TestTwoWriters(t *testing.T) {
	l := start(t)
	l.csiDriver(t, false)
	l.claim(t, "one", "1")
	first := l.pod(t, "first", guest, "one")
	l.running(t, first)
	l.writes(t, "first")

	second := l.pod(t, "second", other, "one")
	l.bound(t, second)
	if a, err := l.attachment(t.Context(), other, "one"); err != nil || a != nil {
		t.Errorf("there is something to wait for: %v, %v", a, err)
	}
	l.mount(t, "second")
	l.writes(t, "second")
	l.writes(t, "first")
}

// TestHandover: a pod of the machine has the volume by the volume lock. One on another node, by another PersistentVolume for the same export, waits until the kubelet has unmounted it; then
// one on the machine waits until the other node has.
func TestHandover(t *testing.T) {
	l := start(t)
	l.gate(t)
	l.claim(t, "one", "1")
	l.claim(t, "two", "2")
	first := l.pod(t, "first", guest, "one")
	l.running(t, first)
	l.writes(t, "first")
	l.holds(t, guest, "one")

	second := l.pod(t, "second", other, "two")
	l.bound(t, second)
	if err := l.report(t.Context(), "2"); err != nil {
		t.Fatal(err)
	}
	l.waits(t, other, "two", guest)
	l.writes(t, "first")

	l.began = time.Now()
	l.remove(t, first)
	l.attached(t, other, "two")
	l.step(t, "attached to the other node")
	if at := l.mounted(t); at != "" {
		t.Errorf("it is still mounted at\n%s", at)
	}
	l.mount(t, "second")
	l.writes(t, "second")
	l.holds(t, other, "two")

	third := l.pod(t, "third", guest, "one")
	suite.EventuallyWithin(t, soon, "the machine to want the volume", func(ctx context.Context) (bool, error) {
		a, err := l.attachment(ctx, guest, "one")
		return a != nil, err
	})
	l.writes(t, "second")
	if a, err := l.attachment(t.Context(), guest, "one"); err != nil || a == nil || a.Status.Attached {
		t.Errorf("it does not wait: %v, %v", a, err)
	}
	if at := l.mounted(t); at != elsewhere {
		t.Errorf("it is mounted at\n%s", at)
	}

	l.began = time.Now()
	l.unmount(t, "second")
	if err := errors.Join(l.Client.Delete(t.Context(), second, client.GracePeriodSeconds(0)), l.report(t.Context())); err != nil {
		t.Fatal(err)
	}
	suite.EventuallyWithin(t, soon, "the volume to be attached to the machine", func(ctx context.Context) (bool, error) {
		a, err := l.attachment(ctx, guest, "one")
		return a != nil && a.Status.Attached, errors.Join(err, l.report(ctx))
	})
	l.step(t, "attached to the machine")
	l.running(t, third)
	l.writes(t, "third")
	if got, want := slices.Compact(l.wrote(t)), []string{"first", "second", "third"}; !slices.Equal(got, want) {
		t.Errorf("in this order wrote %v, want %v", got, want)
	}
}

// bound returns once the scheduler has bound the pod.
func (l *lab) bound(t *testing.T, p *corev1.Pod) {
	t.Helper()
	suite.Eventually(t, "pod "+p.Name+" to be bound", func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
		return p.Spec.NodeName != "", err
	})
}

// remove deletes a pod of the machine, and returns when its kubelet has removed it.
func (l *lab) remove(t *testing.T, p *corev1.Pod) {
	t.Helper()
	if err := l.Client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	suite.EventuallyWithin(t, soon, "the end of pod "+p.Name, func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
		return err != nil, client.IgnoreNotFound(err)
	})
	l.step(t, "pod "+p.Name+" is gone")
}

// holds checks that a node, by the boot that it runs, has the volume, and returns its VolumeLock.
func (l *lab) holds(t *testing.T, node, volume string) *v1alpha1.VolumeLock {
	t.Helper()
	a, err := l.attachment(t.Context(), node, volume)
	if err != nil || a == nil {
		t.Fatalf("the VolumeAttachment: %v, %v", a, err)
	}
	if !a.Status.Attached || !slices.Contains(a.Finalizers, v1alpha1.FinalizerVolumeLock) {
		t.Errorf("the VolumeAttachment: %+v", a)
	}
	var n corev1.Node
	if err := l.Client.Get(t.Context(), client.ObjectKey{Name: node}, &n); err != nil {
		t.Fatal(err)
	}
	lock, err := l.lock(t.Context())
	if err != nil || lock == nil {
		t.Fatalf("the VolumeLock: %v, %v", lock, err)
	}
	boot := v1alpha1.BootReference{Name: node, UID: n.UID, BootID: n.Status.NodeInfo.BootID}
	if lock.Spec.Node != boot || lock.Spec.PersistentVolume != volume || lock.Spec.Identity != v1alpha1.VolumeByExport || lock.Spec.Attachment != (v1alpha1.AttachmentReference{Name: a.Name, UID: a.UID}) {
		t.Errorf("the VolumeLock: %+v, want it held by %+v", lock.Spec, boot)
	}
	return lock
}

// attached returns when a node may mount the volume.
func (l *lab) attached(t *testing.T, node, volume string) {
	t.Helper()
	suite.EventuallyWithin(t, soon, volume+" to be attached to "+node, func(ctx context.Context) (bool, error) {
		a, err := l.attachment(ctx, node, volume)
		return a != nil && a.Status.Attached, err
	})
}

// waits returns when a node is told that it waits for another one, and checks that it does.
func (l *lab) waits(t *testing.T, node, volume, holder string) {
	t.Helper()
	var a *storagev1.VolumeAttachment
	suite.EventuallyWithin(t, soon, node+" to be told whom it waits for", func(ctx context.Context) (_ bool, err error) {
		a, err = l.attachment(ctx, node, volume)
		return a != nil && a.Status.AttachError != nil, err
	})
	if text := a.Status.AttachError.Message; a.Status.Attached || !strings.Contains(text, "held by node "+holder) {
		t.Errorf("attached: %t, %s", a.Status.Attached, text)
	}
	l.step(t, node+" waits: "+a.Status.AttachError.Message)
}
