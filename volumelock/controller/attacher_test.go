package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/volumelock"
)

const driver = "nfs.csi.k8s.io"

var (
	began = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	inUse = volumelock.InUseName(driver, "handle")
	quiet = log.IntoContext(context.Background(), logr.Discard())
)

// adopted is what the CSIDriver of a UID has that was adopted.
func adopted(uid types.UID) map[string]string {
	return map[string]string{v1alpha1.AnnotationGated: volumelock.AdoptedMark(uid)}
}

// cluster is an Attacher on a fake API, with two nodes and one volume.
type cluster struct {
	*Attacher
	t    *testing.T
	beat int
}

// fakeAPI has objects, and finds them as the informers do.
func fakeAPI(objects []client.Object) client.WithWatch {
	build := fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(objects...).WithStatusSubresource(&corev1.Node{}, &storagev1.VolumeAttachment{}, &v1alpha1.VolumeLock{})
	for _, i := range indexes {
		build = build.WithIndex(i.of, i.field, i.value)
	}
	return build.Build()
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	objects := []client.Object{
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver, UID: "driver-1", Annotations: adopted("driver-1")}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "handle", VolumeAttributes: map[string]string{"server": "filer", "share": "/srv"}}}}},
	}
	for _, name := range []string{"a", "b"} {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "boot-" + name},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(began)}}}})
	}
	kube := fakeAPI(objects)
	return &cluster{t: t, Attacher: &Attacher{Client: kube, Live: kube, Cache: informers(t, kube), Drivers: []string{driver}, Clock: testclock.NewFakePassiveClock(began)}}
}

// reports is a kubelet's status.
func (c *cluster) reports(name string, volumes ...corev1.UniqueVolumeName) {
	c.t.Helper()
	c.beat += 10
	var n corev1.Node
	c.must(c.Client.Get(context.Background(), client.ObjectKey{Name: name}, &n))
	n.Status.VolumesInUse, n.Status.Conditions[0].LastHeartbeatTime = volumes, metav1.NewTime(began.Add(time.Duration(c.beat)*time.Second))
	c.must(c.Client.Status().Update(context.Background(), &n))
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func nameOf(node string) string { return volumelock.AttachmentName(driver, "handle", node) }

// attach makes the VolumeAttachment of a node, as the attach/detach controller does.
func (c *cluster) attach(node string) {
	c.t.Helper()
	c.must(c.Client.Create(context.Background(), &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: nameOf(node), UID: types.UID("va-" + node), CreationTimestamp: metav1.NewTime(began.Add(-time.Minute))},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")}}}))
}

func (c *cluster) detach(node string) {
	c.t.Helper()
	c.must(c.Client.Delete(context.Background(), &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: nameOf(node)}}))
}

