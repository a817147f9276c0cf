package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

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
	x := &Attacher{Client: kube, Live: kube, Cache: informers(t, kube), Drivers: []string{driver}}
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

// TestNews: what is written to attach a volume has nobody look at it again; what others do has.
func TestNews(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	attached := func() (c *cluster, made, finalized, attached *storagev1.VolumeAttachment) {
		c = newCluster(t)
		c.attach("a")
		c.reports("a", inUse)
		c.settle()
		n, err := read(ctx, c.Live, "a", &corev1.Node{})
		c.must(err)
		n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: inUse}}
		c.must(c.Client.Status().Update(ctx, n))
		attached = c.attachment("a")
		finalized, made = attached.DeepCopy(), attached.DeepCopy()
		finalized.Status.Attached, finalized.ResourceVersion = false, "before"
		made.Status.Attached, made.ResourceVersion, made.Annotations, made.Finalizers = false, "first", nil, nil
		return c, made, finalized, attached
	}
	c, made, finalized, now := attached()
	if c.news(ctx, made, finalized) || c.news(ctx, finalized, now) {
		t.Error("what we write ourselves is news to the attachment")
	}
	if !c.news(ctx, now, now) || !c.news(ctx, now, finalized) || !c.news(ctx, finalized, made) {
		t.Error("of an attachment that is looked at again, is withdrawn, or has lost its finalizer, nobody takes notice")
	}
	own := finalized.DeepCopy()
	own.Finalizers = append(own.Finalizers, "external-attacher/nfs-csi-k8s-io")
	if !c.news(ctx, own, finalized) || !c.news(ctx, finalized, own) {
		t.Error("when an attacher of the driver's own comes and goes nobody takes notice")
	}
	if !c.atRest(ctx, c.lock()) || len(c.waitingFor(ctx, c.lock())) > 0 || len(c.lockOf(ctx, now)) > 0 {
		t.Error("the lock of what was attached is looked at")
	}
	c.attach("b")
	if looked := c.waitingFor(ctx, c.lock()); len(looked) != 1 || looked[0].Name != nameOf("b") || len(c.lockOf(ctx, c.attachment("b"))) > 0 {
		t.Errorf("when another node wants it %v are looked at", looked)
	}

	for what, change := range map[string]func(c *cluster, l *v1alpha1.VolumeLock){
		"the attachment is deleted": func(c *cluster, l *v1alpha1.VolumeLock) {
			was := c.attachment("a")
			c.detach("a")
			if looked := c.lockOf(ctx, was); !c.news(ctx, was, c.attachment("a")) || len(looked) != 1 || looked[0].Name != l.Name || len(c.waitingFor(ctx, l)) == 0 {
				t.Errorf("of a deletion nobody takes notice, or the lock by %v", looked)
			}
		},
		"the attachment is gone before it was marked, and its PersistentVolume with it": func(c *cluster, l *v1alpha1.VolumeLock) {
			was := c.attachment("a")
			was.Annotations, was.Finalizers = nil, nil
			c.must(c.Client.Update(ctx, was))
			c.must(c.Client.Delete(ctx, was))
			pv, err := read(ctx, c.Live, volumeOf(was), &corev1.PersistentVolume{})
			c.must(err)
			c.must(c.Client.Delete(ctx, pv))
			if looked := c.lockOf(ctx, was); len(looked) != 1 || looked[0].Name != l.Name {
				t.Errorf("the lock is not looked at, but %v", looked)
			}
		},
		"the CSIDriver is another one": func(c *cluster, _ *v1alpha1.VolumeLock) { c.makeDriver("driver-2", true) },
		"the driver was not adopted": func(c *cluster, _ *v1alpha1.VolumeLock) {
			d, err := read(ctx, c.Live, driver, &storagev1.CSIDriver{})
			c.must(err)
			d.Annotations = nil
			c.must(c.Client.Update(ctx, d))
		},
		"the Node is gone": func(c *cluster, _ *v1alpha1.VolumeLock) {
			c.must(c.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}))
		},
		"it is not known which boot had it before": func(_ *cluster, l *v1alpha1.VolumeLock) { l.Status.UngatedBootID = v1alpha1.BootUnknown },
	} {
		c, _, _, _ := attached()
		l := c.lock()
		if change(c, l); c.atRest(ctx, l) {
			t.Errorf("%s: the lock is at rest", what)
		}
	}
	c, _, _, now = attached()
	l := c.lock()
	c.must(c.Client.Delete(ctx, l))
	if looked := c.waitingFor(ctx, l); len(looked) == 0 || looked[0].Name != now.Name || !c.news(ctx, finalized, now) {
		t.Errorf("when the lock is deleted %v are looked at", looked)
	}
}

