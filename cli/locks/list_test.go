package locks

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/volumelock"
)

// Who holds what, why it is not released, and who waits for it.
func TestHeld(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	list := objects()
	kube := newKube(list...)
	c := &Client{Kube: kube, Namespace: "podgrace-system"}
	if held, err := c.Held(t.Context()); err != nil || held.Text(console.Style{}, now) == "" || len(held.Items) > 0 {
		t.Errorf("%+v, %v", held, err)
	}
	f, err := c.Facts(t.Context(), driver)
	if err != nil {
		t.Fatal(err)
	}
	v, err := volumelock.VolumeOf(&f.Volumes[0])
	if err != nil {
		t.Fatal(err)
	}
	lock := &v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: v.LockName(), UID: "lock", CreationTimestamp: metav1.NewTime(now.Add(-48 * time.Hour))},
		Spec: v1alpha1.VolumeLockSpec{Driver: driver, Volume: v.Key, Identity: v.Identity, PersistentVolume: "pv", Node: v1alpha1.BootReference{Name: "a", UID: "uid-a"}}}
	waits := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-b"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "b", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")}}}
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.VolumeLock)
		says   string
	}{
		{"in use", func(*v1alpha1.VolumeLock) {}, "Node a (UID uid-a), for 2d State in use Waiting b"},
		{"asked", func(l *v1alpha1.VolumeLock) {
			l.Status.Release = &v1alpha1.VolumeRelease{Since: metav1.NewMicroTime(now.Add(-5 * time.Second))}
		}, "its kubelet is asked whether it still uses it, since 5s"},
		{"not gated", func(l *v1alpha1.VolumeLock) {
			l.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConflict, Status: metav1.ConditionTrue, Message: "it was not adopted"}}
		}, "State in use, and its driver is not gated: it was not adopted"},
		{"not gated, and confirmed", func(l *v1alpha1.VolumeLock) {
			l.Status = v1alpha1.VolumeLockStatus{Release: &v1alpha1.VolumeRelease{Since: metav1.NewMicroTime(now.Add(-time.Hour))}, Message: "it was not adopted",
				Conditions: []metav1.Condition{{Type: v1alpha1.ConditionConflict, Status: metav1.ConditionTrue, Message: "it was not adopted"}}}
			l.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: volumelock.Confirmation(l)}
		}, "not released for 60m, since its driver is not gated: it was not adopted"},
		{"gated again", func(l *v1alpha1.VolumeLock) {
			l.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConflict, Status: metav1.ConditionFalse, Message: "the driver is gated"}}
		}, "State in use Waiting"},
		{"silent", func(l *v1alpha1.VolumeLock) {
			l.Status = v1alpha1.VolumeLockStatus{Release: &v1alpha1.VolumeRelease{Since: metav1.NewMicroTime(now.Add(-time.Hour))}, Message: "the node is not ready\x1b[31m"}
		}, "not released for 60m: the node is not ready"},
		{"confirmed", func(l *v1alpha1.VolumeLock) {
			l.Status.Release = &v1alpha1.VolumeRelease{Since: metav1.NewMicroTime(now)}
			l.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: volumelock.Confirmation(l)}
		}, "confirmed by a person"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := lock.DeepCopy()
			tc.change(l)
			c := &Client{Kube: newKube(append(objects(), l, waits.DeepCopy())...)}
			for _, name := range []string{"pv", "a", l.Name} {
				held, err := c.Held(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				if text := held.Text(console.Style{}, now); !strings.Contains(strings.Join(strings.Fields(text), " "), tc.says) || strings.Contains(text, "\x1b") {
					t.Errorf("by %s:\n%s", name, text)
				}
			}
			if _, err := c.Held(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), "nobody holds it") {
				t.Errorf("by a node that holds nothing: %v", err)
			}
		})
	}
}

