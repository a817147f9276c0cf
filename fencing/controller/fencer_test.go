package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
)

// cluster is a Fencer on a fake API, with three nodes of which the test renews the Leases.
type cluster struct {
	*Fencer
	client.Client
	clock *testclock.FakeClock
	calls sync.WaitGroup
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}, Status: corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{BootID: "boot-" + name, SystemUUID: "4c4c4544-0000-1000-8000-00000000000" + name[1:]},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
}

func newCluster(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *cluster {
	t.Helper()
	at := testclock.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	for _, name := range []string{"n1", "n2", "n3"} {
		objects = append(objects, node(name), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: at.Now()}}})
	}
	kube := fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(objects...).WithInterceptorFuncs(funcs).
		WithStatusSubresource(&corev1.Node{}, &corev1.Pod{}, &v1alpha1.Fence{}, &v1alpha1.FencePolicy{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
	c := &cluster{Client: kube, clock: at, Fencer: &Fencer{Client: kube, Cache: kube, Live: kube, Clock: at, Namespace: "podgrace-system", Exempt: policy.ExemptIn("podgrace-system"), Identity: "one"}}
	c.lead()
	return c
}

// lines keeps what is logged.
type lines []string

func (l *lines) logger() logr.Logger {
	return funcr.New(func(prefix, args string) { *l = append(*l, prefix+" "+args) }, funcr.Options{})
}

// What becomes of a silent node is told when it changes, with the fields that all decisions have.
func TestDecisionsAreLogged(t *testing.T) {
	c := newCluster(t, interceptor.Funcs{})
	var log lines
	var node v1alpha1.BootReference
	node.Name, node.UID = "n1", "uid-n1"
	judged := []fencing.Verdict{{Node: node, Do: fencing.DoShow, Reason: policy.Reason{Code: "NoPolicy"}, Message: "no FencePolicy is for it\n\x1b[2K", Policy: "all"}}
	for range 3 {
		c.judged(log.logger(), judged)
	}
	if want := (lines{`decision "level"=0 "msg"="node judged" "component"="fencer" "decision"="Show" "reason"="NoPolicy" "message"="no FencePolicy is for it  [2K" "policy"="all" "node"="n1"`}); !slices.Equal(log, want) {
		t.Errorf("got %q", log)
	}
}

// pruned is an informer's store whose watch began under an older definition of FencePolicies.
type pruned struct {
	client.Reader
	policy v1alpha1.FencePolicy
}

func (p pruned) List(ctx context.Context, list client.ObjectList, of ...client.ListOption) error {
	if policies, ok := list.(*v1alpha1.FencePolicyList); ok {
		policies.Items = []v1alpha1.FencePolicy{p.policy}
		return nil
	}
	return p.Reader.List(ctx, list, of...)
}

// A policy of which the informer's watch goes on without a field, while the API server has it again, is not paused by that. It is while the API server can't be asked.
func TestUnreadPoliciesAreReadLive(t *testing.T) {
	away := false
	funcs := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, of ...client.ListOption) error {
		if _, ok := list.(*v1alpha1.FencePolicyList); ok && away {
			return errors.New("away")
		}
		return c.List(ctx, list, of...)
	}}
	whole := &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1alpha1.FencePolicySpec{Weight: 7}}
	c := newCluster(t, funcs, whole)
	old := *whole.DeepCopy()
	old.ManagedFields = []metav1.ManagedFieldsEntry{{APIVersion: v1alpha1.GroupVersion.String(), FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:newField":{}}}`)}}
	old.Spec.Weight = 0
	c.Cache = pruned{c.Cache, old}
	for _, away = range []bool{false, true, false} {
		policies, stored, err := c.policies(t.Context())
		if err != nil || len(policies) != 1 || len(stored) != 1 || policies.Unread() != away || (stored[0].Spec.Weight == 7) == away {
			t.Errorf("the API server is away: %v; got %v, %+v, %v", away, policies.Unread(), stored, err)
		}
	}
}

// later lets time pass in the steps in which the fencer looks, with every node but the silent ones renewing its Lease.
func (c *cluster) later(t *testing.T, d time.Duration, silent ...string) {
	t.Helper()
	for range int(d / (2 * time.Second)) {
		c.clock.Step(2 * time.Second)
		for _, name := range []string{"n1", "n2", "n3"} {
			if len(silent) > 0 && silent[0] == name {
				continue
			}
			var lease coordinationv1.Lease
			if err := c.Get(t.Context(), types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: name}, &lease); err != nil {
				t.Fatal(err)
			}
			lease.Spec.RenewTime = &metav1.MicroTime{Time: c.clock.Now()}
			if err := c.Update(t.Context(), &lease); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.round(t.Context(), logr.Discard(), &c.calls); err != nil {
			t.Fatal(err)
		}
		c.calls.Wait()
	}
}

func (c *cluster) condition(t *testing.T, name string) *corev1.NodeCondition {
	t.Helper()
	var n corev1.Node
	if err := c.Get(t.Context(), types.NamespacedName{Name: name}, &n); err != nil {
		t.Fatal(err)
	}
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == fencing.ConditionPartitioned {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// A silent node, and no other, gets the condition; it is gone from it when the node is heard of. Without a policy nothing is fenced.
func TestSilenceIsShown(t *testing.T) {
	c := newCluster(t, interceptor.Funcs{})
	c.later(t, 60*time.Second, "n1")
	if got := c.condition(t, "n1"); got != nil {
		t.Errorf("after a minute: %+v", got)
	}
	c.later(t, 40*time.Second, "n1")
	if got := c.condition(t, "n1"); got == nil || got.Status != corev1.ConditionTrue || got.Reason != fencing.PartitionedSilent {
		t.Errorf("the silent node: %+v", got)
	}
	if got := c.condition(t, "n2"); got != nil {
		t.Errorf("another node: %+v", got)
	}
	c.later(t, 10*time.Second)
	if got := c.condition(t, "n1"); got == nil || got.Status != corev1.ConditionFalse {
		t.Errorf("heard of again: %+v", got)
	}
	var fences v1alpha1.FenceList
	if err := c.List(t.Context(), &fences); err != nil || len(fences.Items) > 0 {
		t.Errorf("%d Fences, %v", len(fences.Items), err)
	}
}

// While the fencer itself can't write, nothing that it did not hear is silence.
func TestCutOffIsNoSilence(t *testing.T) {
	cut := false
	c := newCluster(t, interceptor.Funcs{Update: func(ctx context.Context, kube client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
		if o.GetName() == PulseName && cut {
			return errors.New("the API server does not answer")
		}
		return kube.Update(ctx, o, opts...)
	}})
	c.later(t, 80*time.Second, "n1")
	cut = true
	c.clock.Step(6 * time.Second)
	if _, err := c.round(t.Context(), logr.Discard(), &c.calls); err == nil {
		t.Error("the round did not tell that it could not write")
	}
	cut = false
	c.later(t, 20*time.Second, "n1")
	if got := c.condition(t, "n1"); got != nil {
		t.Errorf("silent for 106 s, but watched for 20: %+v", got)
	}
}

// What a fence does to objects is for those of its UIDs: whoever has taken their names since is left alone.
func TestActsByUID(t *testing.T) {
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "another"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	c := newCluster(t, interceptor.Funcs{}, other)
	if err := c.taint(t.Context(), "n1", "uid-of-another", addTaint); err != nil {
		t.Fatal(err)
	}
	var n corev1.Node
	if err := c.Get(t.Context(), types.NamespacedName{Name: "n1"}, &n); err != nil || len(n.Spec.Taints) > 0 {
		t.Errorf("taints %v, %v", n.Spec.Taints, err)
	}
	if err := c.taint(t.Context(), "n1", "uid-n1", addTaint); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), types.NamespacedName{Name: "n1"}, &n); err != nil || len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Value != fencing.TaintValue {
		t.Errorf("taints %v, %v", n.Spec.Taints, err)
	}
	somebodys := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	if got := removeTaint([]corev1.Taint{somebodys}); len(got) != 1 {
		t.Errorf("somebody else's taint was taken away: %v", got)
	}
}

// Where the API server stores nothing of a Fence's status, since the CustomResourceDefinition lacks the field, that is an error, and not tried again at once.
func TestOlderDefinition(t *testing.T) {
	tries := 0
	fence := &v1alpha1.Fence{ObjectMeta: metav1.ObjectMeta{Name: "asked", UID: "f", ResourceVersion: "7"}, Spec: v1alpha1.FenceSpec{Node: v1alpha1.BootReference{Name: "n1", UID: "uid-n1", BootID: "boot-n1"}}}
	c := newCluster(t, interceptor.Funcs{SubResourceUpdate: func(_ context.Context, _ client.Client, _ string, o client.Object, _ ...client.SubResourceUpdateOption) error {
		tries++
		o.(*v1alpha1.Fence).Status = v1alpha1.FenceStatus{} // of which nothing is left
		return nil
	}})
	_, err := c.advance(t.Context(), logr.Discard(), fence, nil, fencing.Facts{}, &c.calls)
	if err == nil || !strings.Contains(err.Error(), "CustomResourceDefinition fences.podgrace.dev is older than this program") || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

// A pod is confirmed before it is deleted, in the fencer's name: by that the API server lets the delete through while no webhook answers. The confirmation is void once the
// node is heard of.
func TestPodsAreConfirmedFirst(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "p"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	var confirmed string
	c := newCluster(t, interceptor.Funcs{Delete: func(ctx context.Context, kube client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		var stored corev1.Pod
		if err := kube.Get(ctx, client.ObjectKeyFromObject(o), &stored); err != nil {
			return err
		}
		if holds, _ := guard.Confirmation(&stored, guard.Node{State: guard.NodePresent, Heartbeat: time.Date(2026, 11, 20, 12, 0, 1, 0, time.UTC)}, time.Date(2026, 11, 20, 12, 0, 1, 0, time.UTC)); holds {
			t.Error("it holds, and the node was heard of")
		}
		confirmed = stored.Annotations[guard.AnnotationConfirmForceDelete]
		options := (&client.DeleteOptions{}).ApplyOptions(opts)
		if options.GracePeriodSeconds == nil || *options.GracePeriodSeconds != 0 || options.Preconditions == nil || *options.Preconditions.UID != "p" {
			t.Errorf("deleted with %+v", options)
		}
		return kube.Delete(ctx, o, opts...)
	}}, pod)
	if err := c.deletePod(t.Context(), fencing.DeletePod{Pod: v1alpha1.PodReference{Namespace: "shop", Name: "db-0", UID: "p"}, Heartbeat: c.clock.Now().Add(-time.Minute)}); err != nil {
		t.Fatal(err)
	}
	if want := "p/2026-11-20T12:00:00Z/2026-11-20T11:59:00Z"; confirmed != want {
		t.Errorf("confirmed by %q, want %q", confirmed, want)
	}
	if err := c.deletePod(t.Context(), fencing.DeletePod{Pod: v1alpha1.PodReference{Namespace: "shop", Name: "db-0", UID: "p"}}); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
}

// A pod of which a force delete was cut off is removed by whatever is written to it, or the next one of its name is: it is deleted by the receipt, and confirmed only where that is refused.
func TestPodsThatAreHalfDeleted(t *testing.T) {
	for _, refused := range []bool{false, true} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "p"}, Spec: corev1.PodSpec{NodeName: "n1"}}
		var done []string
		c := newCluster(t, interceptor.Funcs{
			Patch: func(ctx context.Context, kube client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
				done = append(done, "confirm")
				return kube.Patch(ctx, o, patch, opts...)
			},
			Delete: func(ctx context.Context, kube client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				done = append(done, "delete")
				if refused && len(done) == 1 {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "db-0", errors.New("no webhook answers"))
				}
				return kube.Delete(ctx, o, opts...)
			},
		}, pod)
		if err := c.deletePod(t.Context(), fencing.DeletePod{Pod: v1alpha1.PodReference{Namespace: "shop", Name: "db-0", UID: "p"}, CutOff: true}); err != nil {
			t.Error(err)
		}
		want := []string{"delete"}
		if refused {
			want = []string{"delete", "confirm", "delete"}
		}
		if !slices.Equal(done, want) {
			t.Errorf("refused first: %t: %v, want %v", refused, done, want)
		}
	}
}