// TestNewsByHand: what others write beside is noticed, and what has become of it.
func TestNewsByHand(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	held := func() *cluster {
		c := newCluster(t)
		c.attach("a")
		c.reports("a", inUse)
		c.settle()
		return c
	}
	looks := func(c *cluster, what string, at []reconcile.Request, name string) {
		if !slices.Contains(at, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}) {
			c.t.Errorf("%s: %v are looked at, and not %s", what, at, name)
		}
	}
	edit := func(c *cluster, finalizers ...string) (was, is *storagev1.VolumeAttachment) {
		was = c.attachment("a")
		is = was.DeepCopy()
		is.Finalizers = append([]string{v1alpha1.FinalizerVolumeLock}, finalizers...)
		c.must(c.Client.Update(ctx, is))
		return was, is
	}

	c := held()
	_, is := edit(c, "external-attacher/nfs-csi-k8s-io")
	looks(c, "an attacher of the driver's own comes", c.lockOf(ctx, is), c.lock().Name)
	c.settle()
	if l := c.lock(); !meta.IsStatusConditionTrue(l.Status.Conditions, v1alpha1.ConditionConflict) {
		t.Fatalf("the lock says %+v", l.Status)
	}
	_, is = edit(c)
	looks(c, "it goes", c.lockOf(ctx, is), c.lock().Name)

	c = held()
	l := c.lock()
	l.Status.Message = "by hand"
	if c.atRest(ctx, kept(t, l).(*v1alpha1.VolumeLock)) {
		t.Error("a lock that says what nobody waits for is at rest")
	}

	c = held() // and what follows is about an attachment that is not attached
	a := c.attachment("a")
	a.Status.Attached = false
	c.must(c.Client.Status().Update(ctx, a))
	l = c.lock()
	if looked := c.waitingFor(ctx, l); len(looked) > 0 {
		t.Errorf("%v are looked at when the volume is taken", looked)
	}
	l.Status.Release = &v1alpha1.VolumeRelease{Attachment: a.UID}
	looks(c, "somebody has taken status.release away", c.waitingFor(ctx, l), a.Name)
	said := a.DeepCopy()
	said.ResourceVersion, said.Status.AttachError = "said", &storagev1.VolumeError{Message: "by hand"}
	if !c.news(ctx, a, said) {
		t.Error("nobody notices that somebody says why it is not attached")
	}
	later := said.DeepCopy()
	if later.ResourceVersion = "later"; c.news(ctx, said, later) {
		t.Error("that it stands is news")
	}
	cleared := said.DeepCopy()
	if cleared.ResourceVersion, cleared.Status.AttachError = "cleared", nil; !c.news(ctx, said, cleared) {
		t.Error("nobody notices that somebody takes away why it is not attached")
	}
	other := c.lock()
	other.Status.Attachment = &v1alpha1.AttachmentReference{Name: "another", UID: "another"}
	looks(c, "it was said that another one holds it", c.waitingFor(ctx, other), a.Name)
	bare := a.DeepCopy()
	if bare.ResourceVersion, bare.Annotations = "bare", nil; c.news(ctx, bare, a) {
		t.Error("that we have marked it is news")
	}
	marked := a.DeepCopy()
	marked.ResourceVersion, marked.Annotations = "marked", map[string]string{v1alpha1.AnnotationVolumeLock: "another"}
	if !c.news(ctx, a, marked) || !c.news(ctx, bare, marked) {
		t.Error("nobody notices that it is marked as another lock's")
	}
}

