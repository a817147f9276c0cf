package guard_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
)

const (
	confirmPod  = "kubectl podgrace confirm -n shop db-0"
	confirmNode = "kubectl podgrace confirm node/n1"
	silent      = "n1 (not ready, silent since 11:50:00 UTC, 10m0s ago)"
)

// TestRefusal: a refusal names what may run twice, who holds it, why that matters here, and the ways on, with what to type.
func TestRefusal(t *testing.T) {
	t.Parallel()
	deny := func(name string, w world, says ...string) row {
		return row{name, w, guard.Deny, "Unsafe", append(says, "(PodPolicy guarded)")}
	}
	var rows []row
	for _, road := range podRoads {
		rows = append(rows,
			deny(string(road)+", silent", dangerous(on(road)), "pod shop/db-0 may still run on "+silent, "it is a pod of StatefulSet db, so its replacement could run beside it",
				"wait until its node is back, or fenced; if n1 is known to be off: "+confirmNode+"; if you accept that it may run twice: "+confirmPod+", and repeat"),
			deny(string(road)+", ready", dangerous(on(road), ready), "pod shop/db-0 may still run on n1 (ready)", "its replacement could run beside it", confirmPod, "!"+confirmNode, "!fenced"),
			deny(string(road)+", exclusive claim", dangerous(on(road), unowned, claims("data"), claimed("data", corev1.ReadWriteOnce)), "its claim data is ReadWriteOnce, so its replacement"),
			deny(string(road)+", state unknown", dangerous(on(road), nodeIs(guard.NodeUnknown)), "n1 (whose state could not be read)", "try again", confirmPod, "!silent", "!is back"),
			deny(string(road)+", never heard of", dangerous(on(road), heardOf(time.Time{})), "n1 (not ready, never heard of)", confirmNode),
		)
	}
	rows = append(rows,
		deny("delete, ready", dangerous(ready), "kubectl delete pod -n shop db-0, without --force"),
		deny("status, ready", dangerous(on(guard.RoadStatus), ready), "wait until its kubelet has stopped it", "!--force"),
		deny("finalizer, ready", dangerous(on(guard.RoadFinalizer), ready), "wait until its kubelet has stopped it", "!--force"),
		deny("finalizer, ready, a negative grace stored", dangerous(on(guard.RoadFinalizer), terminating(new(int64(-1))), ready), "wait until its kubelet has stopped it", "!already", "!kubectl delete"),
		deny("forced while its kubelet is stopping it", dangerous(terminating(new(int64(30))), ready), "it is being deleted already: wait until its kubelet has stopped it; what holds that up: kubectl describe pod -n shop db-0", "!without --force"),
		deny("own grace 0: there was no --force to leave out", dangerous(ready, noGrace, ownGrace(0)), "!without --force", "kubectl delete pod -n shop db-0 --grace-period=30"),
		deny("half-done: its plain delete is what was refused", dangerous(ready, noGrace, halfDone), "!without --force", "it is being deleted already: wait until its kubelet has stopped it"),
		deny("eviction, ready: nobody typed --force", dangerous(on(guard.RoadEviction), ready), "!without --force", "evict or drain without --grace-period=0"),
		deny("eviction, own grace 0, ready", dangerous(on(guard.RoadEviction), noGrace, ownGrace(0), ready), "its own grace period is 0, give it one: kubectl drain --grace-period=30", "!without --grace-period=0", "!half-way"),
		deny("eviction with grace 0, own grace 0 too", dangerous(on(guard.RoadEviction), ownGrace(0), ready), "kubectl drain --grace-period=30", "!without --grace-period=0"),
		deny("eviction, own grace 0, silent", dangerous(on(guard.RoadEviction), noGrace, ownGrace(0)), "Ways on: its own grace period is 0, give it one: kubectl drain --grace-period=30", "; wait until its node is back", confirmNode, confirmPod),
		deny("eviction, own grace 0, state unknown", dangerous(on(guard.RoadEviction), noGrace, ownGrace(0), nodeIs(guard.NodeUnknown)), "kubectl drain --grace-period=30", "; try again when its node's state can be read"),
		deny("eviction of a half-done", dangerous(on(guard.RoadEviction), noGrace, ownGrace(0), halfDone, ready),
			": a force delete of it was refused half-way, so evicting it would remove it at once, and it is a pod of StatefulSet db, so its replacement could run beside it. Ways on: it is being deleted already: wait until its kubelet has stopped it; "+
				"if you accept that it may run twice: "+confirmPod, "!--grace-period"),
		deny("eviction of a half-done, silent", dangerous(on(guard.RoadEviction), noGrace, halfDone), "was refused half-way", "Ways on: wait until its node is back", "!--grace-period"),
		deny("ready, although long not heard of: our clock may be ahead", dangerous(ready, heardOf(now.Add(-10*time.Minute))), "n1 (ready)", "kubectl delete pod -n shop db-0, without --force", "!is back", "!"+confirmNode),
		deny("not ready, but not silent", dangerous(heardOf(now.Add(-5*time.Second))), "n1 (not ready, but heard of at 11:59:55 UTC)", "kubectl delete pod -n shop db-0, without --force", "!silent", "!"+confirmNode),
		deny("clock jumped back", dangerous(heardOf(now.Add(10*time.Minute))), "n1 (not ready, but heard of at 12:10:00 UTC)", "!-10m"),
		deny("an owner whose name turns the reading direction round", dangerous(ownedBy("StatefulSet", "db\u202emrifnoc")), "it is a pod of StatefulSet db?mrifnoc, so its replacement"),
		deny("an owner whose name could move the cursor", dangerous(ownedBy("StatefulSet", "db\x1b[2K\n\xff")), "it is a pod of StatefulSet db?[2K??, so its replacement"),
		deny("a pod whose node holds a volume", dangerous(holding("pv-data")), ", so its replacement could run beside it; by the volume lock that one would wait, since its node keeps volume pv-data until it is proved to be rid of it.",
			"; what that waits for: kubectl podgrace volumelock list n1."),
		deny("a pod whose node holds volumes", dangerous(holding("a", "b", "c", "d")), "its node keeps volumes a, b, c and 1 more until it is proved to be rid of them."),
		row{"two policies", dangerous(func(w *world) { w.facts.Policy.Names = []string{"a", "b"} }), guard.Deny, "Unsafe", []string{"(PodPolicy a, b)"}},
	)
	testRows(t, rows)
}

