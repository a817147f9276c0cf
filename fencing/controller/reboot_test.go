package controller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// A machine that its watchdog has reset boots by itself, and its kubelet may renew the Lease before it has reported the new boot: that voids nothing. The old boot does, by its next renewal.
func TestBootsAnewAfterTheReceipt(t *testing.T) {
	for name, test := range map[string]struct{ anew, reports bool }{
		"another boot":                 {anew: true},
		"the same boot":                {},
		"the same boot, which reports": {reports: true},
	} {
		i := newIncident(t, watchdog)
		if _, proved, released := i.run(t, 0, 0, false); proved == 0 || released == 0 {
			t.Fatalf("%s: proved after %s, released after %s", name, proved, released)
		}
		voids := func() (n int) {
			var receipts v1alpha1.FenceReceiptList
			if err := i.List(t.Context(), &receipts); err != nil {
				t.Fatal(err)
			}
			for r := range receipts.Items {
				if receipts.Items[r].Spec.Class == v1alpha1.EvidenceVoid {
					n++
				}
			}
			return n
		}
		report := func(change func(*corev1.NodeStatus)) {
			var n corev1.Node
			if err := i.Get(t.Context(), types.NamespacedName{Name: "n1"}, &n); err != nil {
				t.Fatal(err)
			}
			change(&n.Status)
			if err := i.Status().Update(t.Context(), &n); err != nil {
				t.Fatal(err)
			}
		}
		if test.reports {
			report(func(s *corev1.NodeStatus) {
				for c := range s.Conditions {
					s.Conditions[c].LastHeartbeatTime.Time = i.clock.Now()
				}
			})
		}
		i.pass(t, time.Second) // in which n1 renews its Lease
		if got, want := voids() > 0, test.reports; got != want {
			t.Errorf("%s: voided at once: %v", name, got)
		}
		if test.anew {
			report(func(s *corev1.NodeStatus) { s.NodeInfo.BootID = "boot-n1-2" })
		}
		i.pass(t, 11*time.Second)
		if got, want := voids() > 0, !test.anew; got != want {
			t.Errorf("%s: voided by the next renewal: %v", name, got)
		}
	}
}
