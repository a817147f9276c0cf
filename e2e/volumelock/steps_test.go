package volumelock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	core "github.com/podgrace/podgrace/volumelock"
)

// The fifteen steps of the pod-safety design's "Storage Consistency", and what it says of a partition.
func TestFifteenSteps(t *testing.T) {
	t.Parallel()
	l := newLab(t, "steps", iscsi)
	l.start(t)
	began := time.Now()
	step := func(n any, what string) {
		t.Helper()
		t.Logf("%6.1f s  %v: %s", time.Since(began).Seconds(), n, what)
	}

	step(1, "the administrator makes an iSCSI volume that is ReadWriteOnce, for nodes with the label storagecluster=iscsi-1")
	step(2, "a user requests a volume and is bound to it")
	db := l.disk(t, "db", "1")
	step(3, "the user creates pod db-1, which references the claim")
	first := l.pod(t, "db-1", "db", l.a)
	l.runs(t, first, db, l.a)
	step(4, "the scheduler has bound it to node a, which has the label")
	step(5, "the kubelet on node a has found that the volume is to be attached, and has said that it is in use")
	l.inUse(t, l.a, db)
	lock := l.heldBy(t, db, l.a)
	if want := (v1alpha1.BootReference{Name: l.a, UID: l.nodeNow(t, l.a).UID, BootID: l.kubelets[l.a].BootID()}); lock.Spec.Node != want {
		t.Errorf("it is held by %+v, and not %+v", lock.Spec.Node, want)
	}
	if a, err := l.attachment(t.Context(), db, l.a); err != nil || a == nil || !a.Status.Attached || !slices.Contains(a.Finalizers, v1alpha1.FinalizerVolumeLock) || a.UID != core.Holder(lock).UID {
		t.Errorf("the VolumeAttachment to node a: %+v, %v", a, err)
	}
	step(6, "the attach/detach controller has asked for it to be attached, and the compare and swap has: VolumeLock "+lock.Name+" is of node a")
	step(7, "the kubelet has observed that, and pod db-1 runs")

	l.kubelets[l.a].SetHung(true) // so that step 12 takes as long as this test wants
	l.delete(t, first)
	step(8, "the user terminates pod db-1, whose volume is not unmounted yet")
	second := l.pod(t, "db-2", "db", l.b)
	step(9, "the user creates pod db-2, which references the claim")
	l.inUse(t, l.b, db)
	step(10, "the scheduler has bound it to node b")
	t.Logf("          its Event: %s", l.told(t, second, "FailedAttachVolume", "Multi-Attach"))
	l.waits(t, second, db, l.a)
	step(11, "the kubelet on node b waits: VolumeLock "+l.heldBy(t, db, l.a).Name+" is of node a")

	l.kubelets[l.a].SetHung(false)
	l.gone(t, first)
	step(12, "the kubelet on node a has unmounted it, and completes the deletion of pod db-1")
	suite.Eventually(t, "the volume to be released", func(ctx context.Context) (bool, error) {
		now, err := l.lockOf(ctx, db)
		return now == nil || now.UID != lock.UID, err
	})
	step(13, "the VolumeAttachment is deleted, the kubelet on node a has answered that it does not use the volume, and the lock is released")
	l.heldBy(t, db, l.b)
	step(14, "it is taken by node b")
	l.runs(t, second, db, l.b)
	step(15, "the kubelet on node b observes that, and pod db-2 runs")
	l.released(t, lock, "the kubelet of node "+l.a)
	l.partition(t, db, second, step)
}

