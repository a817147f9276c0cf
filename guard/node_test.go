package guard_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
)

// asStored is a node as the API server has it, and its lease.
type asStored struct {
	node  *corev1.Node
	lease *coordinationv1.Lease
	now   time.Time
}

type nodeOption func(*asStored)

// silentNode has been silent for ten minutes.
func silentNode(options ...nodeOption) *asStored {
	s := &asStored{now: now, node: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-1", Annotations: map[string]string{}},
		Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "boot-1"}},
	}}
	says(corev1.ConditionUnknown, 10*time.Minute)(s)
	renewed(10 * time.Minute)(s)
	for _, o := range options {
		o(s)
	}
	return s
}

func (s *asStored) read() guard.Node { return guard.NodeOf(s.node, s.lease, s.now) }

// says is what the Ready condition says, and how long ago its kubelet wrote it.
func says(status corev1.ConditionStatus, ago time.Duration) nodeOption {
	return func(s *asStored) {
		s.node.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Time{Time: now}},
			{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: metav1.Time{Time: now.Add(-ago)}},
		}
	}
}

func renewed(ago time.Duration) nodeOption {
	return func(s *asStored) {
		s.lease = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: now.Add(-ago)}}}
	}
}

// lasts is how long the lease says that it lasts, in seconds.
func lasts(seconds int32) nodeOption {
	return func(s *asStored) { s.lease.Spec.LeaseDurationSeconds = &seconds }
}

func noLease(s *asStored) { s.lease = nil }

func off(text string) nodeOption {
	return func(s *asStored) { s.node.Annotations[guard.AnnotationConfirmOff] = text }
}

// offNow is confirmed as it is.
func offNow(s *asStored) { off(guard.ConfirmOff(s.node, s.lease))(s) }

func clock(jump time.Duration) nodeOption { return func(s *asStored) { s.now = now.Add(jump) } }

func tainted(key string, effect corev1.TaintEffect) nodeOption {
	return func(s *asStored) {
		s.node.Spec.Taints = []corev1.Taint{{Key: "other"}, {Key: key, Effect: effect}, {Key: "another"}}
	}
}

// written is what the API server notes of a write.
func written(of func(*asStored) *metav1.ObjectMeta, manager, subresource string, ago time.Duration) func(*asStored) {
	return func(s *asStored) {
		meta := of(s)
		meta.ManagedFields = append(meta.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Operation: metav1.ManagedFieldsOperationUpdate, Time: &metav1.Time{Time: now.Add(-ago)}})
	}
}

