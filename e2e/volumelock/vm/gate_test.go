package vm

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// TestKubelet: a pod on the machine gets its volume by the volume lock, which names the very boot.
func TestKubelet(t *testing.T) {
	l := start(t)
	l.gate(t)
	l.claim(t, "one", "1")
	p := l.pod(t, "first", nodeName, "one")
	l.running(t, p)
	a, err := l.attachment(t.Context(), nodeName, "one")
	if err != nil || a == nil {
		t.Fatalf("its VolumeAttachment: %v, %v", a, err)
	}
	if !a.Status.Attached || !slices.Contains(a.Finalizers, v1alpha1.FinalizerVolumeLock) {
		t.Errorf("its VolumeAttachment: %+v", a)
	}
	var n corev1.Node
	if err := l.Client.Get(context.Background(), client.ObjectKey{Name: nodeName}, &n); err != nil {
		t.Fatal(err)
	}
	lock, err := l.lock(t.Context())
	if err != nil || lock == nil {
		t.Fatalf("the VolumeLock: %v, %v", lock, err)
	}
	want := v1alpha1.BootReference{Name: nodeName, UID: n.UID, BootID: n.Status.NodeInfo.BootID}
	if lock.Spec.Node != want || lock.Spec.Identity != v1alpha1.VolumeByExport || lock.Spec.Attachment != (v1alpha1.AttachmentReference{Name: a.Name, UID: a.UID}) {
		t.Errorf("the VolumeLock: %+v, want node %+v", lock.Spec, want)
	}
}
