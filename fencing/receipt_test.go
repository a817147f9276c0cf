package fencing_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/fencing/storage"
)

// What is over for a week goes, but for what still lets something go, or keeps something from being done.
func TestRetire(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour
	node := fencing.Node{Name: "n1", UID: "u1", BootID: "b2", Sign: "u1/b2//1"}
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(began.Add(-d)) }
	fence := func(name string, phase v1alpha1.FencePhase, created, ended time.Duration) v1alpha1.Fence {
		return v1alpha1.Fence{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: ago(created)}, Spec: v1alpha1.FenceSpec{Node: v1alpha1.BootReference{Name: "n1", UID: "u1", BootID: "b1"}},
			Status: v1alpha1.FenceStatus{Phase: phase, Receipt: "of-" + name, Times: []v1alpha1.FencePhaseTime{{Phase: phase, Time: metav1.NewMicroTime(began.Add(-ended))}}},
		}
	}
	receipt := func(name, boot string, created time.Duration) v1alpha1.FenceReceipt {
		return v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: ago(created)}, Spec: v1alpha1.FenceReceiptSpec{
			Class: v1alpha1.EvidencePoweredOff, Node: &v1alpha1.BootReference{Name: "n1", UID: "u1", BootID: boot},
		}}
	}
	void := receipt("void", "b1", 3*week)
	void.Spec.Class, void.Spec.Voids = v1alpha1.EvidenceVoid, "lied"
	pod := receipt("of-a-pod", "", 3*week)
	pod.Spec.Node, pod.Spec.Pod = nil, &v1alpha1.PodReference{Namespace: "shop", Name: "db-0", UID: "p"}
	facts := fencing.Facts{
		Now: fencing.Moment{Wall: began}, Known: fencing.Known{Nodes: true, Fences: true, Receipts: true, Agents: true}, Nodes: []fencing.Node{node},
		Fences: []v1alpha1.Fence{
			fence("newer", v1alpha1.FenceOver, 2*week, 2*week), fence("oldest", v1alpha1.FenceOver, 3*week, week+time.Second), fence("ended-since", v1alpha1.FenceOver, 3*week, week-time.Second),
			fence("goes-on", v1alpha1.FenceReleased, 3*week, 3*week), fence(fencing.FenceName(&node), v1alpha1.FenceOver, 3*week, 3*week),
		},
		Receipts: []v1alpha1.FenceReceipt{
			receipt("old", "b1", week+time.Second), receipt("new", "b1", week-time.Second), receipt("of-goes-on", "b1", 3*week), receipt("of-what-is-there", "b2", 3*week),
			receipt("lied", "b1", 3*week), void, pod,
		},
	}
	got := func(f fencing.Facts) (names []string) {
		fences, receipts := fencing.Retire(f)
		for _, f := range fences {
			names = append(names, f.Name)
		}
		for _, r := range receipts {
			names = append(names, r.Name)
		}
		return names
	}
	if want := []string{"oldest", "newer", "old"}; !slices.Equal(got(facts), want) {
		t.Errorf("%q go, not %q", got(facts), want)
	}
	unknown := facts
	unknown.Known.Nodes = false
	if all := got(unknown); len(all) > 0 {
		t.Errorf("%q go, and the nodes are not known", all)
	}
	// Of a NetworkFence whose agent is gone only its Fence tells that it is to be looked for.
	for i := range facts.Fences {
		facts.Fences[i].Status.Target = &v1alpha1.FenceTarget{Agents: []v1alpha1.FenceTargetAgent{{Storage: &v1alpha1.FenceTargetStorage{}}}}
	}
	for _, tt := range []struct {
		name   string
		listed bool
		of     *v1alpha1.BootReference
		want   []string
	}{
		{"a NetworkFence that is there", true, &facts.Fences[0].Spec.Node, []string{"old"}},
		{"NetworkFences that are not known", false, nil, []string{"old"}},
		{"a NetworkFence of another boot", true, &v1alpha1.BootReference{Name: "n1", UID: "u1", BootID: "b0"}, []string{"oldest", "newer", "old"}},
		{"somebody else's NetworkFence", true, nil, []string{"oldest", "newer", "old"}},
	} {
		facts.Known.Storage, facts.StorageFences = tt.listed, []storage.Fence{{Name: "nf", Boot: tt.of, Fenced: true}}
		if all := got(facts); !slices.Equal(all, tt.want) {
			t.Errorf("%s: %q go, not %q", tt.name, all, tt.want)
		}
	}
	facts.Fences = nil
	for i := range 100 {
		facts.Fences = append(facts.Fences, fence(fmt.Sprintf("f-%03d", i), v1alpha1.FenceOver, 3*week, 3*week))
	}
	if fences, _ := fencing.Retire(facts); len(fences) != 10 {
		t.Errorf("%d go at once", len(fences))
	}
}

