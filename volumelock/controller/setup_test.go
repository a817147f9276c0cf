package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/volumelock"
)

// TestNodeEvents: of the volumes that a node has attached none is looked at because its kubelet has reported, and all are when their Node is another one, or not as ready as it was.
func TestNodeEvents(t *testing.T) {
	t.Parallel()
	const volumes = 100
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid-a"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "boot-a"},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(began)}}}}
	objects := []client.Object{node}
	for i := range volumes {
		name := fmt.Sprintf("volume-%d", i)
		node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: volumelock.InUseName(driver, name)})
		objects = append(objects,
			&v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.VolumeLockSpec{Driver: driver, VolumeHandle: name, ReadySince: new(metav1.NewTime(began)),
				Node: v1alpha1.BootReference{Name: "a", UID: "uid-a", BootID: "boot-a"}, Attachment: v1alpha1.AttachmentReference{Name: "csi-" + name, UID: types.UID(name)}}},
			&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-" + name, UID: types.UID(name), Finalizers: []string{v1alpha1.FinalizerVolumeLock},
				Annotations: map[string]string{v1alpha1.AnnotationVolumeLock: name}}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "a"}, Status: storagev1.VolumeAttachmentStatus{Attached: true}})
	}
	waits := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-waits", UID: "waits"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "a"}}
	kube := fakeAPI(append(objects, waits))
	x := &Attacher{Client: kube, Live: kube, Cache: kube, Drivers: []string{driver}}
	first := &v1alpha1.VolumeLock{}
	if err := kube.Get(context.Background(), client.ObjectKey{Name: "volume-0"}, first); err != nil {
		t.Fatal(err)
	}
	write := func(l *v1alpha1.VolumeLock) {
		if err := kube.Status().Update(context.Background(), l); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what               string
		change             func()
		attachments, locks int
	}{
		{"a heartbeat", func() { node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(began.Add(time.Hour)) }, 1, 0},
		{"its volumes in use", func() { node.Status.VolumesInUse = []corev1.UniqueVolumeName{"x"} }, 1, 0},
		{"a heartbeat, and of one is not known which boot had it before", func() {
			node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(began.Add(2 * time.Hour))
			first.Status.UngatedBootID = v1alpha1.BootUnknown
			write(first)
		}, 1, 1},
		{"a heartbeat, and it is known", func() {
			node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(began.Add(3 * time.Hour))
			first.Status.UngatedBootID = "boot-a"
			write(first)
		}, 1, 0},
		{"not ready", func() { node.Status.Conditions[0].Status = corev1.ConditionUnknown }, 1, 0},
		{"ready again", func() {
			node.Status.Conditions[0].Status, node.Status.Conditions[0].LastTransitionTime = corev1.ConditionTrue, metav1.NewTime(began.Add(time.Hour))
		}, volumes + 1, 0},
		{"another boot", func() { node.Status.NodeInfo.BootID = "boot-b" }, volumes + 1, 0},
		{"deleted", nil, volumes + 1, volumes},
	} {
		ctx := context.Background()
		if c.change == nil {
			if err := kube.Delete(ctx, node); err != nil {
				t.Fatal(err)
			}
		} else {
			c.change()
			if err := kube.Status().Update(ctx, node); err != nil {
				t.Fatal(err)
			}
		}
		attachments, locks := len(x.attachmentsOn(ctx, node)), len(x.heldBy(ctx, node))
		t.Logf("%s: of %d attached and 1 that waits %d attachments are looked at, of as many locks %d", c.what, volumes, attachments, locks)
		if attachments != c.attachments || locks != c.locks {
			t.Errorf("%s: want %d and %d", c.what, c.attachments, c.locks)
		}
	}
}