func TestNodeOf(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, tt := range []struct {
		name string
		node *asStored
		want guard.Node // but for its name, state, UID and bootID
	}{
		{"silent", silentNode(), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"ready", silentNode(says(corev1.ConditionTrue, time.Minute), renewed(5*time.Second)), guard.Node{Ready: true, Heartbeat: ago(5 * time.Second)}},
		{"not ready", silentNode(says(corev1.ConditionFalse, 5*time.Second)), guard.Node{Heartbeat: ago(5 * time.Second)}},
		{"the lease is newer than the condition", silentNode(says(corev1.ConditionUnknown, 20*time.Minute)), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"the condition is newer than the lease", silentNode(says(corev1.ConditionUnknown, time.Minute)), guard.Node{Heartbeat: ago(time.Minute)}},
		{"no lease", silentNode(noLease, says(corev1.ConditionUnknown, time.Hour)), guard.Node{Heartbeat: ago(time.Hour)}},
		{"a lease that was never renewed", silentNode(func(s *asStored) { s.lease.Spec.RenewTime = nil }), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"its clock is behind: the lease was received a moment ago", silentNode(written(func(s *asStored) *metav1.ObjectMeta { return &s.lease.ObjectMeta }, "kubelet", "", 5*time.Second)), guard.Node{Heartbeat: ago(5 * time.Second)}},
		{"its clock is ahead: the lease was received an hour ago", silentNode(renewed(-time.Minute), written(func(s *asStored) *metav1.ObjectMeta { return &s.lease.ObjectMeta }, "kubelet", "", time.Hour)), guard.Node{Heartbeat: ago(-time.Minute)}},
		{"its clock is behind, no lease: the status was received a moment ago", silentNode(noLease, written(func(s *asStored) *metav1.ObjectMeta { return &s.node.ObjectMeta }, "kubelet", "status", 5*time.Second)), guard.Node{Heartbeat: ago(5 * time.Second)}},
		{"somebody else wrote the status", silentNode(written(func(s *asStored) *metav1.ObjectMeta { return &s.node.ObjectMeta }, "kube-controller-manager", "status", 5*time.Second)), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"the kubelet wrote labels, which it does once", silentNode(written(func(s *asStored) *metav1.ObjectMeta { return &s.node.ObjectMeta }, "kubelet", "", 5*time.Second)), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"confirmed, and its lease received since", silentNode(offNow, written(func(s *asStored) *metav1.ObjectMeta { return &s.lease.ObjectMeta }, "kubelet", "", 5*time.Second)), guard.Node{Heartbeat: ago(5 * time.Second)}},
		{"never heard of", silentNode(noLease, func(s *asStored) { s.node.Status.Conditions = nil }), guard.Node{}},
		{"pressure is not readiness", silentNode(noLease, func(s *asStored) { s.node.Status.Conditions = s.node.Status.Conditions[:1] }), guard.Node{}},

		{"out of service", silentNode(tainted(corev1.TaintNodeOutOfService, corev1.TaintEffectNoExecute)), guard.Node{Heartbeat: ago(10 * time.Minute), OutOfService: true}},
		{"out of service with another effect: Kubernetes looks at the key", silentNode(tainted(corev1.TaintNodeOutOfService, corev1.TaintEffectNoSchedule)), guard.Node{Heartbeat: ago(10 * time.Minute), OutOfService: true}},
		{"another taint", silentNode(tainted(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)), guard.Node{Heartbeat: ago(10 * time.Minute)}},

		{"confirmed", silentNode(offNow), guard.Node{Heartbeat: ago(10 * time.Minute), ConfirmedOff: true}},
		{"confirmed, never heard of", silentNode(noLease, func(s *asStored) { s.node.Status.Conditions = nil }, offNow), guard.Node{ConfirmedOff: true}},
		{"confirmed, and its lease renewed since", silentNode(offNow, renewed(9*time.Minute)), guard.Node{Heartbeat: ago(9 * time.Minute)}},
		{"confirmed, and its lease renewed by a clock that is behind", silentNode(offNow, renewed(time.Hour)), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"confirmed, and its lease is gone", silentNode(offNow, noLease), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"confirmed, and heard of since by its condition alone", silentNode(offNow, says(corev1.ConditionUnknown, 8*time.Minute)), guard.Node{Heartbeat: ago(8 * time.Minute)}},
		{"confirmed, and heard of since by a clock that is behind", silentNode(offNow, says(corev1.ConditionUnknown, time.Hour)), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"confirmed, whoever owns the annotation", silentNode(offNow, func(s *asStored) { s.node.ManagedFields = nil }), guard.Node{Heartbeat: ago(10 * time.Minute), ConfirmedOff: true}},
		{"confirmed for another node of this name", silentNode(offNow, off("node-0/boot-1/2026-11-20T11:50:00Z/2026-11-20T11:50:00.000000Z")), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"confirmed for the boot before", silentNode(offNow, off("node-1/boot-0/2026-11-20T11:50:00Z/2026-11-20T11:50:00.000000Z")), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"confirmed without a boot", silentNode(off("node-1//2026-11-20T11:50:00Z/2026-11-20T11:50:00.000000Z")), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"confirmed as an earlier version did: it may be of any silence", silentNode(off("node-1/boot-1")), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"confirmed with a word", silentNode(offNow, off("true")), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"an empty confirmation", silentNode(offNow, off("")), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"it booted again since", silentNode(offNow, func(s *asStored) { s.node.Status.NodeInfo.BootID = "boot-2" }), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"it was recreated since", silentNode(offNow, func(s *asStored) { s.node.UID = "node-2" }), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"no UID: hand-written manifests confirm nothing", silentNode(func(s *asStored) { s.node.UID, s.node.Status.NodeInfo.BootID = "", "" }, offNow), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"no UID, but a boot", silentNode(func(s *asStored) { s.node.UID = "" }, offNow), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"ready again", silentNode(offNow, says(corev1.ConditionTrue, 10*time.Minute)), guard.Node{Ready: true, Heartbeat: ago(10 * time.Minute)}},
		{"heard of by its lease", silentNode(offNow, renewed(5*time.Second)), guard.Node{Heartbeat: ago(5 * time.Second)}},
		{"heard of by its condition, and not ready", silentNode(offNow, says(corev1.ConditionFalse, 5*time.Second)), guard.Node{Heartbeat: ago(5 * time.Second)}},
		{"silent for a lease's duration", silentNode(says(corev1.ConditionUnknown, time.Hour), renewed(40*time.Second), offNow), guard.Node{Heartbeat: ago(40 * time.Second)}},
		{"no bootID: it never said so much as hello", silentNode(func(s *asStored) { s.node.Status.NodeInfo.BootID = "" }, offNow), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"silent for longer than that", silentNode(says(corev1.ConditionUnknown, time.Hour), renewed(40*time.Second+1), offNow), guard.Node{Heartbeat: ago(40*time.Second + 1), ConfirmedOff: true}},

		{"silent for less than its own lease lasts", silentNode(says(corev1.ConditionUnknown, time.Hour), renewed(200*time.Second), lasts(200), offNow), guard.Node{Heartbeat: ago(200 * time.Second), Lease: 200 * time.Second}},
		{"silent for longer than its own lease lasts", silentNode(says(corev1.ConditionUnknown, time.Hour), renewed(201*time.Second), lasts(200), offNow), guard.Node{Heartbeat: ago(201 * time.Second), Lease: 200 * time.Second, ConfirmedOff: true}},
		{"a lease of a second lasts as long as the default one", silentNode(says(corev1.ConditionUnknown, time.Hour), renewed(30*time.Second), lasts(1), offNow), guard.Node{Heartbeat: ago(30 * time.Second)}},
		{"a lease for ever lasts ten minutes", silentNode(says(corev1.ConditionUnknown, time.Hour), renewed(10*time.Minute+1), lasts(1<<30), offNow), guard.Node{Heartbeat: ago(10*time.Minute + 1), Lease: 10 * time.Minute, ConfirmedOff: true}},

		{"our clock jumped back: its heartbeat is of the future", silentNode(offNow, clock(-time.Hour)), guard.Node{Heartbeat: ago(10 * time.Minute)}},
		{"our clock jumped forward: a ready node stays ready", silentNode(says(corev1.ConditionTrue, 0), renewed(0), offNow, clock(24*time.Hour)), guard.Node{Ready: true, Heartbeat: now}},
		{"our clock jumped forward: silence alone confirms nothing", silentNode(says(corev1.ConditionFalse, 0), renewed(0), clock(24*time.Hour)), guard.Node{Heartbeat: now}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.want.Lease = max(tt.want.Lease, guard.DefaultLease)
			tt.want.LastSign = guard.ConfirmOff(tt.node.node, tt.node.lease)
			tt.want.Name, tt.want.State, tt.want.UID, tt.want.BootID = "n1", guard.NodePresent, tt.node.node.UID, tt.node.node.Status.NodeInfo.BootID
			if diff := cmp.Diff(tt.want, tt.node.read()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A confirmation is void at the node's next heartbeat, for good: that it was heard of proves that it was not off, so what
// was confirmed says nothing about its next silence, in the same boot.
func TestConfirmationOfANodeDoesNotRevive(t *testing.T) {
	t.Parallel()
	s := silentNode(says(corev1.ConditionUnknown, 60*time.Minute), renewed(60*time.Minute))
	s.now = now.Add(-50 * time.Minute)
	offNow(s)
	if !s.read().ConfirmedOff {
		t.Fatal("it does not count at once")
	}
	says(corev1.ConditionTrue, 30*time.Minute)(s)
	renewed(30 * time.Minute)(s)
	if s.now = now.Add(-30 * time.Minute); s.read().ConfirmedOff {
		t.Error("it counts while the node is heard of")
	}
	says(corev1.ConditionUnknown, 30*time.Minute)(s)
	if s.now = now; s.read().ConfirmedOff {
		t.Error("heard of since, and silent again: the old confirmation counts once more")
	}
	if offNow(s); !s.read().ConfirmedOff {
		t.Error("it can't be confirmed anew")
	}
}

func TestConfirmOff(t *testing.T) {
	t.Parallel()
	values := map[string]bool{}
	different := []*asStored{
		silentNode(), silentNode(func(s *asStored) { s.node.Status.NodeInfo.BootID = "boot-2" }), silentNode(func(s *asStored) { s.node.UID = "node-2" }),
		silentNode(says(corev1.ConditionUnknown, time.Hour)), silentNode(renewed(9 * time.Minute)), silentNode(renewed(10*time.Minute - time.Microsecond)), silentNode(noLease),
	}
	for _, s := range different {
		values[guard.ConfirmOff(s.node, s.lease)] = true
	}
	if got := guard.ConfirmOff(different[0].node, different[0].lease); got != "node-1/boot-1/2026-11-20T11:50:00Z/2026-11-20T11:50:00.000000Z" { // as AnnotationConfirmOff promises
		t.Errorf("got %q", got)
	}
	if len(values) != len(different) {
		t.Errorf("two of these nodes have one value: %v", values)
	}
	empty := silentNode(noLease, func(s *asStored) { s.node.Status.Conditions = nil })
	if got := guard.ConfirmOff(empty.node, empty.lease); got != "node-1/boot-1//" {
		t.Errorf("never heard of: got %q", got)
	}
}

// TestConfirmedOffIsSilence: whatever a node and its lease say, confirmed off means not ready, of this UID and boot, and
// nothing heard by either way; and a later heartbeat never makes it so.
func TestConfirmedOffIsSilence(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		status := rapid.SampledFrom([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}).Draw(t, "status")
		ago := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(-100, 100).Draw(t, "seconds")) * time.Second
		})
		condition, lease := ago.Draw(t, "condition"), ago.Draw(t, "lease")
		s := silentNode(says(status, condition), renewed(lease), clock(ago.Draw(t, "clock")))
		offNow(s)
		change := rapid.SampledFrom([]nodeOption{func(*asStored) {}, func(*asStored) {}, off(""), off("node-1/boot-1"), off("node-1/boot-1/2026-11-20T11:50:00Z/"),
			says(status, condition-time.Second), says(status, condition+time.Second), renewed(lease - time.Microsecond), renewed(lease + time.Microsecond), noLease,
			func(s *asStored) { s.node.Status.NodeInfo.BootID = "boot-2" }, func(s *asStored) { s.node.UID = "node-2" },
		}).Draw(t, "since")
		change(s)
		got := s.read()
		silent := s.now.Sub(now.Add(-condition)) > 40*time.Second && s.now.Sub(now.Add(-lease)) > 40*time.Second
		if got.ConfirmedOff && (status == corev1.ConditionTrue || s.node.Annotations[guard.AnnotationConfirmOff] != guard.ConfirmOff(s.node, s.lease) || !silent) {
			t.Fatalf("%+v", got)
		}
		renewed(lease - time.Duration(rapid.IntRange(1, 200).Draw(t, "later"))*time.Second)(s)
		if later := s.read(); later.ConfirmedOff && !got.ConfirmedOff {
			t.Fatalf("a later heartbeat makes it off: %+v, then %+v", got, later)
		}
	})
}

