package agents_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/fencing/agents"
	"github.com/podgrace/podgrace/fencing/storage"
)

var csiAddons = schema.GroupVersion{Group: "csiaddons.openshift.io", Version: "v1alpha1"}

// storageBench is an incident, and the agent that revokes the storage of its node.
type storageBench struct {
	client.Client
	agent fencing.Agent
}

func newStorageBench(t *testing.T) *storageBench {
	t.Helper()
	b, err := storageBenchOf(&v1alpha1.NetworkFenceAgent{NetworkFenceClassName: "edited-since"})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// storageBenchOf has a FenceAgent that says this now.
func storageBenchOf(section *v1alpha1.NetworkFenceAgent) (*storageBench, error) {
	scheme := runtime.NewScheme()
	for _, kind := range []string{"NetworkFence", "NetworkFenceClass"} {
		scheme.AddKnownTypeWithName(csiAddons.WithKind(kind), &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(csiAddons.WithKind(kind+"List"), &unstructured.UnstructuredList{})
	}
	b := &storageBench{Client: fake.NewClientBuilder().WithScheme(scheme).Build()}
	fence := &v1alpha1.Fence{
		ObjectMeta: metav1.ObjectMeta{Name: "n1-abc", UID: "fence-1"}, Spec: v1alpha1.FenceSpec{Node: v1alpha1.BootReference{Name: "n1", UID: "node-1", BootID: "boot-1"}},
		Status: v1alpha1.FenceStatus{Target: &v1alpha1.FenceTarget{SystemUUID: "12345678-1234-1234-1234-000000000001"}},
	}
	target := v1alpha1.FenceTargetAgent{UID: "agent-1", Storage: &v1alpha1.FenceTargetStorage{NetworkFenceClassName: "ceph", Driver: "rbd", CIDRs: []string{"10.0.0.1/32", "fd00::1/128"}}}
	var err error
	b.agent, err = agents.New(&v1alpha1.FenceAgent{ObjectMeta: metav1.ObjectMeta{Name: "san"}, Spec: v1alpha1.FenceAgentSpec{
		Type: v1alpha1.AgentNetworkFence, NetworkFence: section,
	}}, agents.Options{Storage: agents.Storage{Live: b.Client, Client: b.Client, Fence: fence, Target: target}})
	return b, err
}

// An agent that was edited since the round began fences nothing outside of what it says now.
func TestNetworkFenceOfAnAddressThatMayNotBeFenced(t *testing.T) {
	for says, allowed := range map[string][]string{
		"": {"10.0.0.0/24", "fd00::/64"},
		"may not fence 10.0.0.1/32, which lies in none of its allowedCIDRs (10.0.1.0/24, fd00::/64)": {"10.0.1.0/24", "fd00::/64"},
		"may not fence fd00::1/128, which lies in none of its allowedCIDRs (10.0.0.0/24)":            {"10.0.0.0/24"},
	} {
		_, err := storageBenchOf(&v1alpha1.NetworkFenceAgent{NetworkFenceClassName: "ceph", AllowedCIDRs: allowed})
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", allowed, err)
		}
	}
}

func (b *storageBench) only(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(csiAddons.WithKind("NetworkFenceList"))
	if err := b.List(t.Context(), all); err != nil || len(all.Items) != 1 {
		t.Fatalf("%d NetworkFences, %v", len(all.Items), err)
	}
	return &all.Items[0]
}

// edit changes the only NetworkFence.
func (b *storageBench) edit(t *testing.T, change func(map[string]any)) {
	t.Helper()
	o := b.only(t)
	change(o.Object)
	if err := b.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func answered(result, message string) func(map[string]any) {
	return func(o map[string]any) { o["status"] = map[string]any{"result": result, "message": message} }
}

func another(name, state, cidr string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"driver": "rbd", "fenceState": state, "cidrs": []any{cidr}}}}
	o.SetGroupVersionKind(csiAddons.WithKind("NetworkFence"))
	o.SetName(name)
	return o
}