// partition is what the design says of a partition after step 11, with three volumes, each of which is released by something else.
func (l *lab) partition(t *testing.T, db *corev1.PersistentVolume, second *corev1.Pod, step func(any, string)) {
	t.Helper()
	names := []string{"db", "log", "cache"}
	volumes, old, waiting := map[string]*corev1.PersistentVolume{"db": db}, map[string]*corev1.Pod{"db": second}, map[string]*corev1.Pod{}
	for i, name := range names[1:] {
		volumes[name] = l.disk(t, name, fmt.Sprint(i+2))
		old[name] = l.pod(t, name+"-2", name, l.b)
	}
	locks := map[string]*v1alpha1.VolumeLock{}
	for _, name := range names {
		l.runs(t, old[name], volumes[name], l.b)
		locks[name] = l.heldBy(t, volumes[name], l.b)
	}
	l.kubelets[l.b].SetHung(true)
	for _, name := range names {
		l.delete(t, old[name])
		waiting[name] = l.pod(t, name+"-3", name, l.a)
	}
	for _, name := range names {
		l.inUse(t, l.a, volumes[name])
	}
	step("11", "three volumes are held by node b, whose pods are being terminated, and pods on node a wait for them")

	l.kubelets[l.b].SetSilent(true)
	step("partition", "node b is cut off from the API server, and not from the storage")
	l.notReady(t, l.b)
	for _, name := range names {
		l.waits(t, waiting[name], volumes[name], l.b)
	}
	step("partition", "node b is not ready. The attach/detach controller blocks")

	l.taint(t, l.b, outOfService)
	for _, name := range names {
		l.delete(t, old[name], client.GracePeriodSeconds(0))
	}
	step("partition", "a person sets the taint out-of-service and deletes the pods by force, which is unsafe")
	for _, name := range names {
		held := l.locked(t, volumes[name], " to say what it waits for", func(k *v1alpha1.VolumeLock) bool {
			return k.Status.Release != nil && strings.Contains(k.Status.Message, "not ready")
		})
		l.asked(t, volumes[name], l.a)
		if l.waits(t, waiting[name], volumes[name], l.b); held.UID != locks[name].UID {
			t.Errorf("the lock of %s is another one", name)
		}
		t.Logf("          kubectl get volumelocks: %s: %s", volumes[name].Name, held.Status.Message)
	}
	step("partition", "the attach/detach controller has detached them by force from node b and asks for node a. Nothing is released")

	l.witness.Cut(l.b, unit(db))
	l.receipt(t, l.b, v1alpha1.EvidenceStorageRevoked, db.Name)
	l.runs(t, waiting["db"], db, l.a)
	step("partition", "the fencer has the iSCSI server firewall node b from one unit, and says so in a receipt: steps 13 to 15 go on for that one")

	l.witness.Cut(l.b, unit(volumes["log"]))
	held := l.heldBy(t, volumes["log"], l.b)
	if out, _, err := l.Kubectl(t.Context(), "annotate", "volumelock", held.Name, v1alpha1.AnnotationConfirmRelease+"="+core.Confirmation(held)); err != nil {
		t.Fatal(out, err)
	}
	l.runs(t, waiting["log"], volumes["log"], l.a)
	step("partition", "a person has pulled a cable, and confirms that of the second unit")

	l.waits(t, waiting["cache"], volumes["cache"], l.b)
	l.witness.Off(l.b)
	l.receipt(t, l.b, v1alpha1.EvidencePoweredOff)
	l.runs(t, waiting["cache"], volumes["cache"], l.a)
	step("partition", "the fencer has powered node b off, which releases the third")
	l.released(t, locks["db"], "can't reach it")
	l.released(t, locks["log"], "a person confirms")
	l.released(t, locks["cache"], "is off")

	l.kubelets[l.b].Reboot()
	l.kubelets[l.b].SetHung(false)
	l.kubelets[l.b].SetSilent(false)
	l.taint(t, l.b, "null")
	l.delete(t, waiting["db"])
	last := l.pod(t, "db-4", "db", l.b)
	l.runs(t, last, db, l.b)
	step("partition", "node b has started anew, and gets its volume back from node a")
}

func (l *lab) nodeNow(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	if err := l.Client.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatal(err)
	}
	return node
}

// inUse waits until a node says that it uses a volume.
func (l *lab) inUse(t *testing.T, name string, pv *corev1.PersistentVolume) {
	t.Helper()
	suite.Eventually(t, "node "+name+" to use "+pv.Name, func(ctx context.Context) (bool, error) {
		var node corev1.Node
		err := l.Client.Get(ctx, client.ObjectKey{Name: name}, &node)
		return slices.Contains(node.Status.VolumesInUse, core.InUseName(l.driver, pv.Spec.CSI.VolumeHandle)), err
	})
}

