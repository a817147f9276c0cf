package guard_test

import (
	"testing"

	"github.com/podgrace/podgrace/guard"
)

// Each road is refused where it is dangerous, and has a way on.
func TestRoads(t *testing.T) {
	t.Parallel()
	var rows []row
	for _, road := range allRoads {
		rows = append(rows,
			row{name: string(road) + ", refused", world: dangerous(on(road)), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ", allowed", world: dangerous(on(road), confirmedOff), verdict: guard.Allow, reason: "NodeStopped"},
			row{name: string(road) + ", nothing is known", world: dangerous(on(road), nodeIs(guard.NodeUnknown)), verdict: guard.Deny, reason: "Unsafe"},
		)
	}
	testRows(t, rows)
}

func TestUnknownRoad(t *testing.T) {
	t.Parallel()
	testRows(t, []row{
		{name: "unknown", world: dangerous(on("detour")), verdict: guard.Deny, reason: "UnknownRoad", says: []string{"(detour)", "check the rules of its webhook configuration"}},
		{name: "none", world: world{}, verdict: guard.Deny, reason: "UnknownRoad"},
		{name: "a pod's road without a pod", world: dangerous(on(guard.RoadDelete), func(w *world) { w.req.Pod = nil }), verdict: guard.Deny, reason: "Incomplete", says: []string{"(delete)"}},
		{name: "an attachment's without one", world: dangerous(on(guard.RoadVolumeAttachment), func(w *world) { w.req.VolumeAttachment = nil }), verdict: guard.Deny, reason: "Incomplete"},
	})
}

// Rules that allow come first, in an order that the reason shows: it is what the audit log says.
func TestOrderOfRules(t *testing.T) {
	t.Parallel()
	all := []option{unscheduled, phase("Failed"), by(repair), actors(repair), confirmedAgo(0), confirmedOff, fences(guard.Fence{PodUID: "pod-1"}), noGrace}
	testRows(t, []row{
		{name: "not forced", world: dangerous(on(guard.RoadStatus), writes("Running"), func(w *world) { dangerousAll(w, all[1:]) }), verdict: guard.Allow, reason: "NotForced"},
		{name: "never scheduled", world: dangerous(all...), verdict: guard.Allow, reason: "NeverScheduled"},
		{name: "finished", world: dangerous(all[1:]...), verdict: guard.Allow, reason: "Finished"},
		{name: "allowed actor", world: dangerous(all[2:7]...), verdict: guard.Allow, reason: "AllowedActor"},
		{name: "fenced", world: dangerous(all[4:7]...), verdict: guard.Allow, reason: "PodFenced"},
		{name: "stopped", world: dangerous(all[4:6]...), verdict: guard.Allow, reason: "NodeStopped"},
		{name: "confirmed", world: dangerous(all[4:5]...), verdict: guard.Allow, reason: "Confirmed"},
	})
}

func dangerousAll(w *world, options []option) {
	for _, o := range options {
		o(w)
	}
}