func TestRefusalOfNodes(t *testing.T) {
	t.Parallel()
	bound := func(n int) option {
		return func(w *world) {
			w.facts.Bound = bound{}
			for i := n; i > 0; i-- { // not in their order
				w.facts.Bound[v1alpha1.RemovalDeny] = append(w.facts.Bound[v1alpha1.RemovalDeny], &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("db-%d", i-1)}})
			}
		}
	}
	unlisted := func(w *world) { w.facts.Bound, w.facts.BoundKnown = nil, false }
	deny := func(name string, w world, says ...string) row {
		return row{name, w, guard.Deny, "Unsafe", append(says, "(PodPolicy guarded)")}
	}
	testRows(t, []row{
		deny("delete, ready", dangerous(on(guard.RoadNode), ready), confirmNode, "pods may still run on node n1 (ready)", "without the Node object its pods are force-deleted: shop/db-0.", "Ways on: drain it: kubectl drain n1 --ignore-daemonsets; the DELETE passes once nothing protected is bound to it; once"),
		deny("the last finalizer of one that is being deleted", dangerous(on(guard.RoadNode), ready, func(w *world) {
			w.req.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now}}}
		}),
			": it is being deleted, and this takes its last finalizer away; without the Node object its pods are force-deleted: shop/db-0."),
		deny("delete, ready, although long not heard of: our clock may be ahead", dangerous(on(guard.RoadNode), ready, heardOf(now.Add(-10*time.Minute))), "node n1 (ready)", "drain it", "!is back"),
		deny("delete, its state could not be read", dangerous(on(guard.RoadNode), nodeIs(guard.NodeUnknown)), "pods may still run on node n1 (whose state could not be read)", "try again", "!is back", "!silent"),
		deny("delete, not ready, but not silent", dangerous(on(guard.RoadNode), heardOf(now.Add(-5*time.Second))), "node n1 (not ready, but heard of at 11:59:55 UTC)", "nothing protected is bound to it; or wait until it is back, or silent; once", confirmNode),
		deny("delete, held by new finalizers", dangerous(on(guard.RoadNode), ready, holdsFrom(now.Add(time.Minute))),
			"Ways on: its finalizers are too new to be sure to hold it: delete it again after 12:01:00 UTC, which then only begins its drain; drain it: kubectl drain n1", confirmNode),
		deny("delete, silent", dangerous(on(guard.RoadNode)), confirmNode, "pods may still run on node "+silent, "shop/db-0", "wait until it is back, or fenced"),
		deny("delete, many pods: five are named", dangerous(on(guard.RoadNode), bound(9)), "shop/db-0, shop/db-1, shop/db-2, shop/db-3, shop/db-4, 4 more.", "!db-5"),
		deny("delete, six pods: one is not named", dangerous(on(guard.RoadNode), bound(6)), "shop/db-4, 1 more.", "!db-5"),
		deny("delete, five pods", dangerous(on(guard.RoadNode), bound(5)), "shop/db-3, shop/db-4.", "!more"),
		deny("delete, pods that could not be listed", dangerous(on(guard.RoadNode), unlisted), "which they are could not be read"),
		deny("taint, ready", dangerous(on(guard.RoadOutOfService), ready), confirmNode, "pods may still run on node n1 (ready)", "the taint makes Kubernetes force-delete its pods and detach its volumes", "Ways on: drain it: kubectl drain n1 --ignore-daemonsets; once"),
		deny("taint, silent", dangerous(on(guard.RoadOutOfService)), confirmNode, "pods may still run on node "+silent, "wait until it is back, or fenced"),
		deny("taint of a Node that is created", dangerous(on(guard.RoadOutOfService), nodeIs(guard.NodeGone)), "n1 (which has no Node object any more)", "Ways on: create it without the taint."),
		deny("delete of a Node that is gone meanwhile", dangerous(on(guard.RoadNode), nodeIs(guard.NodeGone)), "n1 (which has no Node object any more)", "!without the taint"),
		deny("attachment, ready", dangerous(on(guard.RoadVolumeAttachment), ready), confirmNode, "node n1 (ready) may still write to volume pv-data", "without the VolumeAttachment it can be attached elsewhere as well", "delete the pods that use it"),
		deny("attachment of a volume that is locked", dangerous(on(guard.RoadVolumeAttachment), lockedBy("volume-1")), "node "+silent+" may still write to volume pv-data: it holds it by VolumeLock volume-1, and to delete the VolumeAttachment gives it to no other node before that is released",
			"what its release waits for: kubectl podgrace volumelock list volume-1", "!attached elsewhere"),
		deny("attachment, silent", dangerous(on(guard.RoadVolumeAttachment)), confirmNode, "node "+silent+" may still write to volume pv-data"),
		deny("attachment, state unknown", dangerous(on(guard.RoadVolumeAttachment), nodeIs(guard.NodeUnknown)), "node n1 (whose state could not be read)"),
		deny("attachment of an inline volume", dangerous(on(guard.RoadVolumeAttachment), func(w *world) { w.req.VolumeAttachment.Spec.Source.PersistentVolumeName = nil }), "volume of csi-1"),
	})
}