// notReady waits until the node lifecycle controller has a node as not ready.
func (l *lab) notReady(t *testing.T, name string) {
	t.Helper()
	suite.Eventually(t, "node "+name+" to be not ready", func(ctx context.Context) (bool, error) {
		var node corev1.Node
		err := l.Client.Get(ctx, client.ObjectKey{Name: name}, &node)
		return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
		}), err
	})
}

// told returns the message of an Event of a pod, once there is one.
func (l *lab) told(t *testing.T, pod *corev1.Pod, reason, text string) (message string) {
	t.Helper()
	suite.Eventually(t, "the Event "+reason+" of pod "+pod.Name, func(ctx context.Context) (bool, error) {
		var list corev1.EventList
		err := l.Client.List(ctx, &list, client.InNamespace(l.namespace), client.MatchingFields{"involvedObject.name": pod.Name})
		for i := range list.Items {
			if e := &list.Items[i]; e.Reason == reason && strings.Contains(e.Message, text) {
				message = e.Message
				return true, err
			}
		}
		return false, err
	})
	return message
}

// asked waits until a volume is to be attached to a node.
func (l *lab) asked(t *testing.T, pv *corev1.PersistentVolume, node string) (a *storagev1.VolumeAttachment) {
	t.Helper()
	suite.Eventually(t, "the VolumeAttachment of "+pv.Name+" to "+node, func(ctx context.Context) (_ bool, err error) {
		a, err = l.attachment(ctx, pv, node)
		return a != nil, err
	})
	return a
}

// waits looks that a pod does not run, that its volume is held by a node and attached to no other, and that the holder alone can write to it.
func (l *lab) waits(t *testing.T, pod *corev1.Pod, pv *corev1.PersistentVolume, holder string) {
	t.Helper()
	l.notYet(t, pod, pv, holder)
	l.writes(t, pv, holder)
}

// notYet is waits, where the holder may have unmounted it.
func (l *lab) notYet(t *testing.T, pod *corev1.Pod, pv *corev1.PersistentVolume, holder string) {
	t.Helper()
	if err := l.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.Status.Phase != corev1.PodPending {
		t.Fatalf("pod %s: %s, %v", pod.Name, pod.Status.Phase, err)
	}
	var all storagev1.VolumeAttachmentList
	if err := l.Client.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		if a := &all.Items[i]; *a.Spec.Source.PersistentVolumeName == pv.Name && a.Spec.NodeName != holder && a.Status.Attached {
			t.Fatalf("%s is attached to node %s, and node %s holds it", pv.Name, a.Spec.NodeName, holder)
		}
	}
	if lock, err := l.lockOf(t.Context(), pv); err != nil || lock == nil || lock.Spec.Node.Name != holder {
		t.Fatalf("the lock of %s: %+v, %v", pv.Name, lock, err)
	}
}

// receipt is the fencer's, about the boot that a silent node has.
func (l *lab) receipt(t *testing.T, name string, class v1alpha1.EvidenceClass, volumes ...string) {
	t.Helper()
	l.receiptFor(t, l.nodeNow(t, name), class, volumes...)
}

// receiptFor is the fencer's, about the boot that a Node has, or had.
func (l *lab) receiptFor(t *testing.T, node *corev1.Node, class v1alpha1.EvidenceClass, volumes ...string) {
	t.Helper()
	r, err := podgrace.WriteReceipt(t.Context(), l.Cluster, node, class, volumes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Client.Delete(context.Background(), r); err != nil {
			t.Error(err)
		}
	})
}

// released waits for the Event that says by what a lock was released.
func (l *lab) released(t *testing.T, lock *v1alpha1.VolumeLock, by string) {
	t.Helper()
	suite.Eventually(t, "the Event that "+lock.Spec.PersistentVolume+" was released: "+by, func(ctx context.Context) (bool, error) {
		var list corev1.EventList
		err := l.Client.List(ctx, &list, client.MatchingFields{"involvedObject.name": lock.Name, "reason": "VolumeReleased"})
		return slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.InvolvedObject.UID == lock.UID && strings.Contains(e.Message, by) }), err
	})
}
