package volumelock

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
)

// taint sets the taint out-of-service on a node, or takes all away.
func (l *lab) taint(t *testing.T, node, taints string) {
	t.Helper()
	if err := l.Client.Patch(t.Context(), l.nodeNow(t, node), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"taints":`+taints+`}}`))); err != nil {
		t.Fatal(err)
	}
}

const outOfService = `[{"key":"` + corev1.TaintNodeOutOfService + `","value":"nodeshutdown","effect":"NoExecute"}]`

// A status that says that a volume is not in use was long on its way, and arrives once the volume is mounted again. The attach/detach controller believes it; the volume lock asks.
func TestLateStatus(t *testing.T) {
	t.Parallel()
	l := newLab(t, "late", "late.example.org")
	l.start(t)
	pv, k := l.disk(t, "db", "1"), l.kubelets[l.a]
	before := l.pod(t, "db-0", "db", l.a)
	l.runs(t, before, pv, l.a)
	k.HoldStatus()
	l.delete(t, before)
	l.gone(t, before)
	suite.Eventually(t, "the status without the volume to be on its way", func(context.Context) (bool, error) { return k.Held() != nil, nil })
	arrive := k.Held()
	first := l.pod(t, "db-1", "db", l.a)
	k.GiveUpStatus()
	l.runs(t, first, pv, l.a)

	k.SetHung(true)
	l.delete(t, first, client.GracePeriodSeconds(0))
	second := l.pod(t, "db-2", "db", l.b)
	l.inUse(t, l.b, pv)
	k.HoldStatus() // so that what arrives stands for a while
	if err := arrive(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.locked(t, pv, " to be released, as far as the attach/detach controller knows", func(lock *v1alpha1.VolumeLock) bool {
		return lock.Status.Release != nil && lock.Status.Release.Asked != nil
	})
	l.waits(t, second, pv, l.a)
	k.GiveUpStatus()
	l.locked(t, pv, " to say that it is in use", func(lock *v1alpha1.VolumeLock) bool {
		return strings.Contains(lock.Status.Message, "still lists it as in use")
	})
	l.waits(t, second, pv, l.a)
	k.SetHung(false)
	l.runs(t, second, pv, l.b)
}

// A machine that starts again mounts the volume again, by the same lock, which its kubelet releases by the boot that it has then.
func TestReboot(t *testing.T) {
	t.Parallel()
	l := newLab(t, "reboot", "reboot.example.org")
	l.start(t)
	pv := l.disk(t, "db", "1")
	first := l.pod(t, "db-1", "db", l.a)
	l.runs(t, first, pv, l.a)
	lock := l.heldBy(t, pv, l.a)
	second := l.pod(t, "db-2", "db", l.b)
	l.kubelets[l.a].Reboot()
	suite.Eventually(t, "the volume to be mounted again", func(context.Context) (bool, error) {
		return slices.Equal(l.witness.Writers(unit(pv)), []string{l.a}), nil
	})
	if now := l.heldBy(t, pv, l.a); now.UID != lock.UID {
		t.Error("the lock is another one")
	}
	l.waits(t, second, pv, l.a)
	l.delete(t, first)
	l.runs(t, second, pv, l.b)
	l.released(t, lock, "the kubelet of node "+l.a)
}

// A machine that boots after its volume was detached, and is cut off and fenced before its kubelet has said anything of the volume, is fenced by the boot that it has then: that releases the volume.
func TestFencedByAnotherBoot(t *testing.T) {
	t.Parallel()
	l := newLab(t, "rebooted", "rebooted.example.org")
	l.start(t)
	pv, k := l.disk(t, "db", "1"), l.kubelets[l.a]
	first := l.pod(t, "db-1", "db", l.a)
	l.runs(t, first, pv, l.a)
	k.SetSilent(true)
	l.taint(t, l.a, outOfService)
	l.delete(t, first, client.GracePeriodSeconds(0))
	second := l.pod(t, "db-2", "db", l.b)
	boot := k.BootID()
	lock := l.locked(t, pv, " to be released by the boot that its node has", func(k *v1alpha1.VolumeLock) bool {
		return k.Status.Release != nil && k.Status.Release.BootID == boot
	})
	if err := l.replica.Stop(); err != nil { // else it asks the kubelet at once
		t.Fatal(err)
	}
	k.Reboot()
	k.SetSilent(false)
	suite.Eventually(t, "the node to tell its boot", func(ctx context.Context) (bool, error) {
		var node corev1.Node
		err := l.Client.Get(ctx, client.ObjectKey{Name: l.a}, &node)
		return node.Status.NodeInfo.BootID == k.BootID(), err
	})
	k.SetSilent(true)
	l.notReady(t, l.a)
	l.witness.Off(l.a)
	l.receipt(t, l.a, v1alpha1.EvidencePoweredOff)
	if err := l.startAnother(kubeconfig); err != nil {
		t.Fatal(err)
	}
	l.runs(t, second, pv, l.b)
	l.released(t, lock, "is off")
}

// sixMinutes is how long the attach/detach controller waits for a node that is not ready to unmount what no pod wants (ReconcilerMaxWaitForUnmountDuration in
// pkg/controller/volume/attachdetach/attach_detach_controller.go, v1.36.3). No flag changes it.
const sixMinutes = 6 * time.Minute

// A node that was cut off while its volume was detached by force comes back by the same boot, with the volume mounted, and its kubelet, started again, does not tell of it. Its word is no proof, also when it
// has unmounted it: that of another boot is. The volume is detached by the taint out-of-service, or after six minutes.
func TestDetachedByForce(t *testing.T) {
	t.Parallel()
	t.Run("out-of-service", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "forced", "forced.example.org")
		l.byForce(t, func() { l.taint(t, l.a, outOfService) }, time.Minute)
	})
	t.Run("six minutes", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "expired", "expired.example.org")
		l.byForce(t, func() {}, sixMinutes+2*time.Minute)
	})
}

// byForce has a volume be detached within some time.
func (l *lab) byForce(t *testing.T, hasten func(), within time.Duration) {
	t.Helper()
	l.start(t)
	pv, k := l.disk(t, "db", "1"), l.kubelets[l.a]
	first := l.pod(t, "db-1", "db", l.a)
	l.runs(t, first, pv, l.a)
	k.SetHung(true)
	k.SetSilent(true)
	l.notReady(t, l.a)
	second := l.pod(t, "db-2", "db", l.b)
	hasten()
	l.delete(t, first, client.GracePeriodSeconds(0))
	began := time.Now()
	suite.EventuallyWithin(t, within, "the volume to be released, as far as the attach/detach controller knows", func(ctx context.Context) (bool, error) {
		lock, err := l.lockOf(ctx, pv)
		return lock != nil && lock.Status.Release != nil, err
	})
	t.Logf("it was detached %.1f s after its pod was deleted", time.Since(began).Seconds())
	l.inUse(t, l.a, pv) // as far as anybody knows, so that it was by force
	l.asked(t, pv, l.b)
	l.waits(t, second, pv, l.a)

	if err := k.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.SetSilent(false)
	byForce := func(lock *v1alpha1.VolumeLock) bool {
		return strings.Contains(lock.Status.Message, "detached by force")
	}
	lock := l.locked(t, pv, " to say that it was detached by force", byForce)
	t.Log(lock.Status.Message)
	l.taint(t, l.a, "null")
	if node := l.nodeNow(t, l.a); len(node.Status.VolumesInUse) > 0 {
		t.Errorf("the kubelet tells of it: %v", node.Status.VolumesInUse)
	}
	l.waits(t, second, pv, l.a)
	k.SetHung(false)
	suite.Eventually(t, "the volume to be unmounted", func(context.Context) (bool, error) { return len(l.witness.Writers(unit(pv))) == 0, nil })
	l.notYet(t, second, pv, l.a)
	k.Reboot()
	l.runs(t, second, pv, l.b)
	l.released(t, lock, "the kubelet of node "+l.a)
}
