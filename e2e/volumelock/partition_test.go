package volumelock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// partitionWrites are those of a volume whose holder is cut off: its release begins, waits, and is proved by a receipt, then it is taken and attached again.
var partitionWrites = []string{"PUT volumelocks/status", "PATCH volumeattachments", "DELETE volumelocks", "POST volumelocks", "PATCH volumeattachments/status"}

// While the holder of a volume is cut off, and a taint and a force delete have it detached, the volume lock, the controller manager and the API server are killed after each write that the volume lock makes:
// none of them, nor what they find when they start, gives the volume to another node. A receipt does.
func TestFaultsInPartition(t *testing.T) {
	l := newLab(t, "cutoff", "cutoff.example.org")
	p := newPass(t)
	l.startBy(t, p.kubeconfig)
	pv := l.disk(t, "db", "1")
	ctx := context.WithoutCancel(t.Context())
	from, to := l.a, l.b
	for _, kill := range []struct {
		what string
		do   func() error
		free func() // waits until the volume is
	}{
		{"volume lock", func() error { return errors.Join(l.replica.Kill(), l.startAnother(p.kubeconfig)) }, func() { l.free(t, pv) }},
		{"controller manager", func() error { return l.RestartControllerManager(ctx) }, func() { l.free(t, pv) }},
		{"API server", func() error { return l.RestartAPIServer(ctx) }, func() { l.freeOnceBooted(t, pv, to) }},
	} {
		seen := l.cutOff(t, p, pv, from, to, func() {
			if err := kill.do(); err != nil {
				t.Error(err)
			}
		}, kill.free)
		t.Logf("the %s was killed after %d writes: %s", kill.what, len(seen), strings.Join(seen, ", "))
		from, to = to, from
	}
}

// cutOff has a pod on one node get a volume, cuts that node off, and has a pod on another get it once a receipt says that the first is off, while something fails after each of the volume lock's writes from
// the cut on, which it returns. In the end it waits by the last function until the volume is free.
func (l *lab) cutOff(t *testing.T, p *pass, pv *corev1.PersistentVolume, from, to string, fail, free func()) (writes []string) {
	t.Helper()
	first, second := l.pod(t, "first-on-"+from, "db", from), l.newPod("second-on-"+to, "db", to)
	l.runs(t, first, pv, from)
	lock, k := l.heldBy(t, pv, from), l.kubelets[from]
	var proved atomic.Bool
	p.then(func(write string) {
		if (write == "DELETE volumelocks" || write == "POST volumelocks") && !proved.Load() {
			t.Errorf("%s, and nothing proves that node %s is off", write, from)
		}
		writes = append(writes, write)
		fail()
	})

	p.undisturbed(func() { // the API server answers all that is asked once
		k.SetSilent(true)
		l.taint(t, from, outOfService)
		l.delete(t, first, client.GracePeriodSeconds(0))
		l.Create(t, second)
	})
	l.inUse(t, to, pv)
	l.asked(t, pv, to)
	l.locked(t, pv, " to say that its node is not ready", func(now *v1alpha1.VolumeLock) bool {
		return now.UID == lock.UID && strings.Contains(now.Status.Message, "not ready")
	})
	p.undisturbed(func() { l.waits(t, second, pv, from) })

	p.undisturbed(func() {
		l.witness.Off(from)
		proved.Store(true)
		l.receipt(t, from, v1alpha1.EvidencePoweredOff)
	})
	l.runs(t, second, pv, to)
	p.then(nil)
	k.Reboot()
	k.SetSilent(false)
	l.taint(t, from, "null")
	l.delete(t, second)
	l.gone(t, second)
	free()
	for _, want := range partitionWrites {
		if !slices.Contains(writes, want) {
			t.Errorf("nothing failed after %s", want)
		}
	}
	return writes
}