// TestManyReleases: of a node's volumes that are released together one write asks about all, and receipts are read live only where one of the node may count.
func TestManyReleases(t *testing.T) {
	t.Parallel()
	const volumes = 100
	c := newCluster(t)
	c.reports("a")
	names := make([]string, volumes)
	for i := range volumes {
		v := volumelock.Volume{Driver: driver, Key: fmt.Sprint(i), Identity: v1alpha1.VolumeByHandle}
		names[i] = v.LockName()
		l := &v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: names[i]}, Spec: v1alpha1.VolumeLockSpec{Driver: driver, Volume: v.Key, Identity: v.Identity, VolumeHandle: v.Key, DriverUID: "driver-1",
			Node: v1alpha1.BootReference{Name: "a", UID: "uid-a", BootID: "boot-a"}, Attachment: v1alpha1.AttachmentReference{Name: "va", UID: "va"}},
			Status: v1alpha1.VolumeLockStatus{Release: &v1alpha1.VolumeRelease{Attachment: "va", BootID: "boot-a"}}}
		c.must(c.Client.Create(context.Background(), l))
	}
	asks, lists := 0, 0
	kube := c.Client.(client.WithWatch)
	c.Client = interceptor.NewClient(kube, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, _ client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
		asks++
		return kube.SubResource(sub).Patch(ctx, o, patch, options...)
	}})
	c.Live = interceptor.NewClient(kube, interceptor.Funcs{List: func(ctx context.Context, _ client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
		lists++
		return kube.List(ctx, into, options...)
	}})
	all := func() {
		for _, name := range names {
			_, err := c.ReconcileLock(quiet, ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
			c.must(err)
		}
	}
	all()
	var l v1alpha1.VolumeLock
	c.must(kube.Get(context.Background(), client.ObjectKey{Name: names[volumes-1]}, &l))
	if asks != 1 || lists != 0 || l.Status.Release.Asked == nil {
		t.Errorf("the kubelet was asked by %d writes, receipts were read %d times, and the last lock says %+v", asks, lists, l.Status.Release)
	}

	boot := &v1alpha1.BootReference{Name: "a", UID: "uid-a", BootID: "boot-a"}
	c.must(kube.Create(context.Background(), &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: v1alpha1.FenceReceiptSpec{Class: v1alpha1.EvidenceInstanceTerminated, Node: boot}}))
	c.must(kube.Create(context.Background(), &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "void"}, Spec: v1alpha1.FenceReceiptSpec{Class: v1alpha1.EvidenceVoid, Node: boot, Voids: "r"}}))
	if all(); lists != 0 {
		t.Errorf("receipts were read %d times, and none stands", lists)
	}
	cached := c.Cache
	c.must(kube.Delete(context.Background(), &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "void"}}))
	c.Cache = fakeAPI([]client.Object{&l, &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "gone"}, Spec: v1alpha1.FenceReceiptSpec{Class: v1alpha1.EvidenceInstanceTerminated, Node: boot}}})
	c.must(kube.Delete(context.Background(), &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "r"}}))
	_, err := c.ReconcileLock(quiet, ctrl.Request{NamespacedName: client.ObjectKey{Name: l.Name}})
	c.must(err)
	if err := kube.Get(context.Background(), client.ObjectKey{Name: l.Name}, &l); err != nil || lists != 1 {
		t.Errorf("by a receipt that the informer has and the API server has not, after %d lists: %v", lists, err)
	}
	c.Cache = cached
	c.must(kube.Create(context.Background(), &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "r2"}, Spec: v1alpha1.FenceReceiptSpec{Class: v1alpha1.EvidenceInstanceTerminated, Node: boot}}))
	all()
	if c.lock() != nil {
		t.Error("a receipt that stands does not count")
	}
}
