package guard_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
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
			row{name: string(road) + ": fenced, and heard of since", world: dangerous(on(road), fences(boot), func(w *world) { w.facts.Node.LastSign = "later" }), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": some other volume revoked", world: dangerous(on(road), fences(revoked("pv-other"))), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": its own volume revoked, but ready again", world: dangerous(on(road), ready, fences(revoked("pv-data"))), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": fenced, but ready again", world: dangerous(on(road), fences(boot), ready), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": fenced, but the node can't be read", world: dangerous(on(road), fences(boot), nodeIs(guard.NodeUnknown)), verdict: guard.Deny, reason: "Unsafe"},
		)
	}
	attachment := string(guard.RoadVolumeAttachment)
	rows = append(rows,
		row{name: attachment + ": its own volume revoked", world: dangerous(on(guard.RoadVolumeAttachment), fences(revoked("pv-other", "pv-data"))), verdict: guard.Allow, reason: "StorageRevoked"},
		row{name: attachment + ": revoked, and heard of since", world: dangerous(on(guard.RoadVolumeAttachment), fences(revoked("pv-data")), func(w *world) { w.facts.Node.LastSign = "later" }), verdict: guard.Deny, reason: "Unsafe"},
		row{name: attachment + ": an attachment of no PersistentVolume", world: dangerous(on(guard.RoadVolumeAttachment), fences(revoked("")), func(w *world) { w.req.VolumeAttachment.Spec.Source.PersistentVolumeName = nil }), verdict: guard.Deny, reason: "Unsafe"},
	)
	for _, road := range podRoads {
		rows = append(rows,
			row{name: string(road) + ": its volume revoked: what else it does goes on", world: dangerous(on(road), fences(revoked("pv-data"))), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": this very pod", world: dangerous(on(road), fences(guard.Fence{NodeUID: "node-9"}, guard.Fence{PodUID: "pod-1"})), verdict: guard.Allow, reason: "PodFenced"},
			row{name: string(road) + ": this very pod, whatever the node says", world: dangerous(on(road), ready, fences(guard.Fence{PodUID: "pod-1"})), verdict: guard.Allow, reason: "PodFenced"},
			row{name: string(road) + ": this very pod, but only volumes of it", world: dangerous(on(road), fences(guard.Fence{PodUID: "pod-1", Volumes: []string{"pv-other"}})), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": its predecessor of the same name", world: dangerous(on(road), fences(guard.Fence{PodUID: "pod-0"})), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": another pod of the same boot", world: dangerous(on(road), fences(guard.Fence{PodUID: "pod-0", NodeUID: "node-1", BootID: "boot-1"})), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": no pod, of a pod without UID", world: dangerous(on(road), fences(guard.Fence{}), func(w *world) { w.req.Pod.UID = "" }), verdict: guard.Deny, reason: "Unsafe"},
		)
	}
	volume := func(w *world) {
		unowned(w)
		claims("data")(w)
		Known(&w.facts.Claims, "data", policy.Claim{Modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Volume: "pv-data"})
	}
	for _, road := range podRoads {
		rows = append(rows,
			row{name: string(road) + ": all that it is protected for is revoked", world: dangerous(on(road), volume, fences(revoked("pv-other", "pv-data"))), verdict: guard.Allow, reason: "PodStorageRevoked"},
			row{name: string(road) + ": by receipts of two storages", world: dangerous(on(road), volume, fences(revoked("pv-other"), revoked("pv-data"))), verdict: guard.Allow, reason: "PodStorageRevoked"},
			row{name: string(road) + ": another volume is revoked", world: dangerous(on(road), volume, fences(revoked("pv-other"))), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": of the boot before", world: dangerous(on(road), volume, fences(guard.Fence{NodeUID: "node-1", BootID: "boot-0", Volumes: []string{"pv-data"}})), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": heard of since its volume was revoked", world: dangerous(on(road), volume, fences(revoked("pv-data")), func(w *world) { w.facts.Node.LastSign = "later" }), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": its volume revoked, and ready", world: dangerous(on(road), volume, ready, fences(revoked("pv-data"))), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": its volume revoked, and a hostPath", world: dangerous(on(road), volume, fences(revoked("pv-data")), func(w *world) {
				w.req.Pod.Spec.Volumes = append(w.req.Pod.Spec.Volumes, corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}})
			}), verdict: guard.Deny, reason: "Unsafe"},
			row{name: string(road) + ": its volume revoked, and all pods protected", world: dangerous(on(road), volume, fences(revoked("pv-data")), func(w *world) { w.facts.Policy.Protect.All = true }), verdict: guard.Deny, reason: "Unsafe"},
		)
	}
	testRows(t, rows)
}

// revoked is a receipt for some volumes of the boot.
func revoked(volumes ...string) guard.Fence {
	return guard.Fence{Name: "s", NodeUID: "node-1", BootID: "boot-1", Volumes: volumes}
}

