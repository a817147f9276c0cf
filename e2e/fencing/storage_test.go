package fencing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
)

var csiAddons = schema.GroupVersion{Group: "csiaddons.openshift.io", Version: "v1alpha1"}

// csi stands in for csi-addons' controller and the storage behind it: it writes what that writes (internal/controller/csiaddons/networkfence_controller.go, v0.14.0).
type csi struct {
	client client.Client

	mu      sync.Mutex
	answers map[string]string // by block: "" does what is asked for, nothing says nothing, anything else is why it fails
	blocked map[string]bool
}

const nothing = "nothing"

func (c *csi) answer(block, how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[block] = how
}

func (c *csi) isBlocked(block string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocked[block]
}

func (c *csi) run(t *testing.T) {
	c.answers, c.blocked = map[string]string{}, map[string]bool{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			all := networkFences()
			err := c.client.List(ctx, all)
			for i := range all.Items {
				err = errors.Join(err, c.reconcile(ctx, &all.Items[i]))
			}
			if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
				t.Logf("csi-addons: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond): // it stands in for a watch
			}
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
}

func networkFences() *unstructured.UnstructuredList {
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(csiAddons.WithKind("NetworkFenceList"))
	return all
}

const csiFinalizer = "csiaddons.openshift.io/network-fence"

func (c *csi) reconcile(ctx context.Context, o *unstructured.Unstructured) error {
	if o.GetDeletionTimestamp() != nil { // and nothing is given back
		o.SetFinalizers(nil)
		return client.IgnoreNotFound(c.client.Update(ctx, o))
	}
	blocks, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "cidrs")
	state, _, _ := unstructured.NestedString(o.Object, "spec", "fenceState")
	c.mu.Lock()
	how := c.answers[blocks[0]]
	c.mu.Unlock()
	if how == nothing {
		return nil
	}
	if !slices.Contains(o.GetFinalizers(), csiFinalizer) {
		o.SetFinalizers([]string{csiFinalizer})
		// Its types have no omitempty there.
		spec := o.Object["spec"].(map[string]any)
		for key, value := range map[string]any{"driver": "", "secret": map[string]any{}} {
			if _, has := spec[key]; !has {
				spec[key] = value
			}
		}
		if err := c.client.Update(ctx, o); err != nil {
			return err
		}
	}
	result, message := "Succeeded", "fencing operation successful"
	switch {
	case how != "":
		result, message = "Failed", how
	case state == "Unfenced":
		message = "unfencing operation successful"
	}
	if how == "" {
		c.mu.Lock()
		for _, b := range blocks {
			c.blocked[b] = state == "Fenced"
		}
		c.mu.Unlock()
	}
	if was, _, _ := unstructured.NestedString(o.Object, "status", "message"); was == message {
		return nil
	}
	o.Object["status"] = map[string]any{"result": result, "message": message}
	return c.client.Status().Update(ctx, o)
}

// fencedBy returns the NetworkFences for a block.
func (l *lab) fencedBy(ctx context.Context, block string) (of []unstructured.Unstructured, err error) {
	all := networkFences()
	err = l.Client.List(ctx, all)
	for _, o := range all.Items {
		if blocks, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "cidrs"); slices.Contains(blocks, block) {
			of = append(of, o)
		}
	}
	return of, err
}

// web is a pod on a node that is protected for its volume alone.
func (l *lab) web(t *testing.T, namespace string, i int) *corev1.Pod {
	t.Helper()
	name := "web-" + nodeName(i)
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + nodeName(i)}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: name},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: "rbd.example.com", VolumeHandle: name, VolumeAttributes: map[string]string{"clusterID": "a"},
		}},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
	}}
	l.Create(t, pv)
	l.Create(t, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: pv.Spec.AccessModes, VolumeName: pv.Name, StorageClassName: new(""),
		Resources: corev1.VolumeResourceRequirements{Requests: pv.Spec.Capacity},
	}})
	suite.Eventually(t, "claim "+name+" to be bound", func(ctx context.Context) (bool, error) {
		var claim corev1.PersistentVolumeClaim
		err := l.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &claim)
		return claim.Status.Phase == corev1.ClaimBound, err
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{
		NodeName: nodeName(i), Containers: []corev1.Container{{Name: "main", Image: "localhost/none:1"}},
		Volumes: []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}},
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}}
	l.Create(t, pod)
	return pod
}

// storagesOwn is an address that is no node's, whatever a kubelet says.
const storagesOwn = "10.9.0.77"

func address(i int) string { return fmt.Sprintf("10.9.0.%d", i) }

func said(fence *v1alpha1.Fence) string {
	if a := fence.Status.Attempt; a != nil {
		return fence.Status.Message + " " + a.Message
	}
	return fence.Status.Message
}