// A pod whose annotations its tenant has filled up, so that it can't be confirmed, is deleted by the receipt alone.
func TestPodsThatCantBeConfirmed(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "p"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	c := newCluster(t, interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "db-0", field.ErrorList{field.TooLong(field.NewPath("metadata", "annotations"), "", 256<<10)})
	}}, pod)
	if err := c.deletePod(t.Context(), fencing.DeletePod{Pod: v1alpha1.PodReference{Namespace: "shop", Name: "db-0", UID: "p"}}); err != nil {
		t.Error(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// An agent that was recreated since the fence was decided is not called.
func TestLiveAgents(t *testing.T) {
	agent := &v1alpha1.FenceAgent{ObjectMeta: metav1.ObjectMeta{Name: "rack", UID: "new"}, Spec: v1alpha1.FenceAgentSpec{Type: v1alpha1.AgentManual}}
	kube := fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(agent).Build()
	live := LiveAgents{Live: kube, Namespace: "podgrace-fencing"}
	target := v1alpha1.FenceTargetAgent{FencePolicyAgent: v1alpha1.FencePolicyAgent{Name: "rack"}, UID: "old"}
	if _, err := live.Agent(t.Context(), nil, target); err == nil {
		t.Error("another agent of that name was used")
	}
	target.UID = "new"
	if _, err := live.Agent(t.Context(), nil, target); err != nil {
		t.Error(err)
	}
}

// Where the confirmation of a node is refused, its pods are released if it is silent still, and not if that was refused because it was heard of.
func TestConfirmationsThatAreRefused(t *testing.T) {
	for name, heard := range map[string]bool{"its annotations are full": false, "it was heard of": true} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "p"}, Spec: corev1.PodSpec{NodeName: "n1"}}
		c := newCluster(t, interceptor.Funcs{Patch: func(ctx context.Context, kube client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if _, ok := o.(*corev1.Node); ok {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n1", errors.New("no confirmation of it as it is now"))
			}
			return kube.Patch(ctx, o, patch, opts...)
		}}, pod)
		var lease coordinationv1.Lease
		if err := c.Get(t.Context(), types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: "n1"}, &lease); err != nil {
			t.Fatal(err)
		}
		sign := guard.ConfirmOff(node("n1"), &lease)
		if heard {
			c.later(t, 10*time.Second)
		}
		boot := v1alpha1.BootReference{Name: "n1", UID: "uid-n1", BootID: "boot-n1"}
		actions := []fencing.Action{fencing.ConfirmOff{Node: boot, Value: sign}, fencing.DeletePod{Node: boot, Pod: v1alpha1.PodReference{Namespace: "shop", Name: "db-0", UID: "p"}}}
		if err := c.act(t.Context(), logr.Discard(), &v1alpha1.Fence{}, &tracked{}, actions, &c.calls); err != nil {
			t.Error(err)
		}
		c.calls.Wait()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{}); (err == nil) != heard {
			t.Errorf("%s: the pod: %v", name, err)
		}
	}
}

