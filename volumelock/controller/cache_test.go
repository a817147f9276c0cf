package controller

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/volumelock"
)

// options are those of all informers of the tests.
var options = CacheOptions()

// kept is what informers keep of an object.
func kept(t testing.TB, o runtime.Object) runtime.Object {
	t.Helper()
	for kind, by := range options.ByObject {
		if reflect.TypeOf(kind) == reflect.TypeOf(o) {
			trimmed, err := by.Transform(o)
			if err != nil {
				t.Fatal(err)
			}
			return trimmed.(runtime.Object)
		}
	}
	t.Fatalf("no informer has a %T", o)
	return nil
}

// informers read an API as the informers keep it: what they do not keep nobody gets from them.
func informers(t *testing.T, kube client.WithWatch) client.Reader {
	return interceptor.NewClient(kube, interceptor.Funcs{
		Get: func(ctx context.Context, from client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			if err := from.Get(ctx, key, into, options...); err != nil {
				return err
			}
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(kept(t, into.DeepCopyObject())).Elem())
			return nil
		},
		List: func(ctx context.Context, from client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			if err := from.List(ctx, into, options...); err != nil {
				return err
			}
			items, err := meta.ExtractList(into)
			if err != nil {
				return err
			}
			for i := range items {
				items[i] = kept(t, items[i])
			}
			return meta.SetList(into, items)
		},
	})
}

// TestKept: informers find trimmed objects as they find whole ones, and do not keep most of what a cluster's objects have.
func TestKept(t *testing.T) {
	t.Parallel()
	fields := &metav1.FieldsV1{}
	fields.SetRawString(strconv.Quote(strings.Repeat("x", 1000)))
	managed := metav1.ObjectMeta{Name: "x", UID: "uid", ResourceVersion: "1", Annotations: map[string]string{"others": strings.Repeat("x", 500), v1alpha1.AnnotationVolumeLock: "volume-1"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: fields}}}
	node := &corev1.Node{ObjectMeta: managed, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}, VolumesInUse: []corev1.UniqueVolumeName{"x"}}}
	for range 50 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{"registry.example.org/image@sha256:0000000000000000000000000000000000000000000000000000000000000000"}})
	}
	for _, o := range []client.Object{
		node,
		&corev1.PersistentVolume{ObjectMeta: managed, Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Name: "claim"}, PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: driver, VolumeHandle: "handle", VolumeAttributes: map[string]string{"server": "filer", "share": "/srv"}}}}},
		&corev1.PersistentVolume{ObjectMeta: managed, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}},
		&storagev1.VolumeAttachment{ObjectMeta: managed, Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "a", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")}}},
		&v1alpha1.VolumeLock{ObjectMeta: managed, Spec: v1alpha1.VolumeLockSpec{Driver: driver, Node: v1alpha1.BootReference{Name: "a"}}},
		&v1alpha1.FenceReceipt{ObjectMeta: managed, Spec: v1alpha1.FenceReceiptSpec{Node: &v1alpha1.BootReference{Name: "a", UID: "uid-a"}}},
		&storagev1.CSIDriver{ObjectMeta: managed},
	} {
		trimmed := kept(t, o).(client.Object)
		for _, i := range indexes {
			if reflect.TypeOf(i.of) == reflect.TypeOf(o) && !slices.Equal(i.value(o), i.value(trimmed)) {
				t.Errorf("%T is found by %s under %q, and whole under %q", o, i.field, i.value(trimmed), i.value(o))
			}
		}
		if trimmed.GetName() != "x" || trimmed.GetUID() != "uid" || trimmed.GetResourceVersion() != "1" {
			t.Errorf("%T is %+v", o, trimmed)
		}
		whole, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		small, err := json.Marshal(trimmed)
		if err != nil {
			t.Fatal(err)
		}
		if len(small) > len(whole)/2 {
			t.Errorf("of a %T %d of %d bytes are kept: %s", o, len(small), len(whole), small)
		}
	}
}

// TestKeptTogether: what many objects have in common they have in memory once, and nothing of it is changed.
func TestKeptTogether(t *testing.T) {
	t.Parallel()
	node := v1alpha1.BootReference{Name: "a", UID: "uid-a", BootID: "boot-a"}
	keep := func() (*corev1.PersistentVolume, *storagev1.VolumeAttachment, *v1alpha1.VolumeLock) {
		pv := provisioned()
		return kept(t, decoded(t, pv)).(*corev1.PersistentVolume), kept(t, decoded(t, attachedTo(pv, "a", "va"))).(*storagev1.VolumeAttachment), kept(t, decoded(t, heldBy(pv, node, "va", "driver-1"))).(*v1alpha1.VolumeLock)
	}
	pv, a, l := keep()
	pv2, a2, l2 := keep()
	for what, two := range map[string][2]string{
		"driver of PersistentVolumes": {pv.Spec.CSI.Driver, pv2.Spec.CSI.Driver}, "attacher": {pv.Spec.CSI.Driver, a.Spec.Attacher}, "driver of VolumeLocks": {l.Spec.Driver, pv2.Spec.CSI.Driver},
		"node of VolumeAttachments": {a.Spec.NodeName, a2.Spec.NodeName}, "node": {a.Spec.NodeName, l.Spec.Node.Name}, "UID of the node": {string(l.Spec.Node.UID), string(l2.Spec.Node.UID)}, "boot": {l.Spec.Node.BootID, l2.Spec.Node.BootID},
		"UID of the driver": {string(l.Spec.DriverUID), string(l2.Spec.DriverUID)}, "identity": {string(l.Spec.Identity), string(l2.Spec.Identity)}, "finalizer": {a.Finalizers[0], a2.Finalizers[0]},
	} {
		if two[0] == "" || two[0] != two[1] || unsafe.StringData(two[0]) != unsafe.StringData(two[1]) {
			t.Errorf("%s: %q and %q are two", what, two[0], two[1])
		}
	}
	if len(pv.Spec.CSI.VolumeAttributes) != 3 {
		t.Errorf("it keeps %v", pv.Spec.CSI.VolumeAttributes)
	}
}