// settle has both reconcilers look at everything until nothing changes, as the watches would.
func (c *cluster) settle() {
	c.t.Helper()
	for range 6 {
		for _, name := range []string{nameOf("a"), nameOf("b")} {
			_, err := c.ReconcileAttachment(quiet, ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
			c.must(err)
		}
		if l := c.lock(); l != nil {
			_, err := c.ReconcileLock(quiet, ctrl.Request{NamespacedName: client.ObjectKey{Name: l.Name}})
			c.must(err)
		}
	}
}

func (c *cluster) lock() *v1alpha1.VolumeLock {
	c.t.Helper()
	var list v1alpha1.VolumeLockList
	c.must(c.Client.List(context.Background(), &list))
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

func (c *cluster) attachment(node string) *storagev1.VolumeAttachment {
	c.t.Helper()
	a, err := read(context.Background(), c.Live, nameOf(node), &storagev1.VolumeAttachment{})
	c.must(err)
	return a
}

func (c *cluster) inUse(node string) bool {
	c.t.Helper()
	n, err := read(context.Background(), c.Live, node, &corev1.Node{})
	c.must(err)
	return len(n.Status.VolumesInUse) > 0
}

// TestHandover is the way of a volume from one node to another.
func TestHandover(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.attach("a")
	c.settle()
	if c.lock() != nil || c.attachment("a").Status.Attached {
		t.Fatal("attached before the kubelet says that it uses the volume")
	}
	c.reports("a", inUse)
	c.settle()
	if l := c.lock(); l == nil || l.Spec.Node.Name != "a" || l.Spec.Node.BootID != "boot-a" {
		t.Fatalf("the lock is %+v", l)
	}
	if a := c.attachment("a"); !a.Status.Attached || len(a.Finalizers) != 1 {
		t.Fatalf("the attachment of its holder is %+v", a)
	}
	c.attach("b")
	c.reports("b", inUse)
	c.settle()
	if e := c.attachment("b").Status.AttachError; e == nil || !strings.Contains(e.Message, "volume pv is held by node a since") {
		t.Fatalf("the other node is told %+v", e)
	}

	c.reports("a")
	c.detach("a")
	c.settle()
	if c.attachment("a") != nil || c.lock() == nil || c.lock().Status.Release == nil {
		t.Fatal("the attachment stays, or its deletion is not noted")
	}
	for i := range 2 {
		if !c.inUse("a") || c.attachment("b").Status.Attached {
			t.Fatalf("question %d is not asked, or the volume is given away without an answer", i+1)
		}
		c.settle()
		c.reports("a")
		c.settle()
	}
	if l := c.lock(); l == nil || l.Spec.Node.Name != "b" {
		t.Fatalf("the lock is %+v", l)
	}
	if b := c.attachment("b"); !b.Status.Attached || b.Status.AttachError != nil {
		t.Fatalf("the other node's attachment is %+v", b.Status)
	}
}

// requests has an Attacher list its requests to the API server, by verb and kind.
func (c *cluster) requests() *[]string {
	kube, requests := c.Client.(client.WithWatch), &[]string{}
	count := func(verb string, o any) {
		*requests = append(*requests, verb+strings.TrimPrefix(fmt.Sprintf("%T", o), "*"))
	}
	counting := interceptor.NewClient(kube, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			count("get ", into)
			return kube.Get(ctx, key, into, options...)
		},
		Create: func(ctx context.Context, _ client.WithWatch, o client.Object, options ...client.CreateOption) error {
			count("create ", o)
			return kube.Create(ctx, o, options...)
		},
		Patch: func(ctx context.Context, _ client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			count("patch ", o)
			return kube.Patch(ctx, o, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, _ client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			count("patch "+sub+" of ", o)
			return kube.SubResource(sub).Patch(ctx, o, patch, options...)
		},
		SubResourceUpdate: func(ctx context.Context, _ client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
			count("update "+sub+" of ", o)
			return kube.SubResource(sub).Update(ctx, o, options...)
		},
	})
	c.Live, c.Client = counting, counting
	return requests
}

// TestSomebodyWasFaster: who writes something of no account to the VolumeAttachment just before it is said to be attached has it be attached all the same, since nobody else would look at it again.
func TestSomebodyWasFaster(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.attach("a")
	c.reports("a", inUse)
	kube, labelled := c.Client.(client.WithWatch), false
	c.Client = interceptor.NewClient(kube, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, _ client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
		if !labelled {
			a := c.attachment("a")
			a.Labels, labelled = map[string]string{"some": "label"}, true
			c.must(kube.Update(ctx, a))
		}
		return kube.SubResource(sub).Patch(ctx, o, patch, options...)
	}})
	_, err := c.ReconcileAttachment(quiet, ctrl.Request{NamespacedName: client.ObjectKey{Name: nameOf("a")}})
	c.must(err)
	if a := c.attachment("a"); !labelled || !a.Status.Attached {
		t.Errorf("it is %+v", a)
	}
}

// TestAnswerLost: a volume that is taken by a write whose answer was lost is attached, also if the informers know nothing of that when it is tried again, and the kubelet does not list the volume any more.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.attach("a")
	c.reports("a", inUse)
	before := fakeAPI([]client.Object{c.attachment("a")})
	kube := c.Client.(client.WithWatch)
	c.Cache = informers(t, before)
	c.Client = interceptor.NewClient(kube, interceptor.Funcs{Create: func(ctx context.Context, _ client.WithWatch, o client.Object, options ...client.CreateOption) error {
		return errors.Join(kube.Create(ctx, o, options...), errKilled)
	}})
	reconcile := func() error {
		_, err := c.ReconcileAttachment(quiet, ctrl.Request{NamespacedName: client.ObjectKey{Name: nameOf("a")}})
		return err
	}
	if err := reconcile(); err == nil || c.lock() == nil {
		t.Fatalf("it is said %v, of %+v", err, c.lock())
	}
	c.Client = kube
	c.reports("a")
	c.must(reconcile())
	if a := c.attachment("a"); !a.Status.Attached {
		t.Errorf("it is %+v", a)
	}
}

