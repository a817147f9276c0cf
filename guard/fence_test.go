package guard_test

import (
	"testing"

	"github.com/podgrace/podgrace/guard"
)

func TestFences(t *testing.T) {
	t.Parallel()
	boot := guard.Fence{Name: "f", NodeUID: "node-1", BootID: "boot-1"}
	var rows []row
	for _, road := range allRoads {
		rows = append(rows,
			row{name: string(road) + ": this boot of its node", world: dangerous(on(road), fences(boot)), verdict: guard.Allow, reason: "NodeStopped"},
			row{name: string(road) + ": the boot before", world: dangerous(on(road), fences(guard.Fence{NodeUID: "node-1", BootID: "boot-0"})), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": another node", world: dangerous(on(road), fences(guard.Fence{NodeUID: "node-2", BootID: "boot-1"})), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": a receipt for nothing", world: dangerous(on(road), fences(guard.Fence{Name: "f"})), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": a receipt for nothing, of a node without UID", world: dangerous(on(road), fences(guard.Fence{}), func(w *world) { w.facts.Node.UID, w.facts.Node.BootID = "", "" }), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": a receipt for a boot of no node, of a node without UID", world: dangerous(on(road), fences(guard.Fence{BootID: "boot-1"}), func(w *world) { w.facts.Node.UID = "" }), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": a receipt for no boot, of a node without bootID", world: dangerous(on(road), fences(guard.Fence{NodeUID: "node-1"}), func(w *world) { w.facts.Node.BootID = "" }), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": fenced, but ready again", world: dangerous(on(road), fences(boot), ready), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": fenced, but the node can't be read", world: dangerous(on(road), fences(boot), nodeIs(guard.NodeUnknown)), verdict: guard.Deny, reason: "Unsafe"},
		)
	}
	for _, road := range podRoads {
		rows = append(rows,
			row{name: string(road) + ": this very pod", world: dangerous(on(road), fences(guard.Fence{NodeUID: "node-9"}, guard.Fence{PodUID: "pod-1"})), verdict: guard.Allow, reason: "PodFenced"},
			row{name: string(road) + ": this very pod, whatever the node says", world: dangerous(on(road), ready, fences(guard.Fence{PodUID: "pod-1"})), verdict: guard.Allow, reason: "PodFenced"},
			row{name: string(road) + ": its predecessor of the same name", world: dangerous(on(road), fences(guard.Fence{PodUID: "pod-0"})), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": another pod of the same boot", world: dangerous(on(road), fences(guard.Fence{PodUID: "pod-0", NodeUID: "node-1", BootID: "boot-1"})), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": no pod, of a pod without UID", world: dangerous(on(road), fences(guard.Fence{}), func(w *world) { w.req.Pod.UID = "" }), verdict: guard.Deny, reason: "Unsafe"},
		)
	}
	testRows(t, rows)
}