// A request that hangs, as one at an admission webhook whose pods were on the node that is off, holds up no round, is not made twice at once, and ends with what it was for.
func TestWritesThatHang(t *testing.T) {
	var pods []client.Object
	var actions []fencing.Action
	for _, name := range []string{"db-0", "db-1"} {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: "n1"}})
		actions = append(actions, fencing.DeletePod{Pod: v1alpha1.PodReference{Namespace: "shop", Name: name, UID: types.UID(name)}})
	}
	hangs := make(chan string, 10)
	c := newCluster(t, interceptor.Funcs{Delete: func(ctx context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
		hangs <- o.GetName()
		<-ctx.Done()
		return ctx.Err()
	}}, pods...)
	fence, known := &v1alpha1.Fence{ObjectMeta: metav1.ObjectMeta{Name: "n1-1"}}, &tracked{}
	act := func(actions ...fencing.Action) error {
		t.Helper()
		done := make(chan error)
		go func() { done <- c.act(t.Context(), logr.Discard(), fence, known, actions, &c.calls) }()
		select {
		case err := <-done:
			return err
		case <-time.After(20 * time.Second):
			t.Fatal("the round waits for it")
			return nil
		}
	}
	if err := act(actions...); err != nil {
		t.Error(err)
	}
	<-hangs
	if err := errors.Join(act(actions...), act()); err != nil {
		t.Error(err)
	}
	c.calls.Wait()
	if err := act(); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if len(hangs) > 0 {
		t.Errorf("pod %s was deleted as well", <-hangs)
	}
}

