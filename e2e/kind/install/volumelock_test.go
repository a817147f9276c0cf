package install

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/kind"
	"github.com/podgrace/podgrace/e2e/suite"
)

// The volume lock as the chart installs it adopts a driver, and its volume is attached to the node whose kubelet wants it, and released by the kubelet's word when the pod is gone. The driver has no program:
// nothing is mounted.
func TestVolumeLock(t *testing.T) {
	const driver = "nfs.csi.k8s.io"
	w := get(t)
	w.install(t, helmWith("volumeLock.enabled=true", "volumeLock.drivers={"+driver+"}"), selfManaged, current)
	w.waitRolledOut(t, namespace, "deployment/podgrace-volumelock")

	w.create(t, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}})
	// This test has made the CSIDriver, as a chart would, and does not put it back.
	if said, err := w.podgrace(t, "volumelock", "adopt", driver, "--yes", "--settle=1s", "--despite=managed"); err != nil {
		t.Fatalf("adopting the driver: %v\n%s", err, said)
	}
	pod := w.podWithVolume(t, driver)
	var node corev1.Node
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: kind.Node}, &node); err != nil {
		t.Fatal(err)
	}
	suite.EventuallyWithin(t, 2*time.Minute, "the volume to be attached", func(ctx context.Context) (bool, error) {
		a, err := w.attachment(ctx, driver)
		return a != nil && a.Spec.NodeName == kind.Node && a.Status.Attached && slices.Contains(a.Finalizers, v1alpha1.FinalizerVolumeLock), err
	})
	var locks v1alpha1.VolumeLockList
	if err := w.client.List(t.Context(), &locks); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.BootReference{Name: node.Name, UID: node.UID, BootID: node.Status.NodeInfo.BootID}
	if len(locks.Items) != 1 || locks.Items[0].Spec.Node != want || locks.Items[0].Spec.Volume != "filer.example:/srv/db" {
		t.Errorf("the VolumeLocks are %+v, want one of %+v", locks.Items, want)
	}

	if err := w.client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	suite.EventuallyWithin(t, 3*time.Minute, "the volume to be released", func(ctx context.Context) (bool, error) {
		if err := w.client.List(ctx, &locks); err != nil {
			return false, err
		}
		for i := range locks.Items {
			return false, fmt.Errorf("%+v %+v", locks.Items[i].Spec, locks.Items[i].Status)
		}
		a, err := w.attachment(ctx, driver)
		return a == nil, err
	})
	w.lab.Logf("%s: adopted, attached and released", t.Name())
	w.uninstall(t, helm, selfManaged)
}

// create makes an object that is gone with the test.
func (w *world) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := w.client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(w.client.Delete(context.Background(), o)); err != nil {
			t.Error(err)
		}
	})
}

// podWithVolume makes a pod with a volume of a driver, in a namespace of its own.
func (w *world) podWithVolume(t *testing.T, driver string) *corev1.Pod {
	t.Helper()
	const name = "volume-lock"
	once, size := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	w.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	w.create(t, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: once, Capacity: size, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, ClaimRef: &corev1.ObjectReference{Namespace: name, Name: name},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: driver, VolumeHandle: name, VolumeAttributes: map[string]string{"server": "filer.example", "share": "/srv/db"},
		}},
	}})
	w.create(t, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: once, Resources: corev1.VolumeResourceRequirements{Requests: size}, VolumeName: name, StorageClassName: new(""),
	}})
	suite.Eventually(t, "the service account of namespace "+name, func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Image: cluster.PauseImage, ImagePullPolicy: corev1.PullNever, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
		Volumes:    []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}},
	}}
	w.create(t, pod)
	return pod
}

// attachment is the VolumeAttachment of a driver; nil: there is none.
func (w *world) attachment(ctx context.Context, driver string) (*storagev1.VolumeAttachment, error) {
	var all storagev1.VolumeAttachmentList
	if err := w.client.List(ctx, &all); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if all.Items[i].Spec.Attacher == driver {
			return &all.Items[i], nil
		}
	}
	return nil, nil
}
