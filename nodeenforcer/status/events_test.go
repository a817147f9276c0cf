package status

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// What is beyond the limit is not told, and the limit is lifted with time.
func TestEventsLimit(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		var r statetest.Recorded
		e := NewEvents(&r)
		tell := func(n int) int {
			before := len(r)
			for range n {
				e.GivenUp(&corev1.Node{}, drift.Revert{})
			}
			return len(r) - before
		}
		if got := tell(1000); got != eventsBurst {
			t.Errorf("%d at once", got)
		}
		time.Sleep(10 * time.Second)
		if got := tell(1000); got != 5 {
			t.Errorf("%d after ten seconds", got)
		}
		time.Sleep(24 * time.Hour)
		if got := tell(1000); got != eventsBurst {
			t.Errorf("%d after a day", got)
		}
	})
}

func TestEvents(t *testing.T) {
	var r statetest.Recorded
	e := NewEvents(&r)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "1"}}
	e.GivenUp(node, drift.Revert{Where: drift.Where{Path: "/kubepods"}, File: "cpu.weight", Wrote: "79", Found: "100%s"})
	want := "*v1.Node Warning CgroupFileContested Repair: cpu.weight of /kubepods was set to 79 and reverted to 100%s again and again; it is left alone now"
	if len(r) != 1 || r[0] != want {
		t.Errorf("got %q", r)
	}
	e.tell(nodeReference(node), corev1.EventTypeNormal, "R", "A", strings.Repeat("ä", 1024))
	if note := strings.TrimPrefix(r[1], "*v1.Node Normal R A: "); len(note) > 1024 || !strings.HasSuffix(note, "ä...") {
		t.Errorf("%d bytes: %q", len(note), note[len(note)-8:])
	}
	var nobody *Events
	nobody.GivenUp(node, drift.Revert{})
}
