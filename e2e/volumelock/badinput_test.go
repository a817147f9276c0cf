package volumelock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/measure"
	"github.com/podgrace/podgrace/e2e/suite"
)

// alarms waits until one of a reason was raised.
func (l *lab) alarms(t *testing.T, reason string) {
	t.Helper()
	suite.Eventually(t, "the alarm "+reason, func(ctx context.Context) (bool, error) {
		text, err := measure.Metrics(ctx, l.replica.MetricsURL+"/metrics")
		if err != nil {
			return false, err
		}
		n, err := measure.Sum(text, fmt.Sprintf("podgrace_volumelock_alarms_total{reason=%q", reason))
		return n > 0, err
	})
}

// Nobody edits a lock by hand. One who may delete it, and does while its pod runs, finds it made again for its node.
func TestEditedByHand(t *testing.T) {
	t.Parallel()
	l := newLab(t, "edited", "edited.example.org")
	l.start(t)
	pv := l.disk(t, "db", "1")
	first := l.pod(t, "db-1", "db", l.a)
	l.runs(t, first, pv, l.a)
	second := l.pod(t, "db-2", "db", l.b)
	l.inUse(t, l.b, pv)
	lock := l.heldBy(t, pv, l.a)

	editor, _ := l.Warned(t, "editor", "editors")
	l.Grant(t, rbacv1.GroupKind, "editors", "", rbacv1.PolicyRule{APIGroups: []string{"podgrace.dev"}, Resources: []string{"volumelocks", "volumelocks/status"}, Verbs: []string{"create", "update", "patch", "delete"}})
	for _, e := range []struct {
		what, refusal string
		do            func(*v1alpha1.VolumeLock) error
	}{
		{"the administrator moves it to node b", "who holds a volume does not change", func(k *v1alpha1.VolumeLock) error {
			k.Spec.Node.Name = l.b
			return l.Client.Update(t.Context(), k)
		}},
		{"the administrator writes its status", "only the volume lock writes the status", func(k *v1alpha1.VolumeLock) error {
			k.Status.Release = &v1alpha1.VolumeRelease{Attachment: k.Spec.Attachment.UID, Since: metav1.NowMicro(), Answers: 1}
			return l.Client.Status().Update(t.Context(), k)
		}},
		{"the administrator makes one", "only the volume lock takes a volume", func(k *v1alpha1.VolumeLock) error {
			k.ObjectMeta = metav1.ObjectMeta{Name: "volume-of-mine"}
			return l.Client.Create(t.Context(), k)
		}},
		{"one without the verb force-delete confirms", "you need the verb force-delete", func(k *v1alpha1.VolumeLock) error {
			k.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: "mine"}
			return editor.Update(t.Context(), k)
		}},
		{"one without the verb force-delete deletes it", "deleting its VolumeLock gives it to another node", func(k *v1alpha1.VolumeLock) error {
			return editor.Delete(t.Context(), k)
		}},
	} {
		suite.Eventually(t, "the refusal where "+e.what, func(context.Context) (bool, error) { // in conflict with the volume lock, which writes its status
			err := e.do(l.heldBy(t, pv, l.a))
			if err == nil {
				t.Fatalf("%s, and may", e.what)
			}
			if !strings.Contains(err.Error(), e.refusal) {
				return false, err
			}
			return true, nil
		})
	}
	l.waits(t, second, pv, l.a)

	l.delete(t, lock)
	l.locked(t, pv, " to be taken again", func(now *v1alpha1.VolumeLock) bool { return now.UID != lock.UID && now.Spec.Node.Name == l.a })
	l.alarms(t, "Retaken")
	l.waits(t, second, pv, l.a)
	l.delete(t, first)
	l.runs(t, second, pv, l.b)
}

// The volumes of a driver that attaches by itself are left to its own attacher, though the volume lock was told to look after them.
func TestDriverThatAttaches(t *testing.T) {
	const attaches = "attaches.example.org"
	t.Parallel()
	l := newLab(t, "attaches", "gated.example.org")
	l.adopted(t, attaches)
	foreign := l.newVolume("foreign", "1")
	foreign.Spec.CSI.Driver = attaches
	l.Create(t, foreign)
	l.claim(t, "foreign", foreign)
	pod := l.pod(t, "foreign", "foreign", l.a)
	a := l.asked(t, foreign, l.a)
	a.Finalizers = []string{"external-attacher/attaches-example-org"}
	if err := l.Client.Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}

	l.start(t, attaches)
	pv := l.disk(t, "db", "2")
	l.runs(t, l.pod(t, "db", "db", l.a), pv, l.a) // so it has looked at what was there before
	a = l.asked(t, foreign, l.a)
	if lock, err := l.lockOf(t.Context(), foreign); lock != nil || err != nil || len(a.Finalizers) != 1 || len(a.Annotations) > 0 || a.Status.Attached || a.Status.AttachError != nil {
		t.Errorf("it is touched: %+v, %+v, %v", a, lock, err)
	}
	a.Status.Attached = true
	if err := l.Client.Status().Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	l.runs(t, pod, foreign, l.a)
	l.delete(t, pod)
	suite.Eventually(t, "it to be detached", func(ctx context.Context) (bool, error) {
		now, err := l.attachment(ctx, foreign, l.a)
		return now != nil && now.DeletionTimestamp != nil && slices.Equal(now.Finalizers, a.Finalizers), err
	})
	if err := l.Client.Patch(t.Context(), a, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	if lock, err := l.lockOf(t.Context(), foreign); lock != nil || err != nil {
		t.Errorf("it is locked: %+v, %v", lock, err)
	}
}

