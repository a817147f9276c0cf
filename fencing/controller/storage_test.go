package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
)

// Addresses are noted from when an agent goes by them, of nodes that are heard of, and stay what they were while a node is silent.
func TestAddressBook(t *testing.T) {
	c := newCluster(t, interceptor.Funcs{})
	book := &AddressBook{Cache: c.Client, Live: c.Client, Clock: c.clock}
	began := c.clock.Now()
	setAddress := func(name, address string) {
		t.Helper()
		var n corev1.Node
		if err := c.Get(t.Context(), types.NamespacedName{Name: name}, &n); err != nil {
			t.Fatal(err)
		}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeExternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeHostName, Address: name}}
		if err := c.Client.Status().Update(t.Context(), &n); err != nil {
			t.Fatal(err)
		}
	}
	// renewed lets the nodes but the silent one renew, and the book look.
	renewed := func(silent ...string) {
		t.Helper()
		c.later(t, 10*time.Second, silent...)
		if err := book.look(t.Context(), c.clock.Now().Sub(began)); err != nil {
			t.Fatal(err)
		}
	}
	of := func(name string) []string {
		n := fencing.Node{UID: types.UID("uid-" + name), BootID: "boot-" + name}
		book.fill(&n)
		return n.Recorded
	}
	setAddress("n1", "10.0.0.1")
	renewed()
	renewed()
	if got := of("n1"); got != nil {
		t.Errorf("without an agent: %v", got)
	}
	agent := &v1alpha1.FenceAgent{ObjectMeta: metav1.ObjectMeta{Name: "san"}, Spec: v1alpha1.FenceAgentSpec{Type: v1alpha1.AgentNetworkFence, NetworkFence: &v1alpha1.NetworkFenceAgent{NetworkFenceClassName: "ceph"}}}
	book.Live = withAgent{c.Client, *agent}
	renewed("n1")
	renewed("n1")
	if got := of("n1"); got != nil {
		t.Errorf("of a node that is silent since: %v", got)
	}
	renewed()
	if got := of("n1"); !slices.Equal(got, []string{"10.0.0.1"}) {
		t.Errorf("heard of: %v", got)
	}
	setAddress("n1", "10.0.0.9")
	renewed("n1")
	if got := of("n1"); !slices.Equal(got, []string{"10.0.0.1"}) {
		t.Errorf("what others wrote to it while it was silent: %v", got)
	}
	renewed()
	if got := of("n1"); got != nil {
		t.Errorf("heard of again, by addresses that may be what others wrote: %v", got)
	}
	if err := c.Delete(t.Context(), node("n1")); err != nil {
		t.Fatal(err)
	}
	if err := book.look(t.Context(), c.clock.Now().Sub(began)); err != nil || of("n1") != nil {
		t.Errorf("of a node that is gone: %v, %v", of("n1"), err)
	}
}

// NetworkFences are looked at as long as there may be some, also where the agent that made them was deleted: nobody else would lift them.
func TestStorageOfAnAgentThatIsGone(t *testing.T) {
	took := v1alpha1.Fence{Status: v1alpha1.FenceStatus{Target: &v1alpha1.FenceTarget{Agents: []v1alpha1.FenceTargetAgent{{Storage: &v1alpha1.FenceTargetStorage{}}}}}}
	for name, tt := range map[string]struct {
		facts fencing.Facts
		want  bool
	}{
		"no agent":     {fencing.Facts{Fences: []v1alpha1.Fence{{}}}, false},
		"an agent":     {fencing.Facts{Agents: []v1alpha1.FenceAgent{{Spec: v1alpha1.FenceAgentSpec{Type: v1alpha1.AgentNetworkFence}}}}, true},
		"an incident":  {fencing.Facts{Fences: []v1alpha1.Fence{took}}, true},
		"its receipt":  {fencing.Facts{Receipts: []v1alpha1.FenceReceipt{{Spec: v1alpha1.FenceReceiptSpec{Class: v1alpha1.EvidenceStorageRevoked}}}}, true},
		"of its power": {fencing.Facts{Receipts: []v1alpha1.FenceReceipt{{Spec: v1alpha1.FenceReceiptSpec{Class: v1alpha1.EvidencePoweredOff}}}}, false},
	} {
		c := newCluster(t, interceptor.Funcs{})
		if err := c.storage(t.Context(), &tt.facts); err != nil || tt.facts.Known.Storage != tt.want {
			t.Errorf("%s: listed: %v, %v", name, tt.facts.Known.Storage, err)
		}
	}
}

// Claims that tenants make crowd out no volume that is attached.
func TestVolumesThatAreAttachedComeFirst(t *testing.T) {
	attached := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-data"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "rbd"}}}}
	c := newCluster(t, interceptor.Funcs{}, attached)
	names := []string{attached.Name, attached.Name}
	for i := range 2 * volumesANode {
		names = append(names, fmt.Sprintf("a-%d", i))
	}
	if got, err := c.volumes(t.Context(), names); err != nil || len(got) != 1 || got[0].Name != attached.Name || got[0].Driver != "rbd" {
		t.Errorf("%+v, %v", got, err)
	}
	c.Live = noVolumes{c.Client}
	if got, err := c.volumes(t.Context(), names); err == nil {
		t.Errorf("none can be read: %+v", got)
	}
}

// noVolumes reads no PersistentVolume.
type noVolumes struct{ client.Reader }

func (r noVolumes) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, is := o.(*corev1.PersistentVolume); is {
		return errors.New("the API server does not answer")
	}
	return r.Reader.Get(ctx, key, o, options...)
}

// withAgent has one FenceAgent more, which the fencer beside it does not see.
type withAgent struct {
	client.Reader
	agent v1alpha1.FenceAgent
}

func (w withAgent) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if all, ok := list.(*v1alpha1.FenceAgentList); ok {
		all.Items = []v1alpha1.FenceAgent{w.agent}
		return nil
	}
	return w.Reader.List(ctx, list, options...)
}