// Of five nodes that fall silent the storage of one is revoked, that of the second can't be, of the third nothing is heard until late, the fourth has another node's address, and the fifth one
// that may not be fenced. What only its volume binds is released, and nothing else.
func TestNetworkFence(t *testing.T) {
	l := startAlone(t)
	ctx := t.Context()
	if err := errors.Join(podgrace.Apply(ctx, l.Cluster, "testdata/csiaddons.yaml"), podgrace.AllowFencer(ctx, l.Cluster, "fencer-networkfence")); err != nil {
		t.Fatal(err)
	}
	class := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"provisioner": "rbd.example.com", "parameters": map[string]any{"clusterID": "a", "csiaddons.openshift.io/networkfence/secret-name": "x"},
	}}}
	class.SetGroupVersionKind(csiAddons.WithKind("NetworkFenceClass"))
	class.SetName("ceph")
	suite.Eventually(t, "the kinds of csi-addons", func(ctx context.Context) (bool, error) {
		err := l.Client.Create(ctx, class.DeepCopy())
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && l.Client.List(ctx, networkFences()) == nil, err
	})
	storage := &csi{client: l.Client}
	storage.run(t)
	namespace := l.Namespace(t)
	l.Policy(t, namespace, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny}})
	const well, revoked, fails, outside, late, shared, sharer = 4, 5, 6, 7, 8, 9, 10
	storage.answer(address(fails)+"/32", "rados: permission denied")
	storage.answer(address(late)+"/32", nothing)
	agent := &v1alpha1.FenceAgent{ObjectMeta: metav1.ObjectMeta{Name: "san"}, Spec: v1alpha1.FenceAgentSpec{
		Type: v1alpha1.AgentNetworkFence, NetworkFence: &v1alpha1.NetworkFenceAgent{NetworkFenceClassName: "ceph"}, Identity: v1alpha1.IdentityVerified,
	}}
	if err := l.Client.Create(ctx, agent.DeepCopy()); err == nil || !strings.Contains(err.Error(), "a storage does not tell which machine an address is of: say identity: Configured") {
		t.Errorf("an agent that would verify: %v", err)
	}
	agent.Spec.Identity = v1alpha1.IdentityConfigured
	agent.Spec.NetworkFence.AllowedCIDRs = []string{"fd00::/64", "10.9.0.1/28"}
	if err := l.Client.Create(ctx, agent.DeepCopy()); err == nil || !strings.Contains(err.Error(), "allowedCIDRs[1]") || !strings.Contains(err.Error(), "the address goes beyond the prefix length") {
		t.Errorf("an agent whose block is none: %v", err)
	}
	agent.Spec.NetworkFence.AllowedCIDRs[1] = "10.9.0.0/28"
	patchStatus(t, l.Suite, nodeName(sharer), fmt.Sprintf(`{"status":{"addresses":[{"type":"ExternalIP","address":%q}]}}`, address(shared)))
	silent := []int{revoked, fails, outside, late, shared}
	for _, i := range silent { // before there is the agent, by which the fencer looks at addresses: a boot that had none when it looked first has changed them
		ip := address(i)
		if i == outside {
			ip = storagesOwn
		}
		patchStatus(t, l.Suite, nodeName(i), fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":%q},{"type":"Hostname","address":%q}]}}`, ip, nodeName(i)))
	}
	l.Create(t, agent)
	policy := func(i int) {
		t.Helper()
		p := policyOf(nodeName(i), v1alpha1.FenceModeFence, 4, nodeName(i))
		p.Spec.Agents = []v1alpha1.FencePolicyAgent{{Name: "san", Timeout: metav1.Duration{Duration: 10 * time.Second}, Attempts: 2, Evidence: []v1alpha1.EvidenceClass{v1alpha1.EvidenceStorageRevoked}}}
		l.Create(t, p)
	}
	web, db := map[int]*corev1.Pod{}, l.database(t, namespace, revoked)
	for _, i := range silent {
		web[i] = l.web(t, namespace, i)
		policy(i)
	}
	ready := func(i int, is bool, says string) {
		t.Helper()
		suite.EventuallyWithin(t, soon, fmt.Sprintf("FencePolicy %s to be ready: %v, %q", nodeName(i), is, says), func(ctx context.Context) (bool, error) {
			var p v1alpha1.FencePolicy
			if err := l.Client.Get(ctx, types.NamespacedName{Name: nodeName(i)}, &p); err != nil {
				return false, err
			}
			c := meta.FindStatusCondition(p.Status.Conditions, "Ready")
			if c == nil {
				return false, nil
			}
			if (c.Status == metav1.ConditionTrue) != is || !strings.Contains(c.Message, says) {
				return false, errors.New(c.Message)
			}
			return true, nil
		})
	}
	for _, i := range []int{revoked, fails, late} { // their addresses are noted
		ready(i, true, "")
	}
	ready(shared, false, "10.9.0.9/32, which is an address of node n10 as well")
	ready(outside, false, "may not fence 10.9.0.77/32, which lies in none of its allowedCIDRs (fd00::/64, 10.9.0.0/28)")
	for i := range web {
		l.StopHeartbeat(nodeName(i))
	}
	// The fencer looks each 10 s, and may not have seen the last renewals yet, with which all that is written counts as the kubelet's word. That another node is ready by a boot and an address
	// that it has only now says that it has looked since.
	policy(well)
	ready(well, false, "or it had no InternalIP")
	patchStatus(t, l.Suite, nodeName(well), fmt.Sprintf(`{"status":{"nodeInfo":{"bootID":"boot-2-n4"},"addresses":[{"type":"InternalIP","address":%q}]}}`, address(well)))
	ready(well, true, "")
	// What others write to a Node that is silent is not looked at.
	patchStatus(t, l.Suite, nodeName(revoked), `{"status":{"addresses":[{"type":"InternalIP","address":"10.9.0.11"}]}}`)

	fence := l.phase(t, nodeName(revoked), v1alpha1.FenceReleased)
	var receipt v1alpha1.FenceReceipt
	if err := l.Client.Get(ctx, types.NamespacedName{Name: fence.Status.Receipt}, &receipt); err != nil {
		t.Fatal(err)
	}
	if r := receipt.Spec; r.Class != v1alpha1.EvidenceStorageRevoked || !slices.Equal(r.Volumes, []string{"pv-n5"}) || len(r.ReadBacks) != 2 {
		t.Errorf("the receipt: %+v", r)
	}
	if !storage.isBlocked("10.9.0.5/32") || storage.isBlocked("10.9.0.11/32") {
		t.Error("another address is fenced than the node had while it was healthy")
	}
	if err := l.Client.Get(ctx, client.ObjectKeyFromObject(web[revoked]), &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod that only its volume bound: %v", err)
	}
	t.Logf("released: %s", fence.Status.Message)
	if !strings.Contains(fence.Status.Message, namespace+"/"+db.Name+" (it is a pod of StatefulSet") {
		t.Errorf("it does not say whom it does not free: %s", fence.Status.Message)
	}
	if err := l.Client.Delete(ctx, db.DeepCopy(), client.GracePeriodSeconds(0)); !apierrors.IsForbidden(err) {
		t.Errorf("a force delete of the database: %v", err)
	}
	var node corev1.Node
	if err := l.Client.Get(ctx, types.NamespacedName{Name: nodeName(revoked)}, &node); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }) {
		t.Error("a node that may run is tainted as out of service")
	}

	says := func(i int, text string) {
		t.Helper()
		suite.EventuallyWithin(t, soon, "the Fence of "+nodeName(i)+" to say "+text, func(ctx context.Context) (bool, error) {
			f, err := l.fenceOf(ctx, nodeName(i))
			if f == nil || err != nil {
				return false, err
			}
			if !strings.Contains(said(f), text) {
				return false, errors.New(said(f))
			}
			return true, nil
		})
	}
	says(fails, "failed: rados: permission denied")
	says(late, `within 10s: it says "no result yet"`)
	for _, i := range []int{fails, outside, late, shared} {
		var now corev1.Pod
		if err := l.Client.Get(ctx, client.ObjectKeyFromObject(web[i]), &now); err != nil || now.DeletionTimestamp != nil {
			t.Errorf("the pod of node %s: %v", nodeName(i), err)
		}
	}
	if of, err := l.fencedBy(ctx, address(shared)+"/32"); len(of) > 0 || err != nil {
		t.Errorf("an address of two nodes is fenced: %v, %v", of, err)
	}
	if of, err := l.fencedBy(ctx, storagesOwn+"/32"); len(of) > 0 || err != nil {
		t.Errorf("an address is fenced that may not be: %v, %v", of, err)
	}

	// An answer that comes late counts, in whichever attempt.
	storage.answer(address(late)+"/32", "")
	l.phase(t, nodeName(late), v1alpha1.FenceReleased)
	if err := l.Client.Get(ctx, client.ObjectKeyFromObject(web[late]), &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod whose storage was revoked late: %v", err)
	}

	// The storage is given back to another boot, and to no other.
	l.Revive(t, nodeName(late))
	l.phase(t, nodeName(late), v1alpha1.FenceOver)
	patchStatus(t, l.Suite, nodeName(revoked), `{"status":{"nodeInfo":{"bootID":"boot-2"}}}`)
	l.Revive(t, nodeName(revoked))
	suite.EventuallyWithin(t, soon, "the storage to be given back", func(ctx context.Context) (bool, error) {
		of, err := l.fencedBy(ctx, address(revoked)+"/32")
		return len(of) == 0 && !storage.isBlocked(address(revoked)+"/32"), err
	})
	l.phase(t, nodeName(revoked), v1alpha1.FenceOver)
	if of, err := l.fencedBy(ctx, address(late)+"/32"); len(of) != 1 || err != nil || !storage.isBlocked(address(late)+"/32") {
		t.Errorf("to the boot whose storage was revoked it was given back: %v, %v", of, err)
	}
}