// Of a PersistentVolume that was recreated for another unit while it was attached, the old unit stays its node's. The attach/detach controller does not know that another PersistentVolume leads there.
func TestVolumeMadeAnew(t *testing.T) {
	t.Parallel()
	l := newLab(t, "volume", iscsi)
	l.start(t)
	pv := l.disk(t, "db", "1")
	first := l.pod(t, "db-1", "db", l.a)
	l.runs(t, first, pv, l.a)
	old := l.asked(t, pv, l.a)

	l.delete(t, pv.DeepCopy())
	suite.Eventually(t, "PersistentVolume "+pv.Name+" to be gone", func(ctx context.Context) (bool, error) { // by who takes the finalizer away that keeps it while it is used
		err := l.Client.Patch(ctx, pv.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	other := l.newVolume("db", "2")
	other.Spec.CSI.VolumeHandle += "-2"
	l.Create(t, other)
	again := l.newVolume("again", "1") // the same unit by another handle
	l.Create(t, again)
	l.claim(t, "again", again)
	second := l.pod(t, "again", "again", l.b)
	a := l.asked(t, again, l.b)
	l.inUse(t, l.b, again)
	l.saysWhom(t, a)
	l.waits(t, second, again, l.a)
	if lock := l.heldBy(t, pv, l.a); lock.Status.Release != nil {
		t.Errorf("it is being released: %+v", lock.Status)
	}

	l.delete(t, first)
	l.gone(t, first)
	l.notYet(t, second, again, l.a)
	suite.Eventually(t, "node a to list it no more", func(ctx context.Context) (bool, error) {
		var node corev1.Node
		err := l.Client.Get(ctx, client.ObjectKey{Name: l.a}, &node)
		return len(node.Status.VolumesInUse) == 0, err
	})
	l.delete(t, old) // as the help says; the attach/detach controller finds it after some minutes
	l.runs(t, second, again, l.b)
}

// saysWhom waits until an attachment that waits says whom for.
func (l *lab) saysWhom(t *testing.T, a *storagev1.VolumeAttachment) {
	t.Helper()
	suite.Eventually(t, "VolumeAttachment "+a.Name+" to say whom it waits for", func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(a), a)
		return a.Status.AttachError != nil && strings.Contains(a.Status.AttachError.Message, "is held by node"), err
	})
	t.Log(a.Status.AttachError.Message)
}

// A Node that was deleted and recreated by another machine is not the one that holds the volume, and what that one has mounted nobody gets before its instance is terminated.
func TestNodeMadeAnew(t *testing.T) {
	t.Parallel()
	t.Run("seen to go", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "went", "went.example.org")
		l.madeAnew(t, func(goes, comes func()) {
			goes()
			l.alarms(t, "NoNode")
			comes()
		})
	})
	t.Run("while no volume lock runs", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "node", "node.example.org")
		l.madeAnew(t, func(goes, comes func()) {
			if err := l.replica.Stop(); err != nil {
				t.Fatal(err)
			}
			goes()
			comes()
			if err := l.startAnother(kubeconfig); err != nil {
				t.Fatal(err)
			}
			l.alarms(t, "NodeMadeAnew")
		})
	})
}

// madeAnew has the Node of a holder be deleted, and be recreated by another machine, by a function that gets what does the one and the other.
func (l *lab) madeAnew(t *testing.T, do func(goes, comes func())) {
	t.Helper()
	l.start(t)
	pv := l.disk(t, "db", "1")
	first := l.pod(t, "db-1", "db", l.a)
	l.runs(t, first, pv, l.a)
	l.kubelets[l.a].SetSilent(true)
	was := l.nodeNow(t, l.a)
	do(func() { l.delete(t, was.DeepCopy()); l.gone(t, was.DeepCopy()) }, func() { l.register(t, l.a) })
	suite.Eventually(t, "it not to be attached to the Node that was made anew", func(ctx context.Context) (bool, error) {
		a, err := l.attachment(ctx, pv, l.a)
		return a == nil || !a.Status.Attached, err
	})
	l.startKubelet(t, l.a, "another") // and the old pod is there, for it to run
	l.inUse(t, l.a, pv)
	l.writes(t, pv, l.a)

	l.delete(t, first, client.GracePeriodSeconds(0))
	second := l.pod(t, "db-2", "db", l.b)
	l.asked(t, pv, l.b)
	// The attach/detach controller deletes it, or has forgotten it once it is not attached any more: then a person does, as the VolumeLock says.
	if a, err := l.attachment(t.Context(), pv, l.a); err != nil {
		t.Fatal(err)
	} else if a != nil {
		if err := client.IgnoreNotFound(l.Client.Delete(t.Context(), a)); err != nil {
			t.Fatal(err)
		}
	}
	held := l.locked(t, pv, " to say what it waits for", func(k *v1alpha1.VolumeLock) bool {
		return k.Status.Release != nil && strings.Contains(k.Status.Message, "made anew")
	})
	t.Log(held.Status.Message)
	l.waits(t, second, pv, l.a)
	if held.Spec.Node.UID != was.UID {
		t.Errorf("it is held by %+v", held.Spec.Node)
	}
	l.witness.Off(l.a)
	l.receiptFor(t, was, v1alpha1.EvidenceInstanceTerminated)
	l.runs(t, second, pv, l.b)
	l.released(t, held, "FenceReceipt")
}