// TestRequests: attaching a volume takes five reads, one of each object in this order, and three writes. Each write is decided by these reads and the answers to the writes before it.
func TestRequests(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.attach("a")
	c.reports("a", inUse)
	requests := c.requests()
	_, err := c.ReconcileAttachment(quiet, ctrl.Request{NamespacedName: client.ObjectKey{Name: nameOf("a")}})
	c.must(err)
	want := []string{"get v1.CSIDriver", "get v1alpha1.VolumeLock", "get v1.VolumeAttachment", "get v1.PersistentVolume", "get v1.Node",
		"create v1alpha1.VolumeLock", "patch v1.VolumeAttachment", "patch status of v1.VolumeAttachment"}
	if !slices.Equal(*requests, want) || !c.attachment("a").Status.Attached {
		t.Errorf("the requests are %q, want %q", *requests, want)
	}
	if looked := c.lockOf(context.Background(), c.attachment("a")); len(looked) != 0 {
		t.Errorf("of an attachment that is attached %v are looked at", looked)
	}
	c.detach("a")
	if looked := c.lockOf(context.Background(), c.attachment("a")); len(looked) != 1 || looked[0].Name != c.lock().Name {
		t.Errorf("of an attachment that is deleted %v are looked at", looked)
	}
}

// TestLateInformer: where the informer does not know yet that a volume is held nobody else takes it, and what is attached as it should be raises no alarm.
func TestLateInformer(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.Metrics = NewMetrics(prometheus.NewRegistry())
	c.attach("a")
	c.reports("a", inUse)
	c.settle()
	c.attach("b")
	c.reports("b", inUse)
	a := c.attachment("a")
	a.Status.Attached = false // as the informer may still have it
	informer := c.Cache.(client.WithWatch)
	c.Cache = interceptor.NewClient(informer, interceptor.Funcs{Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
		switch o := into.(type) {
		case *v1alpha1.VolumeLock:
			return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("volumelocks").GroupResource(), key.Name)
		case *storagev1.VolumeAttachment:
			if key.Name == a.Name {
				a.DeepCopyInto(o)
				return nil
			}
		}
		return informer.Get(ctx, key, into, options...)
	}})
	c.Clock.(*testclock.FakePassiveClock).SetTime(began.Add(time.Hour))
	c.settle()
	if l := c.lock(); l.Spec.Node.Name != "a" || !c.attachment("a").Status.Attached || c.attachment("b").Status.Attached {
		t.Errorf("the lock is %+v", l)
	}
	if e := c.attachment("b").Status.AttachError; e != nil && !strings.Contains(e.Message, "is held by node a") {
		t.Errorf("the other node is told %q", e.Message)
	}
	for _, r := range volumelock.AlarmReasons() {
		if alarms := testutil.ToFloat64(c.Metrics.alarms.WithLabelValues(r.Code)); alarms != 0 {
			t.Errorf("%v alarms %s", alarms, r.Code)
		}
	}
	if b := c.attachment("b"); volumelock.Ours(b) || len(b.Finalizers) != 0 {
		t.Errorf("the attachment that waits is %+v", b)
	}
}

// TestToldOnce: why an attachment waits is said once, and does not stand in its status for long: as long as it does, the attach/detach controller only fails.
func TestToldOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.attach("a")
	c.reports("a", inUse)
	c.settle()
	c.attach("b")
	said, stands := 0, 0
	for second := range 300 {
		c.Clock.(*testclock.FakePassiveClock).SetTime(began.Add(time.Duration(second) * time.Second))
		before := c.attachment("b").Status.AttachError
		_, err := c.ReconcileAttachment(quiet, ctrl.Request{NamespacedName: client.ObjectKey{Name: nameOf("b")}})
		c.must(err)
		if after := c.attachment("b").Status.AttachError; after != nil {
			if stands++; before == nil {
				said++
			}
		}
	}
	if said != 1 || stands != 10 {
		t.Errorf("said %d times, and stands for %d s of 300", said, stands)
	}
	c.detach("b")
	c.settle()
	if len(c.told) > 0 {
		t.Errorf("of an attachment that is gone is remembered %v", c.told)
	}
}

