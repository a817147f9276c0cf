package guard_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/guard"
)

func TestConfirmed(t *testing.T) {
	t.Parallel()
	const ask = "kubectl podgrace confirm -n shop db-0"
	var rows []row
	for _, road := range podRoads {
		denied := func(name, why string, options ...option) row {
			return row{name: string(road) + ": " + name, world: dangerous(append([]option{on(road)}, options...)...), verdict: guard.Deny, reason: "Unsafe", says: []string{why, ask}}
		}
		allowed := func(name string, options ...option) row {
			return row{name: string(road) + ": " + name, world: dangerous(append([]option{on(road)}, options...)...), verdict: guard.Allow, reason: "Confirmed"}
		}
		const void = "Ways on: wait until its node is back, or fenced; if n1 is known to be off: kubectl podgrace confirm node/n1; its confirmation is void, "
		const accept = ": if you accept that it may run twice: "
		rows = append(rows,
			allowed("confirmed", confirmedAgo(0)),
			allowed("confirmed, on a ready node as well", ready, confirms("pod-1/2026-11-20T11:30:00Z")),
			allowed("confirmed 55 minutes ago", confirmedAgo(55*time.Minute)),
			denied("confirmed longer ago", void+"it is older than 55 minutes"+accept, confirmedAgo(2*time.Hour)),
			allowed("by a clock that is a little ahead", confirmedAgo(-5*time.Minute)),
			denied("by a clock that is far ahead", void+"it is of a time to come, check the clocks"+accept, confirmedAgo(-5*time.Minute-time.Second)),
			denied("its node was heard of since", void+"node n1 was heard of since"+accept, confirmedAgo(0), heardOf(now.Add(-time.Minute))),
			denied("its node was heard of since, and is ready", "its confirmation is void, node n1 was heard of since"+accept, confirmedAgo(0), ready),
			allowed("its node can't be read now", confirmedAgo(0), nodeIs(guard.NodeUnknown)),
			denied("confirmed for its predecessor", "if you accept that it may run twice: ", confirms("pod-0/2026-11-20T12:00:00Z")),
			denied("confirmed with a word", "", confirms("true")),
			denied("without a time", "it does not say when it was made", confirms("pod-1")),
			denied("with a time that is none", "it does not say when it was made, as in UID/2026-01-31T12:00:00Z", confirms("pod-1/now")),
			denied("with a heartbeat that is none", "it does not say when the node was last heard of", confirms("pod-1/2026-11-20T12:00:00Z/never")),
			denied("with too much", "it does not say when it was made", confirms("pod-1/2026-11-20T12:00:00Z/2026-11-20T11:50:00Z/x")),
			denied("of a pod without UID", "", confirms("/2026-11-20T12:00:00Z"), func(w *world) { w.req.Pod.UID = "" }),
		)
	}
	testRows(t, rows)
}

// A force delete that was confirmed when it began is completed when a controller gets round to its finalizer. One that began before it was
// confirmed is what the confirmation is for, and no longer than that lasts.
func TestConfirmedWhenItBegan(t *testing.T) {
	t.Parallel()
	began := func(ago time.Duration) option {
		return func(w *world) { w.req.Pod.DeletionTimestamp = &metav1.Time{Time: now.Add(-ago)} }
	}
	testRows(t, []row{
		{name: "began in time", world: dangerous(on(guard.RoadFinalizer), began(2*time.Hour), confirmedAgo(150*time.Minute)), verdict: guard.Allow, reason: "Confirmed"},
		{name: "began too late", world: dangerous(on(guard.RoadFinalizer), began(time.Hour), confirmedAgo(150*time.Minute)), verdict: guard.Deny, reason: "Unsafe"},
		{name: "began before, and its time is over", world: dangerous(on(guard.RoadFinalizer), began(3*time.Hour), confirmedAgo(150*time.Minute)), verdict: guard.Deny, reason: "Unsafe"},
		{name: "began in the same second, and its time is over", world: dangerous(on(guard.RoadFinalizer), began(150*time.Minute), confirmedAgo(150*time.Minute)), verdict: guard.Deny, reason: "Unsafe"},
		{name: "a second too late", world: dangerous(on(guard.RoadDelete), confirmedAgo(55*time.Minute+time.Second)), verdict: guard.Deny, reason: "Unsafe", says: []string{"its confirmation is void, it is older than 55 minutes"}},
		{name: "to delete it anew is another one", world: dangerous(on(guard.RoadDelete), began(2*time.Hour), confirmedAgo(150*time.Minute)), verdict: guard.Deny, reason: "Unsafe"},
	})
}

// One force delete is reviewed two or three times, by whichever replica: a confirmation is not used up, and what the first
// review let be stored changes nothing.
func TestConfirmationIsReplayable(t *testing.T) {
	t.Parallel()
	first := dangerous(confirmedAgo(0))
	again := dangerous(confirmedAgo(0), halfDone)
	last := dangerous(on(guard.RoadFinalizer), confirmedAgo(0))
	for i, w := range []world{first, first, again, again, last} {
		if got := w.decide(); got.Verdict != guard.Allow || got.Reason.Code != "Confirmed" {
			t.Errorf("review %d: got %+v", i+1, got)
		}
	}
}

func TestHeardSince(t *testing.T) {
	t.Parallel()
	const sign = "uid/boot/2026-11-20T12:00:00Z/2026-11-20T12:00:05.000000Z"
	for now, heard := range map[string]bool{
		sign: false,
		"uid/boot/2026-11-20T12:00:00Z/2026-11-20T12:00:15.000000Z":   true,
		"uid/boot/2026-11-20T12:05:00Z/2026-11-20T12:00:05.000000Z":   true,
		"uid/boot/2026-11-20T12:00:00Z/2026-11-20T11:00:05.000000Z":   true,  // its clock was set back
		"other/boot/2026-11-20T12:00:00Z/2026-11-20T12:00:05.000000Z": true,  // its Node was recreated
		"uid/boot/2026-11-20T12:00:00Z/":                              false, // its Lease was deleted
		"uid/boot//":                                                  false,
		"":                                                            true,
	} {
		if got := guard.HeardSince(sign, now); got != heard {
			t.Errorf("%q: %v", now, got)
		}
	}
}
