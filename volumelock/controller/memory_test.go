package controller

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/volumelock"
)

// BenchmarkKept is how much memory the informers have for each volume that is held: go test ./volumelock/controller -run - -bench Kept -benchtime 1x.
func BenchmarkKept(b *testing.B) {
	const volumes, nodes = 20000, 216
	for b.Loop() {
		var stores []cache.Indexer
		all := uint64(0)
		driverUID := uuid.NewUUID()
		var hosts [nodes]v1alpha1.BootReference
		for i := range hosts {
			hosts[i] = v1alpha1.BootReference{Name: fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/8, i%8), UID: uuid.NewUUID(), BootID: string(uuid.NewUUID())}
		}
		pvs, uids := make([]*corev1.PersistentVolume, volumes), make([]types.UID, volumes)
		for i := range pvs {
			pvs[i], uids[i] = provisioned(), uuid.NewUUID()
		}
		for _, of := range []struct {
			kind client.Object
			make func(i int) client.Object
		}{
			{&corev1.PersistentVolume{}, func(i int) client.Object { return pvs[i] }},
			{&storagev1.VolumeAttachment{}, func(i int) client.Object { return attachedTo(pvs[i], hosts[i%nodes].Name, uids[i]) }},
			{&v1alpha1.VolumeLock{}, func(i int) client.Object { return heldBy(pvs[i], hosts[i%nodes], uids[i], driverUID) }},
		} {
			before := heap()
			indexed := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers(of.kind))
			for i := range volumes {
				if err := indexed.Add(kept(b, decoded(b, of.make(i)))); err != nil {
					b.Fatal(err)
				}
			}
			after := heap()
			b.ReportMetric(float64(after-before)/volumes, "B/"+reflect.TypeOf(of.kind).Elem().Name())
			all += after - before
			stores = append(stores, indexed)
		}
		b.ReportMetric(float64(all)/volumes, "B/volume")
		runtime.KeepAlive(stores)
		runtime.KeepAlive(pvs)
	}
}

// heap is how much of it is in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// indexers find objects of a kind as the manager's informers do (sigs.k8s.io/controller-runtime pkg/cache/internal/informers.go, and indexByField of pkg/cache/informer_cache.go, v0.24.1).
func indexers(of client.Object) cache.Indexers {
	by := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	for _, i := range indexes {
		if reflect.TypeOf(i.of) == reflect.TypeOf(of) {
			by["field:"+i.field] = func(o any) ([]string, error) {
				values := i.value(o.(client.Object))
				keys := make([]string, len(values))
				for at, v := range values {
					keys[at] = "__all_namespaces/" + v
				}
				return keys, nil
			}
		}
	}
	return by
}

// decoded is an object as an API server has sent it: it has nothing in common with any other.
func decoded[T client.Object](b testing.TB, o T) T {
	b.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		b.Fatal(err)
	}
	into := reflect.New(reflect.TypeOf(o).Elem()).Interface().(T)
	if err := json.Unmarshal(data, into); err != nil {
		b.Fatal(err)
	}
	return into
}

// provisioned is a PersistentVolume as csi-driver-nfs and external-provisioner make it.
func provisioned() *corev1.PersistentVolume {
	claim := string(uuid.NewUUID())
	name := "pvc-" + claim
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uuid.NewUUID(), ResourceVersion: "12345678"}, Spec: corev1.PersistentVolumeSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "filer.example.org#srv/volumes#" + name + "##", VolumeAttributes: map[string]string{
			"server": "filer.example.org", "share": "/srv/volumes", "subdir": name, "csi.storage.k8s.io/pv/name": name, "csi.storage.k8s.io/pvc/name": "data-" + claim[:8], "csi.storage.k8s.io/pvc/namespace": "default",
			"storage.kubernetes.io/csiProvisionerIdentity": "1763000000000-1234-nfs.csi.k8s.io"}}}}}
}

func attachedTo(pv *corev1.PersistentVolume, node string, uid types.UID) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: volumelock.AttachmentName(driver, pv.Spec.CSI.VolumeHandle, node), UID: uid, ResourceVersion: "12345678", CreationTimestamp: metav1.NewTime(began),
		Finalizers: []string{v1alpha1.FinalizerVolumeLock}, Annotations: map[string]string{v1alpha1.AnnotationVolumeLock: volumelock.LockFor(&storagev1.VolumeAttachment{}, pv)}},
		Spec:   storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name}},
		Status: storagev1.VolumeAttachmentStatus{Attached: true}}
}

func heldBy(pv *corev1.PersistentVolume, node v1alpha1.BootReference, attachment, driverUID types.UID) *v1alpha1.VolumeLock {
	v, _ := volumelock.VolumeOf(pv)
	return &v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: v.LockName(), UID: uuid.NewUUID(), ResourceVersion: "12345678"}, Spec: v1alpha1.VolumeLockSpec{Driver: driver, Volume: v.Key, Identity: v.Identity,
		PersistentVolume: pv.Name, VolumeHandle: pv.Spec.CSI.VolumeHandle, Node: node, Attachment: v1alpha1.AttachmentReference{Name: volumelock.AttachmentName(driver, pv.Spec.CSI.VolumeHandle, node.Name), UID: attachment},
		ReadySince: new(metav1.NewTime(began.Add(-time.Hour))), DriverUID: driverUID}}
}