// TestEmptiedNode: a node that an autoscaler empties has its VolumeAttachment until its kubelet has answered, and then at once no more.
func TestEmptiedNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.attach("a")
	c.reports("a", inUse)
	c.settle()
	var n corev1.Node
	c.must(c.Client.Get(context.Background(), client.ObjectKey{Name: "a"}, &n))
	n.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
	c.must(c.Client.Update(context.Background(), &n))
	c.reports("a")
	c.detach("a")
	for range 2 {
		c.settle()
		if c.attachment("a") == nil || c.lock() == nil {
			t.Fatal("it is let go before the kubelet has answered")
		}
		if all := c.waitingFor(context.Background(), c.lock()); len(all) == 0 || !slices.Contains(all, ctrl.Request{NamespacedName: client.ObjectKey{Name: nameOf("a")}}) {
			t.Fatalf("when the lock is gone %v are looked at", all)
		}
		c.reports("a")
	}
	c.settle()
	c.settle()
	if a, l := c.attachment("a"), c.lock(); a != nil || l != nil {
		t.Fatalf("once it has answered there are %+v, %+v", a, l)
	}
}

// TestForeignFinalizer: a deleted VolumeAttachment that somebody else's finalizer keeps loses ours once, is written no more, and keeps no other node from the volume.
func TestForeignFinalizer(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.attach("a")
	c.reports("a", inUse)
	c.settle()
	a := c.attachment("a")
	a.Finalizers = append(a.Finalizers, "example.com/keeps")
	c.must(c.Client.Update(context.Background(), a))
	c.reports("a")
	c.detach("a")
	for range 3 {
		c.settle()
		c.reports("a")
	}
	a = c.attachment("a")
	if a == nil || !slices.Equal(a.Finalizers, []string{"example.com/keeps"}) || c.lock() != nil {
		t.Fatalf("there are %+v, %+v", a, c.lock())
	}
	c.attach("b")
	c.reports("b", inUse)
	c.settle()
	if now := c.attachment("a"); now.ResourceVersion != a.ResourceVersion || !c.attachment("b").Status.Attached {
		t.Errorf("it is written again: %+v, or the other node waits: %+v", now, c.attachment("b").Status)
	}
}

// TestHolderSilent: neither time nor the deletion of its VolumeAttachment takes a volume from a node that does not answer; a receipt does.
func TestHolderSilent(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.attach("a")
	c.reports("a", inUse)
	c.settle()
	c.detach("a") // by force: it still lists the volume
	c.attach("b")
	c.reports("b", inUse)
	c.settle()
	if l := c.lock(); l == nil || l.Status.DistrustedBootID == "" || !strings.Contains(l.Status.Message, "detached by force") || c.attachment("b").Status.Attached {
		t.Fatalf("the lock is %+v", l)
	}
	receipt := &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: v1alpha1.FenceReceiptSpec{Class: v1alpha1.EvidencePoweredOff,
		Node: &v1alpha1.BootReference{Name: "a", UID: "uid-a", BootID: "boot-a"}}}
	c.must(c.Client.Create(context.Background(), receipt))
	c.settle()
	if l := c.lock(); l == nil || l.Spec.Node.Name != "a" {
		t.Fatalf("a receipt counts of a node that is ready: the lock is %+v", l)
	}
	var silent corev1.Node
	c.must(c.Client.Get(context.Background(), client.ObjectKey{Name: "a"}, &silent))
	silent.Status.Conditions[0].Status = corev1.ConditionUnknown
	c.must(c.Client.Status().Update(context.Background(), &silent))
	c.settle()
	if l := c.lock(); l == nil || l.Spec.Node.Name != "b" || !c.attachment("b").Status.Attached {
		t.Fatalf("the lock is %+v", l)
	}
}

// TestNodeGone: the VolumeAttachment of a Node that was deleted is withdrawn and deleted, since the attach/detach controller forgets it. That gives the volume to nobody before there is proof.
func TestNodeGone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.attach("a")
	c.reports("a", inUse)
	c.settle()
	c.must(c.Client.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}))
	c.attach("b")
	c.reports("b", inUse)
	c.settle()
	if a := c.attachment("a"); a != nil {
		t.Fatalf("nobody deletes the attachment: %+v", a)
	}
	if l := c.lock(); l == nil || l.Spec.Node.Name != "a" || !strings.HasPrefix(l.Status.Message, "the Node is gone, and whether its machine") || c.attachment("b").Status.Attached {
		t.Fatalf("the lock is %+v", l)
	}
	c.must(c.Client.Create(context.Background(), &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: v1alpha1.FenceReceiptSpec{Class: v1alpha1.EvidenceInstanceTerminated,
		Node: &v1alpha1.BootReference{Name: "a", UID: "uid-a", BootID: "boot-a"}}}))
	c.settle()
	if l := c.lock(); l == nil || l.Spec.Node.Name != "b" || !c.attachment("b").Status.Attached {
		t.Fatalf("the lock is %+v", l)
	}
}