// A policy that only warns says the same words.
func TestRefusalAsAWarning(t *testing.T) {
	t.Parallel()
	for _, road := range allRoads {
		denied, warned := dangerous(on(road)).decide(), dangerous(on(road), action(v1alpha1.RemovalWarn)).decide()
		if warned.Verdict != guard.Warn || warned.Reason != denied.Reason || warned.Message() != denied.Message() {
			t.Errorf("%s: got %+v, want %+v as a warning", road, warned, denied)
		}
	}
}

// TestMessagesAreOneLine: a tenant writes the names of owners and claims (the API server wants only that they are not
// empty), and an administrator's terminal shows the refusal.
func TestMessagesAreOneLine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"db\nit is safe: confirm", "\x1b[2K\r", "\xff", "db\u2028x", "db\u202ex", "\u2066x"})).Draw(t, "name")
		road := rapid.SampledFrom(podRoads).Draw(t, "road")
		owner := rapid.SampledFrom([]option{ownedBy("StatefulSet", name), ownedBy("ReplicaSet", "web")}).Draw(t, "owner")
		got := dangerous(on(road), owner, claims(name)).decide()
		if problem := unfit(got); problem != "" {
			t.Fatalf("message %q %s", got.Message(), problem)
		}
	})
}

func raising(w *world) { w.facts.Policy.EvictionWithoutGrace = v1alpha1.GraceRaise }

func TestRaise(t *testing.T) {
	t.Parallel()
	evicted := func(options ...option) world {
		return dangerous(append([]option{on(guard.RoadEviction), raising}, options...)...)
	}
	for name, tc := range map[string]struct {
		world world
		want  int64 // 0: not raised
	}{
		"with grace 0":                {evicted(ownGrace(45)), 45},
		"with grace 0, own grace 0":   {evicted(ownGrace(0)), 30},
		"plain, own grace 0":          {evicted(noGrace, ownGrace(0)), 30},
		"plain":                       {evicted(noGrace), 0},
		"half-done":                   {evicted(halfDone), 0},
		"half-done, plain":            {evicted(halfDone, noGrace), 0},
		"shortens while terminating":  {evicted(terminating(new(int64(20)))), 30},
		"the policy refuses it":       {evicted(func(w *world) { w.facts.Policy.EvictionWithoutGrace = v1alpha1.GraceDeny }), 0},
		"the policy warns":            {evicted(action(v1alpha1.RemovalWarn)), 0},
		"unprotected":                 {evicted(unowned), 0},
		"confirmed":                   {evicted(confirmedAgo(0)), 0},
		"a node enforcer of another":  {evicted(by(enforcer)), 0},
		"no eviction, but a deletion": {dangerous(raising), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, raised := guard.Raise(tc.world.req, tc.world.facts, tc.world.decide())
			if raised != (tc.want != 0) || raised && got != tc.want {
				t.Errorf("got %d %v, want %d", got, raised, tc.want)
			}
		})
	}
}