// guarded is a policy that protects stateful pods of all namespaces.
func guarded() *v1alpha1.PodPolicy {
	return &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny}}}
}

// Nodes that are silent for long, and that nothing is done about, don't keep one from being looked at that falls silent after them.
func TestSilentNodesTakeTurns(t *testing.T) {
	objects := []client.Object{guarded(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "p"}, Spec: corev1.PodSpec{NodeName: "n1", Hostname: "db-0"}}}
	for i := range 30 {
		objects = append(objects, node(fmt.Sprintf("x%d", i)))
	}
	c := newCluster(t, interceptor.Funcs{}, objects...)
	c.later(t, 60*time.Second)
	c.later(t, 60*time.Second, "n1")
	for round := range 3 {
		c.clock.Step(2 * time.Second)
		facts, err := c.facts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		live := 0
		for _, n := range facts.Nodes {
			if n.Live {
				live++
			}
			if n.Name == "n1" && (!n.PodsKnown || len(n.Pods) != 1 || !n.Pods[0].Protected) {
				t.Errorf("round %d: the pods of n1: %v, %+v", round, n.PodsKnown, n.Pods)
			}
		}
		if live > 20 {
			t.Errorf("round %d: %d nodes were read", round, live)
		}
	}
}

// Where PodPolicies can't be listed, which pods they protect is unknown, and not that they protect none: by that a node that is off would count as released.
func TestPoliciesThatCantBeListed(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "p"}, Spec: corev1.PodSpec{NodeName: "n1", Hostname: "db-0"}}
	c := newCluster(t, interceptor.Funcs{List: func(ctx context.Context, kube client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, ok := list.(*v1alpha1.PodPolicyList); ok {
			return errors.New("the informer has not synced")
		}
		return kube.List(ctx, list, opts...)
	}}, guarded(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, pod)
	var facts fencing.Facts
	about, err := c.newSurroundings(t.Context())
	if err == nil {
		t.Error("it does not tell that it could not list them")
	}
	if err := c.readLive(t.Context(), &facts, "n1", nil, false, about); err != nil {
		t.Fatal(err)
	}
	if n := facts.Nodes[0]; n.PodsKnown {
		t.Errorf("its pods count as known: %+v", n.Pods)
	}
}