// A receipt is void by one that was written for it alone: not by one from before it existed, nor by one for something else, on which its author may have a right that is lacking here.
func TestVoided(t *testing.T) {
	t.Parallel()
	boot := v1alpha1.BootReference{Name: "n1", UID: "node-1", BootID: "boot-1"}
	pod := v1alpha1.PodReference{Namespace: "shop", Name: "db-0", UID: "pod-1"}
	ofNode := v1alpha1.FenceReceiptSpec{Node: &boot, Class: v1alpha1.EvidencePoweredOff}
	ofPod := v1alpha1.FenceReceiptSpec{Pod: &pod, Class: v1alpha1.EvidenceConfirmed}
	void := v1alpha1.FenceReceiptSpec{Node: &boot, Class: v1alpha1.EvidenceVoid, Voids: "r", VoidsUID: "r-1"}
	for name, tc := range map[string]struct {
		of     v1alpha1.FenceReceiptSpec
		change func(*v1alpha1.FenceReceiptSpec)
		want   bool
	}{
		"of this receipt":               {ofNode, func(*v1alpha1.FenceReceiptSpec) {}, true},
		"of this receipt, for a pod":    {ofPod, func(s *v1alpha1.FenceReceiptSpec) { s.Node, s.Pod = nil, &pod }, true},
		"without a UID":                 {ofNode, func(s *v1alpha1.FenceReceiptSpec) { s.VoidsUID = "" }, true},
		"of an earlier one of the name": {ofNode, func(s *v1alpha1.FenceReceiptSpec) { s.VoidsUID = "r-0" }, false},
		"of another name":               {ofNode, func(s *v1alpha1.FenceReceiptSpec) { s.Voids = "q" }, false},
		"of this receipt, another node": {ofNode, func(s *v1alpha1.FenceReceiptSpec) {
			s.Node = &v1alpha1.BootReference{Name: "n2", UID: "node-1", BootID: "boot-1"}
		}, false},
		"of this receipt, another UID": {ofNode, func(s *v1alpha1.FenceReceiptSpec) {
			s.Node = &v1alpha1.BootReference{Name: "n1", UID: "node-2", BootID: "boot-1"}
		}, false},
		"of this receipt, another boot": {ofNode, func(s *v1alpha1.FenceReceiptSpec) {
			s.Node = &v1alpha1.BootReference{Name: "n1", UID: "node-1", BootID: "boot-2"}
		}, false},
		"of a node's, for a pod": {ofNode, func(s *v1alpha1.FenceReceiptSpec) { s.Node, s.Pod = nil, &pod }, false},
		"of a pod's, for a node": {ofPod, func(*v1alpha1.FenceReceiptSpec) {}, false},
		"of a pod's, in another namespace": {ofPod, func(s *v1alpha1.FenceReceiptSpec) {
			s.Node, s.Pod = nil, &v1alpha1.PodReference{Namespace: "mine", Name: "db-0", UID: "pod-1"}
		}, false},
		"of a class that voids nothing": {ofNode, func(s *v1alpha1.FenceReceiptSpec) { s.Class = v1alpha1.EvidenceConfirmed }, false},
	} {
		spec := *void.DeepCopy()
		tc.change(&spec)
		got := guard.Voided([]v1alpha1.FenceReceipt{
			{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: spec}, {ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "r-1"}, Spec: tc.of},
		})
		if got["r"] != tc.want {
			t.Errorf("%s: void %t", name, got["r"])
		}
	}
}

// A receipt that another one voids counts for nothing, and neither does the other one.
func TestFencesOf(t *testing.T) {
	t.Parallel()
	receipt := func(name string, spec v1alpha1.FenceReceiptSpec) v1alpha1.FenceReceipt {
		return v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	}
	boot := &v1alpha1.BootReference{Name: "n1", UID: "node-1", BootID: "boot-1"}
	got := guard.FencesOf([]v1alpha1.FenceReceipt{
		receipt("void", v1alpha1.FenceReceiptSpec{Node: boot, Class: v1alpha1.EvidenceVoid, Voids: "wrong"}),
		receipt("wrong", v1alpha1.FenceReceiptSpec{Node: boot, Class: v1alpha1.EvidencePoweredOff, LastSign: "x"}),
		receipt("off", v1alpha1.FenceReceiptSpec{Node: boot, Class: v1alpha1.EvidencePoweredOff, LastSign: "x"}),
		receipt("pod", v1alpha1.FenceReceiptSpec{Pod: &v1alpha1.PodReference{Namespace: "shop", Name: "db-0", UID: "pod-1"}, Class: v1alpha1.EvidenceConfirmed, By: "jane"}),
		receipt("storage", v1alpha1.FenceReceiptSpec{Node: boot, Class: v1alpha1.EvidenceStorageRevoked, LastSign: "x", Volumes: []string{"pv-1"}}),
		receipt("storage of nothing", v1alpha1.FenceReceiptSpec{Node: boot, Class: v1alpha1.EvidenceStorageRevoked, LastSign: "x"}),
		receipt("voids nothing", v1alpha1.FenceReceiptSpec{Node: boot, Class: v1alpha1.EvidenceVoid, Voids: "gone"}),
	})
	want := []guard.Fence{
		{Name: "off", NodeUID: "node-1", BootID: "boot-1", LastSign: "x"},
		{Name: "pod", PodUID: "pod-1"},
		{Name: "storage", NodeUID: "node-1", BootID: "boot-1", LastSign: "x", Volumes: []string{"pv-1"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
