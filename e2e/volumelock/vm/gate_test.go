package vm

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/e2e/vm"
	core "github.com/podgrace/podgrace/volumelock"
)

// statusEvery is how often the other node reports: as often as heartbeats can be told apart by, which are stored in whole seconds.
const statusEvery = 1100 * time.Millisecond

// TestTwoWriters is what the volume lock is there for: of a driver that attaches nothing two nodes mount one ReadWriteOnce volume, and write to one file.
func TestTwoWriters(t *testing.T) {
	l := start(t)
	l.csiDriver(t, false)
	l.claim(t, "one", "1")
	first := l.pod(t, "first", guest, "one")
	l.running(t, first)
	l.writes(t, "first")

	second := l.pod(t, "second", other, "one")
	l.bound(t, second)
	if a, err := l.attachment(t.Context(), other, "one"); err != nil || a != nil {
		t.Errorf("there is something to wait for: %v, %v", a, err)
	}
	l.mount(t, "second")
	l.writes(t, "second")
	l.writes(t, "first")
}

// TestTwoKubelets has two machines, each with a real kubelet, mount one volume: without the volume lock both write to it. With it the second waits for the first, which is paused with the volume mounted, also
// once a taint and a force delete have detached it, until a receipt says that it is off.
func TestTwoKubelets(t *testing.T) {
	l := start(t)
	ctx := t.Context()
	node, err := boot(ctx, l.Suite, vm.Options{Name: holder, Reaches: net.JoinHostPort(l.node.Address, strconv.Itoa(nfsPort))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(node.Stop(), client.IgnoreNotFound(l.Client.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: holder}}))); err != nil {
			t.Error(err)
		}
	})
	if err := drive(ctx, node, vm.Peer); err != nil {
		t.Fatal(err)
	}
	l.knowsDriver(t, holder)
	l.step(t, "both machines run")

	t.Run("without the volume lock", func(t *testing.T) {
		l := l.again(t)
		l.csiDriver(t, false)
		l.claim(t, "one", "1")
		first, second := l.pod(t, "first", holder, "one"), l.pod(t, "second", guest, "one")
		l.running(t, first)
		l.running(t, second)
		l.writes(t, "first")
		l.writes(t, "second")
		l.writes(t, "first")
		l.remove(t, first)
		l.remove(t, second)
	})
	t.Run("with it", func(t *testing.T) {
		l := l.again(t)
		l.gate(t)
		l.claim(t, "one", "1")
		l.pausedHolder(t, node)
	})
}