// A tenant's pods that name more claims than can be read in a round hold up nobody else's fence: they count as protected, and a claim that was read is known of all pods.
func TestClaimsAreReadWithinBounds(t *testing.T) {
	objects := []client.Object{guarded(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
	for i := range 3 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("p-%d", i), UID: types.UID(fmt.Sprint(i))}, Spec: corev1.PodSpec{NodeName: "n1"}}
		for j := range 1000 {
			volume := corev1.Volume{Name: fmt.Sprint("v-", j)}
			volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("claim-", j)}
			pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
		}
		objects = append(objects, pod)
	}
	read := 0
	c := newCluster(t, interceptor.Funcs{Get: func(ctx context.Context, kube client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, ok := o.(*corev1.PersistentVolumeClaim); ok {
			read++
		}
		return kube.Get(ctx, key, o, opts...)
	}}, objects...)
	about, err := c.newSurroundings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pods, err := c.podsOn(t.Context(), "n1", about)
	if err != nil || len(pods) != 3 {
		t.Fatalf("%+v, %v", pods, err)
	}
	for _, p := range pods {
		if !p.Protected {
			t.Errorf("pod %s is not protected, and its claims are not known", p.Name)
		}
	}
	if read == 0 || read > 200 {
		t.Errorf("%d claims were read", read)
	}
}

// What has been over for a week is deleted, and nothing of that name that was made since.
func TestWhatIsOverIsDeleted(t *testing.T) {
	over := &v1alpha1.Fence{
		ObjectMeta: metav1.ObjectMeta{Name: "n1-long-ago", UID: "f"}, Spec: v1alpha1.FenceSpec{Node: v1alpha1.BootReference{Name: "n1", UID: "uid-n1", BootID: "before"}, Reason: v1alpha1.FenceSilent},
		Status: v1alpha1.FenceStatus{Phase: v1alpha1.FenceOver, Message: "the node is back"},
	}
	var asked *types.UID
	c := newCluster(t, interceptor.Funcs{Delete: func(ctx context.Context, kube client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		if p := (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions; p != nil {
			asked = p.UID
		}
		return kube.Delete(ctx, o, opts...)
	}}, over)
	over.CreationTimestamp = metav1.NewTime(c.clock.Now().Add(-8 * 24 * time.Hour))
	if err := c.Update(t.Context(), over); err != nil {
		t.Fatal(err)
	}
	c.later(t, 10*time.Second)
	var left v1alpha1.FenceList
	if err := c.List(t.Context(), &left); err != nil || len(left.Items) > 0 {
		t.Errorf("there is %+v, %v", left.Items, err)
	}
	if asked == nil || *asked != "f" {
		t.Error("it was deleted whatever its UID")
	}
}
