package lookup

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func heldNode(uid types.UID, version string, finalizers ...string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: uid, ResourceVersion: version, Finalizers: finalizers}}
}

// Since when a Node has been held is what counts: whatever interrupts it, or is not known, begins again.
func TestHolds(t *testing.T) {
	const hold = "karpenter.sh/termination"
	start := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		stored []*corev1.Node // one each second
		asked  *corev1.Node   // a second later
		want   time.Duration  // after the start, without the timeout
	}{
		"from its first version on":          {[]*corev1.Node{heldNode("a", "1", hold), heldNode("a", "2", hold)}, heldNode("a", "2", hold), time.Second},
		"another finalizer takes over":       {[]*corev1.Node{heldNode("a", "1", hold), heldNode("a", "2", hold, "x/y"), heldNode("a", "3", "x/y")}, heldNode("a", "3", "x/y"), time.Second},
		"added later":                        {[]*corev1.Node{heldNode("a", "1"), heldNode("a", "2", hold)}, heldNode("a", "2", hold), 2 * time.Second},
		"taken away and added":               {[]*corev1.Node{heldNode("a", "1", hold), heldNode("a", "2"), heldNode("a", "3", hold)}, heldNode("a", "3", hold), 3 * time.Second},
		"for a while by one that holds none": {[]*corev1.Node{heldNode("a", "1", hold), heldNode("a", "2", "orphan"), heldNode("a", "3", hold)}, heldNode("a", "3", hold), 3 * time.Second},
		"a recreated Node":                   {[]*corev1.Node{heldNode("a", "1", hold), heldNode("b", "2", hold)}, heldNode("b", "2", hold), 2 * time.Second},
		"gone and recreated":                 {[]*corev1.Node{heldNode("a", "1", hold), nil, heldNode("a", "3", hold)}, heldNode("a", "3", hold), 3 * time.Second},
		"what is asked is older":             {[]*corev1.Node{heldNode("a", "9", hold), heldNode("a", "10", hold)}, heldNode("a", "9", hold), time.Second},
		"what is asked is not known yet":     {[]*corev1.Node{heldNode("a", "9", hold)}, heldNode("a", "10", hold), 2 * time.Second},
		"the Node is not known":              {nil, heldNode("a", "1", hold), time.Second},
		"a version that is none":             {[]*corev1.Node{heldNode("a", "x", hold)}, heldNode("a", "x", hold), 2 * time.Second},
		"not held any more":                  {[]*corev1.Node{heldNode("a", "1", hold), heldNode("a", "2")}, heldNode("a", "1", hold), 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakePassiveClock(start)
			h := &Holds{RequestTimeout: time.Hour, Clock: clock}
			for _, n := range tc.stored {
				clock.SetTime(clock.Now().Add(time.Second))
				if n == nil {
					h.delete("n1")
				} else {
					h.set(n)
				}
			}
			clock.SetTime(clock.Now().Add(time.Second))
			if got := h.From(t.Context(), tc.asked).Sub(start) - time.Hour; got != tc.want {
				t.Errorf("held since %s, want %s", got, tc.want)
			}
		})
	}
}

// What is stored may be known a moment after it is asked about.
func TestHoldsWaits(t *testing.T) {
	h := &Holds{}
	h.set(heldNode("a", "1", "x/y"))
	since := h.of["n1"].since
	answer := make(chan time.Time)
	go func() { answer <- h.From(context.Background(), heldNode("a", "2", "x/y")) }()
	h.set(heldNode("a", "2", "x/y"))
	if got := <-answer; !got.Equal(since.Add(DefaultRequestTimeout)) {
		t.Errorf("got %s, want %s and a minute", got, since)
	}
}