func TestNetworkFence(t *testing.T) {
	b := newStorageBench(t)
	none, err := b.agent.Power(t.Context(), v1alpha1.FenceMachine{})
	if err != nil || none.Power != fencing.PowerOn {
		t.Errorf("before: %+v, %v", none, err)
	}
	for range 2 { // it may be repeated
		if err := b.agent.Off(t.Context(), v1alpha1.FenceMachine{}); err != nil {
			t.Fatal(err)
		}
	}
	o := b.only(t)
	spec := o.Object["spec"].(map[string]any)
	if spec["networkFenceClassName"] != "ceph" || spec["fenceState"] != "Fenced" || len(spec["cidrs"].([]any)) != 2 || len(o.GetOwnerReferences()) > 0 || !strings.HasPrefix(o.GetName(), "n1-abc-") {
		t.Errorf("made: %v", o.Object)
	}
	if got, err := b.agent.Power(t.Context(), v1alpha1.FenceMachine{}); err != nil || got.Power != fencing.PowerUnknown {
		t.Errorf("no result: %+v, %v", got, err)
	}
	b.edit(t, answered("Failed", "rados: permission denied"))
	if got, err := b.agent.Power(t.Context(), v1alpha1.FenceMachine{}); err == nil || got.Power != fencing.PowerUnknown || !strings.Contains(err.Error(), "rados: permission denied") {
		t.Errorf("failed: %+v, %v", got, err)
	}
	b.edit(t, answered("Done", ""))
	if got, err := b.agent.Power(t.Context(), v1alpha1.FenceMachine{}); err != nil || got.Power != fencing.PowerUnknown {
		t.Errorf("a result of a later version: %+v, %v", got, err)
	}
	b.edit(t, answered("Succeeded", "fencing operation successful"))
	if got, err := b.agent.Power(t.Context(), v1alpha1.FenceMachine{}); err != nil || got.Power != fencing.PowerRevoked || got.Object != o.GetUID() {
		t.Errorf("succeeded: %+v, %v", got, err)
	}
}