// What voids a receipt is stored by the API server: as long as it is not the receipt stands, and no Fence goes on.
func TestVoidsAreStored(t *testing.T) {
	t.Parallel()
	boot := v1alpha1.BootReference{Name: "n1", UID: "u1", BootID: "b1"}
	at := metav1.NewMicroTime(began)
	for name, spec := range map[string]v1alpha1.FenceReceiptSpec{
		"of what was read": {Node: &boot, Class: v1alpha1.EvidencePoweredOff, Fence: "n1-1", Agent: "bmc", Machine: &v1alpha1.FenceMachine{ProviderID: "p"}, Identity: v1alpha1.IdentityConfigured,
			LastSign: "u1/b1//1", ReadBacks: []v1alpha1.PowerReadBack{{Time: at}, {Time: at}}},
		"of a person's word": {Node: &boot, Class: v1alpha1.EvidenceConfirmed, By: "alice", LastSign: "u1/b1//1"},
	} {
		receipt := v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: spec}
		if why := refused("FenceReceipt", &receipt); why != "" {
			t.Fatalf("%s: the receipt itself: %s", name, why)
		}
		cached, _ := fencing.Voids(fencing.Facts{Receipts: []v1alpha1.FenceReceipt{receipt}, Nodes: []fencing.Node{{Name: "n1", UID: "u1", BootID: "b1", Sign: "u1/b1//2"}}})
		if len(cached) > 0 {
			t.Errorf("%s: a node that was not read live voids it", name)
		}
		voids, _ := fencing.Voids(fencing.Facts{Receipts: []v1alpha1.FenceReceipt{receipt}, Nodes: []fencing.Node{{Name: "n1", UID: "u1", BootID: "b1", Sign: "u1/b1//2", Live: true}}})
		if len(voids) != 1 {
			t.Fatalf("%s: %d void it", name, len(voids))
		}
		if why := refused("FenceReceipt", &voids[0].Receipt); why != "" {
			t.Errorf("%s: what voids it is refused: %s", name, why)
		}
	}
}

// Whoever may write receipts of their own word can take the name of what would void another: it gets another one.
func TestVoidsFindAName(t *testing.T) {
	t.Parallel()
	named := func(name, boot string) v1alpha1.FenceReceipt {
		return v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FenceReceiptSpec{
			Node: &v1alpha1.BootReference{Name: "n1", UID: "u1", BootID: boot}, Class: v1alpha1.EvidenceConfirmed, By: "alice", LastSign: "u1/" + boot + "//1",
		}}
	}
	facts := fencing.Facts{
		Receipts: []v1alpha1.FenceReceipt{named("r", "b1"), named("r-void", "b0"), named("r-void-2", "b0")},
		Nodes:    []fencing.Node{{Name: "n1", UID: "u1", BootID: "b1", Sign: "u1/b1//2", Live: true}},
	}
	voids, _ := fencing.Voids(facts)
	if len(voids) != 1 || voids[0].Receipt.Name != "r-void-3" || voids[0].Receipt.Spec.Voids != "r" {
		t.Errorf("got %+v", voids)
	}
}