// TestSettledByKept: what informers keep of a lock, its attachment and its node says as the whole objects whether the node's status is news.
func TestSettledByKept(t *testing.T) {
	t.Parallel()
	settled := 0
	for name, change := range map[string]func(l *v1alpha1.VolumeLock, a *storagev1.VolumeAttachment, n *corev1.Node){
		"as it should be": func(*v1alpha1.VolumeLock, *storagev1.VolumeAttachment, *corev1.Node) {},
		"ready since another time": func(_ *v1alpha1.VolumeLock, _ *storagev1.VolumeAttachment, n *corev1.Node) {
			n.Status.Conditions[1].LastTransitionTime = metav1.NewTime(began.Add(time.Hour))
		},
		"as noted since": func(l *v1alpha1.VolumeLock, _ *storagev1.VolumeAttachment, n *corev1.Node) {
			n.Status.Conditions[1].LastTransitionTime = metav1.NewTime(began.Add(time.Hour))
			l.Status.Ready = &v1alpha1.ReadyPeriod{BootID: "boot-a", Since: metav1.NewTime(began.Add(time.Hour))}
		},
		"not ready": func(_ *v1alpha1.VolumeLock, _ *storagev1.VolumeAttachment, n *corev1.Node) {
			n.Status.Conditions[1].Status = corev1.ConditionFalse
		},
		"another boot": func(_ *v1alpha1.VolumeLock, _ *storagev1.VolumeAttachment, n *corev1.Node) {
			n.Status.NodeInfo.BootID = "boot-b"
		},
		"another boot, detached": func(_ *v1alpha1.VolumeLock, _ *storagev1.VolumeAttachment, n *corev1.Node) {
			n.Status.NodeInfo.BootID, n.Status.VolumesAttached = "boot-b", nil
		},
		"another boot, out of service": func(_ *v1alpha1.VolumeLock, _ *storagev1.VolumeAttachment, n *corev1.Node) {
			n.Status.NodeInfo.BootID, n.Spec.Taints = "boot-b", append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService})
		},
		"another Node":       func(_ *v1alpha1.VolumeLock, _ *storagev1.VolumeAttachment, n *corev1.Node) { n.UID = "uid-b" },
		"not attached":       func(_ *v1alpha1.VolumeLock, a *storagev1.VolumeAttachment, _ *corev1.Node) { a.Status.Attached = false },
		"no finalizer":       func(_ *v1alpha1.VolumeLock, a *storagev1.VolumeAttachment, _ *corev1.Node) { a.Finalizers = nil },
		"no annotation":      func(_ *v1alpha1.VolumeLock, a *storagev1.VolumeAttachment, _ *corev1.Node) { a.Annotations = nil },
		"another attachment": func(_ *v1alpha1.VolumeLock, a *storagev1.VolumeAttachment, _ *corev1.Node) { a.UID = "va-2" },
		"held by another": func(l *v1alpha1.VolumeLock, _ *storagev1.VolumeAttachment, _ *corev1.Node) {
			l.Status.Attachment = &v1alpha1.AttachmentReference{Name: "va", UID: "va-2"}
		},
		"released": func(l *v1alpha1.VolumeLock, _ *storagev1.VolumeAttachment, _ *corev1.Node) {
			l.Status.Release = &v1alpha1.VolumeRelease{Attachment: "va-1"}
		},
	} {
		l := &v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: "lock"}, Spec: v1alpha1.VolumeLockSpec{Driver: driver, VolumeHandle: "handle", ReadySince: new(metav1.NewTime(began)),
			Node: v1alpha1.BootReference{Name: "a", UID: "uid-a", BootID: "boot-a"}, Attachment: v1alpha1.AttachmentReference{Name: "va", UID: "va-1"}}}
		a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va", UID: "va-1", Finalizers: []string{v1alpha1.FinalizerVolumeLock}, Annotations: map[string]string{v1alpha1.AnnotationVolumeLock: "lock"}},
			Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "a"}, Status: storagev1.VolumeAttachmentStatus{Attached: true}}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid-a"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "others"}}}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "boot-a"},
			VolumesAttached: []corev1.AttachedVolume{{Name: inUse}}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeDiskPressure}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(began)}}}}
		change(l, a, n)
		want := volumelock.Settled(l, a, n)
		if got := volumelock.Settled(kept(t, l).(*v1alpha1.VolumeLock), kept(t, a).(*storagev1.VolumeAttachment), kept(t, n).(*corev1.Node)); got != want {
			t.Errorf("%s: %t, and by the whole objects %t", name, got, want)
		}
		if want {
			settled++
		}
	}
	if settled < 2 {
		t.Errorf("only %d are settled", settled)
	}
}