// What is not as it was made proves nothing, though it says Succeeded.
func TestNetworkFencesThatAreNoProof(t *testing.T) {
	for _, tt := range []struct {
		name, says string
		change     func(o map[string]any)
		besides    *unstructured.Unstructured
	}{
		{"lifted", `fenceState "Unfenced"`, func(o map[string]any) { o["spec"].(map[string]any)["fenceState"] = "Unfenced" }, nil},
		{"other addresses", "other addresses than were decided", func(o map[string]any) { o["spec"].(map[string]any)["cidrs"] = []any{"10.0.0.2/32"} }, nil},
		{"another driver", "another class", func(o map[string]any) { o["spec"].(map[string]any)["driver"] = "nfs" }, nil},
		{"made by another, who gives the driver parameters", "another class", func(o map[string]any) { o["spec"].(map[string]any)["parameters"] = map[string]any{"clusterID": "b"} }, nil},
		{"that would be lifted by another machine", "not made for this incident", func(o map[string]any) {
			o["metadata"].(map[string]any)["annotations"].(map[string]any)["podgrace.dev/system-uuid"] = "12345678-1234-1234-1234-000000000009"
		}, nil},
		{"edited", "somebody edited it", func(o map[string]any) { o["metadata"].(map[string]any)["generation"] = int64(3) }, nil},
		{"another incident's", "not made for this incident", func(o map[string]any) {
			o["metadata"].(map[string]any)["annotations"].(map[string]any)["podgrace.dev/boot-id"] = "boot-0"
		}, nil},
		{"somebody's that has its name", "not made for this incident", func(o map[string]any) { delete(o["metadata"].(map[string]any), "labels") }, nil},
		{"another that lifts the same address", "NetworkFence rook says Unfenced for the same address", func(map[string]any) {}, another("rook", "Unfenced", "10.0.0.0/24")},
		{"another that can't be read", "NetworkFence rook says Unfenced for the same address", func(map[string]any) {}, another("rook", "Unfenced", "everything")},
	} {
		b := newStorageBench(t)
		if err := b.agent.Off(t.Context(), v1alpha1.FenceMachine{}); err != nil {
			t.Fatal(err)
		}
		b.edit(t, answered("Succeeded", "fencing operation successful"))
		b.edit(t, tt.change)
		if tt.besides != nil {
			if err := b.Create(t.Context(), tt.besides); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := b.agent.Power(t.Context(), v1alpha1.FenceMachine{}); err == nil || got.Power != fencing.PowerUnknown || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
	// Neither is one made beside what lifts its address; what is for others is not in its way.
	b := newStorageBench(t)
	for _, o := range []*unstructured.Unstructured{another("far", "Unfenced", "10.1.0.0/16"), another("rook", "Unfenced", "10.0.0.1/32")} {
		if err := b.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.agent.Off(t.Context(), v1alpha1.FenceMachine{}); err == nil || !strings.Contains(err.Error(), "NetworkFence rook") {
		t.Errorf("beside one that lifts: %v", err)
	}
	if err := b.Delete(t.Context(), another("rook", "", "")); err != nil {
		t.Fatal(err)
	}
	if err := b.agent.Off(t.Context(), v1alpha1.FenceMachine{}); err != nil {
		t.Error(err)
	}
}

// The storage of a node is given back by what stands in the NetworkFence, and by its UID.
func TestListStorage(t *testing.T) {
	b := newStorageBench(t)
	class := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"provisioner": "rbd", "parameters": map[string]any{"clusterID": "a", "csiaddons.openshift.io/networkfence/secret-name": "x"},
	}}}
	class.SetGroupVersionKind(csiAddons.WithKind("NetworkFenceClass"))
	class.SetName("ceph")
	class.SetUID("class-1")
	rook, made := another("rook", "Fenced", "10.0.0.9/32"), metav1.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	rook.SetCreationTimestamp(made)
	for _, o := range []client.Object{class, rook} {
		if err := b.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.agent.Off(t.Context(), v1alpha1.FenceMachine{}); err != nil {
		t.Fatal(err)
	}
	ours := func() storage.Fence {
		t.Helper()
		classes, all, err := agents.ListStorage(t.Context(), b.Client)
		if err != nil || len(all) != 2 || len(classes) != 1 || classes["ceph"].Driver != "rbd" || len(classes["ceph"].Parameters) != 1 || classes["ceph"].Parameters["clusterID"] != "a" || classes["ceph"].UID != class.GetUID() {
			t.Fatalf("%+v, %+v, %v", classes, all, err)
		}
		if all[1].Boot != nil || !all[1].Created.Equal(made.Time) {
			t.Errorf("somebody else's: %+v", all[1])
		}
		return all[0]
	}
	x := ours()
	if x.Boot == nil || *x.Boot != (v1alpha1.BootReference{Name: "n1", UID: "node-1", BootID: "boot-1"}) || !x.Fenced || x.Lifted || x.SystemUUID == "" {
		t.Errorf("made: %+v", x)
	}
	o := func(message string) {
		all := &unstructured.UnstructuredList{}
		all.SetGroupVersionKind(csiAddons.WithKind("NetworkFenceList"))
		if err := b.List(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		all.Items[0].Object["status"] = map[string]any{"result": "Succeeded", "message": message}
		if err := b.Update(t.Context(), &all.Items[0]); err != nil {
			t.Fatal(err)
		}
	}
	o("fencing operation successful")
	if err := agents.Lift(t.Context(), b.Client, x.Name, x.UID); err != nil {
		t.Fatal(err)
	}
	if x := ours(); x.Fenced || x.Lifted { // the result is still that of before
		t.Errorf("being lifted: %+v", x)
	}
	o("unfencing operation successful")
	if x := ours(); !x.Lifted {
		t.Errorf("lifted: %+v", x)
	}
	if err := agents.DeleteLifted(t.Context(), b.Client, x.Name, x.UID); err != nil {
		t.Error(err)
	}
	if _, all, err := agents.ListStorage(t.Context(), b.Client); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}