func TestNodeRoads(t *testing.T) {
	t.Parallel()
	empty := func(w *world) { w.facts.Bound = nil }
	unlisted := func(w *world) { w.facts.Bound, w.facts.BoundKnown = nil, false }
	testRows(t, []row{
		{name: "delete: ready, with a protected pod", world: dangerous(on(guard.RoadNode), ready), verdict: guard.Deny, reason: "Unsafe"},
		{name: "delete: silent, with a protected pod", world: dangerous(on(guard.RoadNode)), verdict: guard.Deny, reason: "Unsafe"},
		{name: "delete: confirmed off", world: dangerous(on(guard.RoadNode), confirmedOff), verdict: guard.Allow, reason: "NodeStopped"},
		{name: "delete: confirmed off, but ready again", world: dangerous(on(guard.RoadNode), confirmedOff, ready), verdict: guard.Deny, reason: "Unsafe"},
		{name: "delete: nothing protected runs on it", world: dangerous(on(guard.RoadNode), ready, empty), verdict: guard.Allow, reason: "NothingProtectedOnNode"},
		{name: "delete: its pods could not be listed", world: dangerous(on(guard.RoadNode), unlisted), verdict: guard.Deny, reason: "Unsafe"},
		{name: "delete: its state could not be read", world: dangerous(on(guard.RoadNode), nodeIs(guard.NodeUnknown)), verdict: guard.Deny, reason: "Unsafe"},
		{name: "delete: no policy", world: dangerous(on(guard.RoadNode), under(policy.Removal{})), verdict: guard.Allow, reason: "NotGuarded"},
		{name: "delete: held by finalizers", world: dangerous(on(guard.RoadNode), ready, holdsFrom(now.Add(-time.Hour))), verdict: guard.Allow, reason: "Held"},
		{name: "delete: held for just long enough", world: dangerous(on(guard.RoadNode), holdsFrom(now)), verdict: guard.Allow, reason: "Held"},
		{name: "delete: held for not long enough", world: dangerous(on(guard.RoadNode), ready, holdsFrom(now.Add(time.Nanosecond))), verdict: guard.Deny, reason: "Unsafe"},
		{name: "delete: held for not long enough, but confirmed off", world: dangerous(on(guard.RoadNode), confirmedOff, holdsFrom(now.Add(time.Minute))), verdict: guard.Allow, reason: "NodeStopped"},
		{name: "taint: finalizers hold no pod", world: dangerous(on(guard.RoadOutOfService), ready, holdsFrom(now.Add(-time.Hour))), verdict: guard.Deny, reason: "Unsafe"},
		{name: "delete: a pod's confirmation says nothing of the node", world: dangerous(confirmedAgo(0), on(guard.RoadNode)), verdict: guard.Deny, reason: "Unsafe"},

		{name: "taint: ready", world: dangerous(on(guard.RoadOutOfService), ready), verdict: guard.Deny, reason: "Unsafe"},
		{name: "taint: silent, nobody confirmed", world: dangerous(on(guard.RoadOutOfService)), verdict: guard.Deny, reason: "Unsafe"},
		{name: "taint: confirmed off", world: dangerous(on(guard.RoadOutOfService), confirmedOff), verdict: guard.Allow, reason: "NodeStopped"},
		{name: "taint: confirmed off, but ready again", world: dangerous(on(guard.RoadOutOfService), confirmedOff, ready), verdict: guard.Deny, reason: "Unsafe"},
		{name: "taint: its state could not be read", world: dangerous(on(guard.RoadOutOfService), nodeIs(guard.NodeUnknown)), verdict: guard.Deny, reason: "Unsafe"},
		{name: "taint: that it has no pods is not known here", world: dangerous(on(guard.RoadOutOfService), ready, empty), verdict: guard.Deny, reason: "Unsafe"},

		{name: "attachment: ready", world: dangerous(on(guard.RoadVolumeAttachment), ready), verdict: guard.Deny, reason: "Unsafe"},
		{name: "attachment: silent", world: dangerous(on(guard.RoadVolumeAttachment)), verdict: guard.Deny, reason: "Unsafe"},
		{name: "attachment: confirmed off", world: dangerous(on(guard.RoadVolumeAttachment), confirmedOff), verdict: guard.Allow, reason: "NodeStopped"},
		{name: "attachment: the node is gone", world: dangerous(on(guard.RoadVolumeAttachment), nodeIs(guard.NodeGone)), verdict: guard.Allow, reason: "NodeGone"},
		{name: "attachment: its state could not be read", world: dangerous(on(guard.RoadVolumeAttachment), nodeIs(guard.NodeUnknown)), verdict: guard.Deny, reason: "Unsafe"},

		{name: "pod: its node is gone", world: dangerous(nodeIs(guard.NodeGone)), verdict: guard.Allow, reason: "NodeGone"},
		{name: "pod: finalizer, its node is gone", world: dangerous(on(guard.RoadFinalizer), nodeIs(guard.NodeGone)), verdict: guard.Allow, reason: "NodeGone"},
		{name: "pod: status, its node is gone", world: dangerous(on(guard.RoadStatus), nodeIs(guard.NodeGone)), verdict: guard.Allow, reason: "NodeGone"},
		{name: "pod: its node is confirmed off", world: dangerous(confirmedOff), verdict: guard.Allow, reason: "NodeStopped"},
		{name: "pod: its node was confirmed off, but could not be read now", world: dangerous(nodeIs(guard.NodeUnknown), confirmedOff), verdict: guard.Deny, reason: "Unsafe"},
		{name: "pod: its node is confirmed off, but ready again", world: dangerous(confirmedOff, ready), verdict: guard.Deny, reason: "Unsafe"},
	})
}
