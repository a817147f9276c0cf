package guard_test

import (
	"testing"

	"github.com/podgrace/podgrace/guard"
)

func TestConfirmed(t *testing.T) {
	t.Parallel()
	const ask = "kubectl podgrace confirm -n shop db-0"
	var rows []row
	for _, road := range podRoads {
		rows = append(rows,
			row{name: string(road) + ": confirmed, by one who may", world: dangerous(on(road), confirms("pod-1"), may(guard.Yes)), verdict: guard.Allow, reason: "Confirmed"},
			row{name: string(road) + ": confirmed, on a ready node as well", world: dangerous(on(road), confirms("pod-1"), may(guard.Yes), ready), verdict: guard.Allow, reason: "Confirmed"},
			row{name: string(road) + ": the right alone is no confirmation", world: dangerous(on(road), may(guard.Yes)), verdict: guard.Deny, reason: "Unsafe", says: []string{ask}},
			row{name: string(road) + ": confirmed, by one who may not", world: dangerous(on(road), confirms("pod-1"), may(guard.No)), verdict: guard.Deny, reason: "Unsafe",
				says: []string{"it is confirmed, but you do not have the verb force-delete on pods.podgrace.dev in shop: ask an administrator of the namespace", "!" + ask}},
			row{name: string(road) + ": confirmed, and nobody could be asked for the right", world: dangerous(on(road), confirms("pod-1")), verdict: guard.Deny, reason: "Unsafe",
				says: []string{"it is confirmed, but you could not be shown to have the verb force-delete on pods.podgrace.dev in shop"}},
			row{name: string(road) + ": confirmed for its predecessor", world: dangerous(on(road), confirms("pod-0"), may(guard.Yes)), verdict: guard.Deny, reason: "Unsafe", says: []string{ask}},
			row{name: string(road) + ": confirmed with a word", world: dangerous(on(road), confirms("true"), may(guard.Yes)), verdict: guard.Deny, reason: "Unsafe", says: []string{ask}},
			row{name: string(road) + ": empty, of a pod without UID", world: dangerous(on(road), confirms(""), may(guard.Yes), func(w *world) { w.req.Pod.UID = "" }), verdict: guard.Deny, reason: "Unsafe"},
		)
	}
	testRows(t, rows)
}

// One force delete is reviewed two or three times, by whichever replica: a confirmation is not used up, and what the first
// review let be stored changes nothing.
func TestConfirmationIsReplayable(t *testing.T) {
	t.Parallel()
	first := dangerous(confirms("pod-1"), may(guard.Yes))
	again := dangerous(confirms("pod-1"), may(guard.Yes), halfDone)
	last := dangerous(on(guard.RoadFinalizer), confirms("pod-1"), may(guard.Yes))
	for i, w := range []world{first, first, again, again, last} {
		if got := w.decide(); got.Verdict != guard.Allow || got.Reason != "Confirmed" {
			t.Errorf("review %d: got %+v", i+1, got)
		}
	}
}