// TestSameHandle: of two exports by one handle none is attached to a node, since it would mount the other one as well; until one of their PersistentVolumes is gone.
func TestSameHandle(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var twin corev1.PersistentVolume
	c.must(c.Client.Get(context.Background(), client.ObjectKey{Name: "pv"}, &twin))
	twin.Name, twin.ResourceVersion, twin.Spec.CSI.VolumeAttributes["share"] = "twin", "", "/other"
	c.must(c.Client.Create(context.Background(), &twin))
	c.attach("a")
	c.reports("a", inUse)
	c.settle()
	if a := c.attachment("a"); a.Status.Attached || a.Status.AttachError == nil || !strings.Contains(a.Status.AttachError.Message, "PersistentVolumes pv and twin have the same volumeHandle") {
		t.Fatalf("the attachment is %+v", a.Status)
	}
	c.must(c.Client.Delete(context.Background(), &twin))
	if all := c.attachmentsOf(context.Background(), &twin); len(all) != 1 || all[0].Name != nameOf("a") {
		t.Fatalf("when it is gone %v are looked at", all)
	}
	c.settle()
	if !c.attachment("a").Status.Attached {
		t.Fatal("it is not attached")
	}
}

// TestDriverUngated: what is held of a driver that is not gated any more says so and is not released, by no answer of a kubelet; gated again, it takes another boot.
func TestDriverUngated(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	registry := prometheus.NewRegistry()
	c.Metrics = NewMetrics(registry)
	c.attach("a")
	c.reports("a", inUse)
	c.settle()
	c.makeDriver("driver-2", false)
	c.attach("b")
	c.reports("b", inUse)
	c.reports("a")
	c.detach("a")
	handle := func() {
		t.Helper()
		for range 3 {
			c.settle()
			c.reports("a")
		}
	}
	handle()
	l := c.lock()
	if l == nil || l.Spec.Node.Name != "a" || !meta.IsStatusConditionTrue(l.Status.Conditions, v1alpha1.ConditionConflict) || !strings.Contains(l.Status.Message, "attachRequired: false") || c.attachment("b").Status.Attached {
		t.Fatalf("the lock is %+v", l)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP podgrace_volumelock_driver_conflict Whether a driver can't be gated (1): its CSIDriver says attachRequired: false, so that kubelets mount its volumes without asking, also those that are locked; or it was not adopted, so that none of them is attached or released. 0: it is gated.
# TYPE podgrace_volumelock_driver_conflict gauge
podgrace_volumelock_driver_conflict{driver="nfs.csi.k8s.io"} 1
`), "podgrace_volumelock_driver_conflict"); err != nil {
		t.Error(err)
	}
	if looked := c.locksBy(context.Background(), c.makeDriver("driver-3", true)); len(looked) != 1 || looked[0].Name != l.Name {
		t.Errorf("when the CSIDriver is another one %v are looked at", looked)
	}
	handle()
	if l := c.lock(); l == nil || l.Spec.Node.Name != "a" || l.Status.UngatedBootID != "boot-a" || meta.IsStatusConditionTrue(l.Status.Conditions, v1alpha1.ConditionConflict) || !strings.Contains(l.Status.Message, "was not gated") {
		t.Fatalf("the lock is %+v", l)
	}
	var n corev1.Node
	c.must(c.Client.Get(context.Background(), client.ObjectKey{Name: "a"}, &n))
	n.Status.NodeInfo.BootID = "boot-a-2"
	c.must(c.Client.Status().Update(context.Background(), &n))
	handle()
	c.settle()
	if l := c.lock(); l == nil || l.Spec.Node.Name != "b" || l.Spec.DriverUID != "driver-3" || !c.attachment("b").Status.Attached {
		t.Fatalf("the lock is %+v", l)
	}
}

// TestOlderDefinition: where the API server stores nothing of a status, since the CustomResourceDefinition lacks the field, that is an error, which is tried again later and later.
func TestOlderDefinition(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.attach("a")
	c.reports("a", inUse)
	c.settle()
	l := c.lock()
	l.Status.UngatedBootID = v1alpha1.BootUnknown
	c.must(c.Client.Status().Update(context.Background(), l))
	stored, tries := c.Client, 0
	c.Client = interceptor.NewClient(stored.(client.WithWatch), interceptor.Funcs{SubResourceUpdate: func(_ context.Context, _ client.Client, _ string, o client.Object, _ ...client.SubResourceUpdateOption) error {
		tries++
		o.(*v1alpha1.VolumeLock).Status.Heard = nil // of which nothing is left
		return nil
	}})
	_, err := c.ReconcileLock(quiet, ctrl.Request{NamespacedName: client.ObjectKey{Name: l.Name}})
	if err == nil || !strings.Contains(err.Error(), "CustomResourceDefinition volumelocks.podgrace.dev is older than this program") || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

// TestNotAdopted: nothing is attached of a driver that only says attachRequired, also if there is no CSIDriver at all; once it is adopted it is.
func TestNotAdopted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var d storagev1.CSIDriver
	c.must(c.Client.Get(context.Background(), client.ObjectKey{Name: driver}, &d))
	c.must(c.Client.Delete(context.Background(), &d))
	c.attach("a")
	c.reports("a", inUse)
	c.settle()
	d.ResourceVersion, d.Annotations = "", nil
	c.must(c.Client.Create(context.Background(), &d))
	c.settle()
	if c.lock() != nil || c.attachment("a").Status.Attached {
		t.Fatal("it is attached, and what was mounted before nobody knows")
	}
	d.Annotations = adopted(d.UID)
	c.must(c.Client.Update(context.Background(), &d))
	c.settle()
	if c.lock() == nil || !c.attachment("a").Status.Attached {
		t.Fatal("it is not attached once the driver is adopted")
	}
}

// makeDriver makes the CSIDriver again: attachRequired can't be changed.
func (c *cluster) makeDriver(uid types.UID, gated bool) *storagev1.CSIDriver {
	c.t.Helper()
	d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver, UID: uid, Annotations: adopted(uid)}, Spec: storagev1.CSIDriverSpec{AttachRequired: &gated}}
	c.must(c.Client.Delete(context.Background(), d))
	c.must(c.Client.Create(context.Background(), d))
	return d
}

// TestOtherAttacher: one that says attached of whatever is not is disputed now and then, not as fast as both can write, and is told of.
func TestOtherAttacher(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	registry := prometheus.NewRegistry()
	c.Metrics = NewMetrics(registry)
	c.attach("a")
	c.reports("a", inUse)
	c.settle()
	withdrawn := 0
	said := c.Client
	c.Client = interceptor.NewClient(said.(client.WithWatch), interceptor.Funcs{SubResourcePatch: func(ctx context.Context, _ client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
		err := said.SubResource(sub).Patch(ctx, o, patch, options...)
		if a, ok := o.(*storagev1.VolumeAttachment); ok && err == nil && !a.Status.Attached {
			withdrawn++
			a = a.DeepCopy()
			a.Status.Attached, a.Status.AttachError = true, nil // as the trivial handler
			c.must(said.Status().Update(ctx, a))
		}
		return err
	}})
	c.attach("b")
	b := c.attachment("b")
	b.Status.Attached = true
	c.must(said.Status().Update(context.Background(), b))
	for second := range 60 {
		c.Clock.(*testclock.FakePassiveClock).SetTime(began.Add(time.Duration(second) * time.Second))
		result, err := c.ReconcileAttachment(quiet, ctrl.Request{NamespacedName: client.ObjectKey{Name: nameOf("b")}})
		c.must(err)
		if after := result.RequeueAfter; after <= 0 || after > 10*time.Second {
			t.Fatalf("it is looked at again after %s", after)
		}
	}
	if withdrawn != 6 {
		t.Errorf("withdrawn %d times in a minute", withdrawn)
	}
	if l := c.lock(); l.Spec.Node.Name != "a" {
		t.Errorf("the lock is %+v", l)
	}
	if alarms := testutil.ToFloat64(c.Metrics.alarms.WithLabelValues("OtherAttacher")); alarms == 0 {
		t.Error("nobody is told")
	}
}