// pausedHolder is what TestTwoKubelets does with the volume lock.
func (l *lab) pausedHolder(t *testing.T, node *vm.Node) {
	t.Helper()
	ctx := t.Context()
	first := l.pod(t, "first", holder, "one")
	l.running(t, first)
	l.writes(t, "first")
	l.holds(t, holder, "one")
	if err := node.Pause(); err != nil {
		t.Fatal(err)
	}
	l.step(t, "its machine is paused")
	second := l.pod(t, "second", guest, "one")
	l.taint(t, holder, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
	if err := l.Client.Delete(ctx, first, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	l.wants(t, guest, "one")
	suite.EventuallyWithin(t, soon, "the volume lock to say that the node is not ready", func(ctx context.Context) (bool, error) {
		lock, err := l.lock(ctx)
		return lock != nil && lock.Spec.Node.Name == holder && strings.Contains(lock.Status.Message, "not ready"), err
	})
	l.step(t, "detached by force, and not ready")
	l.unattached(t, guest, "one")
	if at := l.mounted(t); at != "" {
		t.Errorf("it is mounted at\n%s", at)
	}

	if err := node.PowerOff(); err != nil {
		t.Fatal(err)
	}
	var n corev1.Node
	if err := errors.Join(l.Client.Get(ctx, client.ObjectKey{Name: holder}, &n), podgrace.AllowFencer(ctx, l.Cluster)); err != nil {
		t.Fatal(err)
	}
	if _, err := podgrace.WriteReceipt(ctx, l.Cluster, &n, v1alpha1.EvidencePoweredOff); err != nil {
		t.Fatal(err)
	}
	l.running(t, second)
	l.writes(t, "second")
	l.holds(t, guest, "one")
	if got, want := slices.Compact(l.wrote(t)), []string{"first", "second"}; !slices.Equal(got, want) {
		t.Errorf("in this order wrote %v, want %v", got, want)
	}
	l.remove(t, second)
	l.free(t, func() error { return nil })
}

// TestGate has the volume lock give one volume to a real kubelet and to the other node, in turn.
func TestGate(t *testing.T) {
	l := start(t)
	l.endsNodes(t) // it reboots the machine, which serves the volume no more
	l.gate(t)
	l.claim(t, "one", "1")
	l.claim(t, "two", "2")
	pod := l.handover(t)
	l.byForce(t, pod)
}

// handover: a pod of the machine has the volume. One on another node, by another PersistentVolume for the same export, waits until the kubelet has unmounted it; then one on the machine, which is
// returned, waits until the other node has.
func (l *lab) handover(t *testing.T) *corev1.Pod {
	first := l.pod(t, "first", guest, "one")
	l.running(t, first)
	l.writes(t, "first")
	l.holds(t, guest, "one")

	second := l.pod(t, "second", other, "two")
	l.bound(t, second)
	if err := l.report(t.Context(), "2"); err != nil {
		t.Fatal(err)
	}
	l.wants(t, other, "two")
	l.writes(t, "first")
	l.unattached(t, other, "two")

	l.began = time.Now()
	l.remove(t, first)
	l.attached(t, other, "two")
	l.step(t, "attached to the other node")
	if at := l.mounted(t); at != "" {
		t.Errorf("it is still mounted at\n%s", at)
	}
	l.mount(t, "second")
	l.writes(t, "second")
	l.holds(t, other, "two")

	third := l.pod(t, "third", guest, "one")
	l.wants(t, guest, "one")
	l.writes(t, "second")
	l.unattached(t, guest, "one")
	if at := l.mounted(t); at != elsewhere {
		t.Errorf("it is mounted at\n%s", at)
	}

	l.began = time.Now()
	l.unmount(t, "second")
	if err := l.Client.Delete(t.Context(), second, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	var reported time.Time
	suite.EventuallyWithin(t, soon, "the volume to be attached to the machine", func(ctx context.Context) (bool, error) {
		if time.Since(reported) >= statusEvery {
			if err := l.report(ctx); err != nil {
				return false, err
			}
			reported = time.Now()
		}
		a, err := l.attachment(ctx, guest, "one")
		return a != nil && a.Status.Attached, err
	})
	l.step(t, "attached to the machine")
	l.running(t, third)
	l.writes(t, "third")
	if got, want := slices.Compact(l.wrote(t)), []string{"first", "second", "third"}; !slices.Equal(got, want) {
		t.Errorf("in this order wrote %v, want %v", got, want)
	}
	return third
}

// byForce: the machine is cut off, its pod deleted by force, and the taint out-of-service has the attach/detach controller detach the volume while the pod writes on. Not even that its kubelet
// unmounts the volume, once it is heard of, gives it to the other node: its next boot does.
func (l *lab) byForce(t *testing.T, pod *corev1.Pod) {
	ctx := t.Context()
	l.began = time.Now()
	if err := l.node.Disconnect(ctx); err != nil {
		t.Fatal(err)
	}
	l.taint(t, guest, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
	if err := l.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	attachments := l.follow(t, core.AttachmentName(driver, "2", other))
	next := l.pod(t, "next", other, "two")
	l.bound(t, next)
	if err := l.report(ctx, "2"); err != nil {
		t.Fatal(err)
	}
	boot := l.boot(t, guest)
	suite.EventuallyWithin(t, soon, "the volume to be detached by force", func(ctx context.Context) (bool, error) {
		lock, err := l.lock(ctx)
		return lock != nil && lock.Status.DistrustedBootID == boot.BootID, err
	})
	l.step(t, "detached by force")
	l.wants(t, other, "two")
	l.writes(t, pod.Name)
	l.unattached(t, other, "two")

	l.taint(t, guest)
	if err := l.node.Reconnect(ctx); err != nil {
		t.Fatal(err)
	}
	suite.EventuallyWithin(t, soon, "the kubelet to unmount the volume", func(ctx context.Context) (bool, error) {
		var n corev1.Node
		err := l.Client.Get(ctx, client.ObjectKey{Name: guest}, &n)
		return l.mounted(t) == "" && len(n.Status.VolumesInUse) == 0, err
	})
	l.step(t, "the kubelet has unmounted it, and says so")
	l.waits(t, attachments, other, "two", guest)
	if last := l.wrote(t); last[len(last)-1] != pod.Name {
		t.Errorf("%s wrote", last[len(last)-1])
	}

	l.began = time.Now()
	l.reboot(t)
	l.step(t, "the machine is rebooted")
	l.attached(t, other, "two")
	l.step(t, "attached to the other node")
	l.holds(t, other, "two")
	if err := l.Client.Delete(ctx, next, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	l.free(t, func() error { return l.report(ctx) })
}

// free returns when no node holds the volume, which the other node's kubelet may have to report: the next test, with another CSIDriver, would find it held.
func (l *lab) free(t *testing.T, report func() error) {
	t.Helper()
	var reported time.Time
	suite.EventuallyWithin(t, soon, "the volume to be free", func(ctx context.Context) (bool, error) {
		if time.Since(reported) >= statusEvery {
			if err := report(); err != nil {
				return false, err
			}
			reported = time.Now()
		}
		lock, err := l.lock(ctx)
		return lock == nil, err
	})
}

// taint sets a machine's taints.
func (l *lab) taint(t *testing.T, node string, taints ...corev1.Taint) {
	t.Helper()
	var n corev1.Node
	if err := l.Client.Get(t.Context(), client.ObjectKey{Name: node}, &n); err != nil {
		t.Fatal(err)
	}
	was := n.DeepCopy()
	n.Spec.Taints = taints
	if err := l.Client.Patch(t.Context(), &n, client.MergeFrom(was)); err != nil {
		t.Fatal(err)
	}
}

// boot is the one that a node runs.
func (l *lab) boot(t *testing.T, node string) v1alpha1.BootReference {
	t.Helper()
	var n corev1.Node
	if err := l.Client.Get(t.Context(), client.ObjectKey{Name: node}, &n); err != nil {
		t.Fatal(err)
	}
	return v1alpha1.BootReference{Name: node, UID: n.UID, BootID: n.Status.NodeInfo.BootID}
}

// wants returns when a node has a VolumeAttachment.
func (l *lab) wants(t *testing.T, node, volume string) {
	t.Helper()
	suite.EventuallyWithin(t, soon, node+" to want volume "+volume, func(ctx context.Context) (bool, error) {
		a, err := l.attachment(ctx, node, volume)
		return a != nil, err
	})
}

// unattached checks that it may not mount the volume.
func (l *lab) unattached(t *testing.T, node, volume string) {
	t.Helper()
	if a, err := l.attachment(t.Context(), node, volume); err != nil || a == nil || a.Status.Attached {
		t.Errorf("node %s does not wait: %+v, %v", node, a, err)
	}
}

// bound returns once the scheduler has bound the pod.
func (l *lab) bound(t *testing.T, p *corev1.Pod) {
	t.Helper()
	suite.Eventually(t, "pod "+p.Name+" to be bound", func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
		return p.Spec.NodeName != "", err
	})
}

// remove deletes a pod of the machine, and returns when its kubelet has removed it.
func (l *lab) remove(t *testing.T, p *corev1.Pod) {
	t.Helper()
	if err := l.Client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	suite.EventuallyWithin(t, soon, "the end of pod "+p.Name, func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
		return err != nil, client.IgnoreNotFound(err)
	})
	l.step(t, "pod "+p.Name+" is gone")
}

// holds checks that a node has the volume, and its VolumeLock says so, with the boot that it runs.
func (l *lab) holds(t *testing.T, node, volume string) {
	t.Helper()
	a, err := l.attachment(t.Context(), node, volume)
	if err != nil || a == nil {
		t.Fatalf("the VolumeAttachment: %v, %v", a, err)
	}
	if !a.Status.Attached || !slices.Contains(a.Finalizers, v1alpha1.FinalizerVolumeLock) {
		t.Errorf("the VolumeAttachment: %+v", a)
	}
	lock, err := l.lock(t.Context())
	if err != nil || lock == nil {
		t.Fatalf("the VolumeLock: %v, %v", lock, err)
	}
	boot := l.boot(t, node)
	if lock.Spec.Node != boot || lock.Spec.PersistentVolume != volume || lock.Spec.Identity != v1alpha1.VolumeByExport || lock.Spec.Attachment != (v1alpha1.AttachmentReference{Name: a.Name, UID: a.UID}) {
		t.Errorf("the VolumeLock: %+v, want it held by %+v", lock.Spec, boot)
	}
}

// attached returns when a node may mount the volume.
func (l *lab) attached(t *testing.T, node, volume string) {
	t.Helper()
	suite.EventuallyWithin(t, soon, volume+" to be attached to "+node, func(ctx context.Context) (bool, error) {
		a, err := l.attachment(ctx, node, volume)
		return a != nil && a.Status.Attached, err
	})
}

// follow returns what becomes of a VolumeAttachment from now on, version by version: an error stands in it for seconds only, which may be over before anybody asks.
func (l *lab) follow(t *testing.T, name string) apiwatch.Interface {
	t.Helper()
	watching, err := client.NewWithWatch(l.Config, client.Options{Scheme: l.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	versions, err := watching.Watch(t.Context(), &storagev1.VolumeAttachmentList{}, client.MatchingFields{"metadata.name": name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(versions.Stop)
	return versions
}

// waits returns when a node has been told that it waits for another one, from which its volume was detached by force. It checks that it does in each version up to then, and up to the one that stands now.
func (l *lab) waits(t *testing.T, versions apiwatch.Interface, node, volume, holder string) {
	t.Helper()
	now, err := l.attachment(t.Context(), node, volume)
	if err != nil || now == nil {
		t.Fatalf("the VolumeAttachment: %v, %v", now, err)
	}
	told, current, last, late := "", false, "nothing", time.After(soon)
	for told == "" || !current {
		select {
		case event := <-versions.ResultChan():
			a, ok := event.Object.(*storagev1.VolumeAttachment)
			if !ok || event.Type == apiwatch.Deleted || a.Status.Attached {
				t.Fatalf("node %s does not wait, or nobody can tell: %s %+v", node, event.Type, event.Object)
			}
			current = current || a.ResourceVersion == now.ResourceVersion
			if a.Status.AttachError == nil {
				continue
			}
			if last = a.Status.AttachError.Message; !strings.Contains(last, "held by node "+holder) {
				t.Errorf("it is told %s", last)
			}
			if strings.Contains(last, "detached by force") { // before that has been noted, and while the holder is not heard of, it is another text
				told = last
			}
		case <-late:
			t.Fatalf("node %s is not told whom it waits for, but %s", node, last)
		}
	}
	l.step(t, node+" waits: "+told)
}