// An adoption that was interrupted says nothing in the VolumeAttachments of the pods that wait: the list names it, since when, and the command that goes on.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	made := metav1.NewTime(now.Add(-3 * time.Hour))
	anew := objects()[0].(*storagev1.CSIDriver)
	anew.Spec.AttachRequired, anew.CreationTimestamp = new(true), made
	anew.Annotations = map[string]string{v1alpha1.AnnotationGated: volumelock.AdoptingMark(anew.UID)}
	adopted := anew.DeepCopy()
	adopted.Annotations[v1alpha1.AnnotationGated] = volumelock.AdoptedMark(adopted.UID)
	copied := func(attach bool) *corev1.ConfigMap {
		d := adopted.DeepCopy()
		d.Spec.AttachRequired = &attach
		kube := newKube()
		if err := keep(t.Context(), kube, "podgrace-system", d, made.Time); err != nil {
			t.Fatal(err)
		}
		m := &corev1.ConfigMap{}
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "podgrace-system", Name: copiesName}, m); err != nil {
			t.Fatal(err)
		}
		m.ResourceVersion = ""
		return m
	}
	for _, tc := range []struct {
		name    string
		objects []client.Object
		says    string // empty: nothing
	}{
		{"adopting", []client.Object{anew}, "Driver nfs.csi.k8s.io: it is being adopted, or that was interrupted, since 3h: nothing of it is attached. kubectl podgrace volumelock adopt nfs.csi.k8s.io goes on."},
		{"deleted", []client.Object{copied(true)}, "its CSIDriver is deleted, to be made anew, for up to 3h: nothing of it is mounted anew. kubectl podgrace volumelock adopt nfs.csi.k8s.io goes on."},
		{"leaving", []client.Object{copied(false)}, "kubectl podgrace volumelock leave nfs.csi.k8s.io goes on."},
		{"not deleted yet", []client.Object{objects()[0], copied(true)}, ""},
		{"adopted", []client.Object{adopted}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			held, err := (&Client{Kube: newKube(tc.objects...), Namespace: "podgrace-system"}).Held(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(strings.Fields(held.Text(console.Style{}, now)), " ")
			if !strings.Contains(text, tc.says) || len(held.Interrupted) > 0 != (tc.says != "") {
				t.Errorf("%+v\n%s", held.Interrupted, text)
			}
		})
	}
}

// A driver that the volume lock is told to gate, and can't, is named though nobody holds a volume of it.
func TestNotGated(t *testing.T) {
	t.Parallel()
	gates, attaches := objects()[1], objects()[0].(*storagev1.CSIDriver)
	attaches.Spec.AttachRequired = new(true)
	marked := func(mark string) *storagev1.CSIDriver {
		d := attaches.DeepCopy()
		d.Annotations = map[string]string{v1alpha1.AnnotationGated: mark}
		return d
	}
	const other = "there is no CSIDriver other"
	for name, tc := range map[string]struct {
		objects       []client.Object
		says, unknown string // empty: nothing, but of the driver "other", which is not there
	}{
		"not adopted":             {[]client.Object{gates, attaches}, "Driver nfs.csi.k8s.io is not gated: CSIDriver nfs.csi.k8s.io was not adopted", ""},
		"with a mark of another":  {[]client.Object{gates, marked(volumelock.AdoptingMark("before"))}, "Driver nfs.csi.k8s.io is not gated: CSIDriver nfs.csi.k8s.io has the annotation of another one", ""},
		"it does not attach":      {[]client.Object{gates, objects()[0]}, "Driver nfs.csi.k8s.io is not gated: CSIDriver nfs.csi.k8s.io says attachRequired: false", ""},
		"adopted":                 {[]client.Object{gates, marked(volumelock.AdoptedMark(attaches.UID))}, "", ""},
		"being adopted":           {[]client.Object{gates, marked(volumelock.AdoptingMark(attaches.UID))}, "", ""},
		"nobody knows what gates": {[]client.Object{attaches}, "", "whether one is to be gated and was not adopted is not known: there is no Deployment podgrace-volumelock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held, err := (&Client{Kube: newKube(tc.objects...), Namespace: "podgrace-system"}).Held(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(strings.Fields(held.Text(console.Style{}, time.Time{})), " ")
			want := 0
			if tc.unknown == "" {
				want++ // other
			}
			if tc.says != "" {
				want++
			}
			if len(held.NotGated) != want || !strings.Contains(text, tc.says) || !strings.Contains(text, tc.unknown) || strings.Contains(text, other) != (tc.unknown == "") {
				t.Errorf("%+v\n%s", held.NotGated, text)
			}
		})
	}
}

// TestInterruptedUnknown: what may not be read is not taken for what is not there.
func TestInterruptedUnknown(t *testing.T) {
	t.Parallel()
	for name, forbidden := range map[string]func(any) bool{
		"csidrivers":  func(o any) bool { _, is := o.(*storagev1.CSIDriverList); return is },
		"configmaps":  func(o any) bool { _, is := o.(*corev1.ConfigMap); return is },
		"deployments": func(o any) bool { _, is := o.(*appsv1.DeploymentList); return is },
	} {
		refuse := func(o any) error {
			if forbidden(o) {
				return apierrors.NewForbidden(schema.GroupResource{Resource: name}, "", nil)
			}
			return nil
		}
		kube := interceptor.NewClient(newKube(), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				return cmp.Or(refuse(o), c.Get(ctx, key, o, opts...))
			},
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				return cmp.Or(refuse(l), c.List(ctx, l, opts...))
			},
		})
		held, err := (&Client{Kube: kube, Namespace: "podgrace-system"}).Held(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(strings.Fields(held.Text(console.Style{}, time.Time{})), " "); strings.Contains(text, "whether one is being adopted or left is not known") == (name == "deployments") || !strings.Contains(text, "is not known") || !strings.Contains(text, name) {
			t.Errorf("without %s:\n%s", name, text)
		}
	}
}
