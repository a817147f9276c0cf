package deploy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/status"
)

// enforcerOf is a client with a node enforcer's rights and what its token says: the names of nodes.
func enforcerOf(t *testing.T, s *suite.Suite, nodes ...string) client.Client {
	t.Helper()
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + nodeNamespace + ":podgrace-nodeenforcer", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + nodeNamespace},
	}
	if len(nodes) > 0 {
		config.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": nodes}
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, policyv1.AddToScheme, eventsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	kube, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

// ground is a cluster with Podgrace, two nodes and a pod on each.
type ground struct {
	*suite.Suite
	pods map[string]*corev1.Pod
}

func newGround(t *testing.T) *ground {
	t.Helper()
	g := &ground{Suite: shared.Get(t), pods: map[string]*corev1.Pod{}}
	if err := podgrace.AllowEnforcer(t.Context(), g.Cluster); err != nil {
		t.Fatal(err)
	}
	ns := g.Namespace(t)
	for _, name := range []string{"n1", "n2"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"mine": "x"}}, Spec: corev1.NodeSpec{PodCIDR: "10.0.0.0/24"}}
		g.Create(t, node)
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "on-" + name, Finalizers: []string{"e2e/keep"}}, Spec: podSpec()}
		p.Spec.NodeName = name
		g.Create(t, p)
		t.Cleanup(func() {
			_ = g.Client.Patch(context.Background(), p, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		})
		running := `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}],"containerStatuses":[{"name":"main","image":"i","imageID":"i","ready":true,"restartCount":0}]}}`
		if err := g.Client.Status().Patch(t.Context(), p, client.RawPatch(types.MergePatchType, []byte(running))); err != nil {
			t.Fatal(err)
		}
		conditions := `{"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"DiskPressure","status":"False"}],"capacity":{"cpu":"4"}}}`
		if err := g.Client.Status().Patch(t.Context(), node, client.RawPatch(types.StrategicMergePatchType, []byte(conditions))); err != nil {
			t.Fatal(err)
		}
		g.pods[name] = p
	}
	suite.InForce(t, "own-node.podgrace.dev", func(ctx context.Context) error {
		return enforcerOf(t, g.Suite).Delete(ctx, g.pods["n1"].DeepCopy(), client.DryRunAll)
	}, "only with a token that names its node")
	return g
}

// A node enforcer does all that the program does on its own node, and nothing of it on another's, nor without a token that names
// one node.
func TestEnforcerIsKeptToItsNode(t *testing.T) {
	g := newGround(t)
	own, other, none, two := enforcerOf(t, g.Suite, "n1"), enforcerOf(t, g.Suite, "n2"), enforcerOf(t, g.Suite), enforcerOf(t, g.Suite, "n1", "n2")
	for what, attempt := range onNode(g) {
		t.Run(what, func(t *testing.T) {
			if err := attempt(own); err != nil {
				t.Errorf("its own node: %v", err)
			}
			for who, kube := range map[string]client.Client{"another node's": other, "one without a node": none, "one of two nodes": two} {
				by := "own-node.podgrace.dev"
				if what == "evict" && kube == other { // CEL can't see its pod
					by = "enforcer.removal.podgrace.dev"
				}
				if err := attempt(kube); !suite.RefusedBy(err, by) {
					t.Errorf("%s: got %v", who, err)
				}
			}
		})
	}
}

// onNode is what the program does about node n1 and its pod, as dry runs.
func onNode(g *ground) map[string]func(client.Client) error {
	pod := g.pods["n1"]
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	ctx := context.Background()
	strategic := func(text string) client.Patch { return client.RawPatch(types.StrategicMergePatchType, []byte(text)) }
	return map[string]func(client.Client) error{
		"delete": func(c client.Client) error { return c.Delete(ctx, pod.DeepCopy(), client.DryRunAll) },
		"evict": func(c client.Client) error {
			return c.SubResource("eviction").Create(ctx, pod.DeepCopy(), &policyv1.Eviction{}, client.DryRunAll)
		},
		"mark": func(c client.Client) error {
			return c.Status().Patch(ctx, pod.DeepCopy(), strategic(`{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","reason":"EvictionByNodeEnforcer"}]}}`), client.DryRunAll)
		},
		"taint": func(c client.Client) error {
			// As the program does: the list is replaced as a whole, and the node lifecycle controller writes to it as well.
			return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				now := &corev1.Node{}
				if err := g.Client.Get(ctx, client.ObjectKeyFromObject(node), now); err != nil {
					return err
				}
				before := client.MergeFromWithOptions(now.DeepCopy(), client.MergeFromWithOptimisticLock{})
				now.Spec.Taints = append(now.Spec.Taints, corev1.Taint{Key: "podgrace.dev/pressure", Value: "memory", Effect: corev1.TaintEffectNoSchedule})
				return c.Patch(ctx, now, before, client.DryRunAll)
			})
		},
		"conditions": func(c client.Client) error {
			return c.Status().Patch(ctx, node.DeepCopy(), strategic(`{"status":{"conditions":[{"type":"PodgracePressure","status":"True"},{"type":"PodgraceEnforced","status":"True"},{"type":"PodgraceMemoryProtection","status":"True"}]}}`), client.DryRunAll)
		},
		"tell of its node": func(c client.Client) error { return c.Create(ctx, event("Node", "n1"), client.DryRunAll) },
	}
}

func event(kind, name string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, EventTime: metav1.NowMicro(), ReportingController: "podgrace-nodeenforcer",
		ReportingInstance: "i", Action: "a", Reason: "r", Type: corev1.EventTypeNormal, Regarding: corev1.ObjectReference{Kind: kind, Name: name},
	}
}

// On its own node too it writes nothing but its own: not what other agents go by.
func TestEnforcerWritesItsOwnOnly(t *testing.T) {
	g := newGround(t)
	c := enforcerOf(t, g.Suite, "n1")
	pod, node := g.pods["n1"], &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	for _, tc := range []struct {
		object client.Object
		status bool
		patch  string
	}{
		{node, false, `{"metadata":{"labels":{"mine":"y"}}}`},
		{node, false, `{"metadata":{"labels":{"other":"y"}}}`},
		{node, false, `{"metadata":{"annotations":{"a":"b"}}}`},
		{node, false, `{"metadata":{"annotations":{"podgrace.dev/self-fence":"{}","podgrace.dev/maintenance":"y"}}}`},
		{node, true, `{"metadata":{"annotations":{"podgrace.dev/self-fence":"{}"}}}`},
		{pod, true, `{"metadata":{"annotations":{"podgrace.dev/self-fence":"{}"}}}`},
		{node, false, `{"metadata":{"finalizers":["a/b"]}}`},
		{node, false, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n2","uid":"u"}]}}`},
		{node, false, `{"spec":{"unschedulable":true}}`},
		{node, false, `{"spec":{"providerID":"p"}}`},
		{node, false, `{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}]}}`},
		{node, false, `{"spec":{"taints":[{"key":"podgrace.dev/pressure","effect":"NoExecute"}]}}`},
		{node, true, `{"metadata":{"annotations":{"a":"b"}}}`},
		{node, true, `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`},
		{node, true, `{"status":{"conditions":[{"type":"DiskPressure","$patch":"delete"}]}}`},
		{node, true, `{"status":{"conditions":[{"type":"MemoryPressure","status":"True"}]}}`},
		{node, true, `{"status":{"capacity":{"cpu":"400"}}}`},
		{node, true, `{"status":{"allocatable":{"cpu":"400"}}}`},
		{node, true, `{"status":{"addresses":[{"type":"InternalIP","address":"10.1.1.1"}]}}`},
		{node, true, `{"status":{"nodeInfo":{"bootID":"b"}}}`},
		{node, true, `{"status":{"volumesInUse":["v"]}}`},
		{pod, true, `{"metadata":{"annotations":{"a":"b"}}}`}, // a confirmation is refused by another policy too, and the API server names either
		{pod, true, `{"metadata":{"labels":{"a":"b"}}}`},
		{pod, true, `{"metadata":{"finalizers":null}}`},
		{pod, true, `{"status":{"phase":"Failed"}}`},
		{pod, true, `{"status":{"reason":"r"}}`},
		{pod, true, `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`},
		{pod, true, `{"status":{"conditions":[{"type":"Ready","$patch":"delete"}]}}`},
		{pod, true, `{"status":{"podIPs":[{"ip":"10.0.0.9"}]}}`},
		{pod, true, `{"status":{"containerStatuses":null}}`},
	} {
		patch := client.RawPatch(types.StrategicMergePatchType, []byte(tc.patch))
		var err error
		if o := tc.object.DeepCopyObject().(client.Object); tc.status {
			err = c.Status().Patch(t.Context(), o, patch, client.DryRunAll)
		} else {
			err = c.Patch(t.Context(), o, patch, client.DryRunAll)
		}
		if err == nil || !strings.Contains(err.Error(), "own-node.podgrace.dev") {
			t.Errorf("%T status %t %s: got %v", tc.object, tc.status, tc.patch, err)
		}
	}
	for name, kind := range map[string]string{"n2": "Node", "web": "Deployment"} {
		if err := c.Create(t.Context(), event(kind, name), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "own-node.podgrace.dev") {
			t.Errorf("tell of %s %s: got %v", kind, name, err)
		}
	}
	if err := c.Create(t.Context(), event("Pod", "any"), client.DryRunAll); err != nil {
		t.Errorf("tell of a pod: %v", err)
	}
}

// Nobody else is asked: a person, and the same name in another namespace, which has no rights by it.
func TestOnlyEnforcersAreKept(t *testing.T) {
	g := newGround(t)
	for what, attempt := range onNode(g) {
		if err := attempt(g.Client); err != nil && what != "tell of its node" { // the administrator's client has no Events
			t.Errorf("the administrator: %s: %v", what, err)
		}
	}
}

// The program's own writer of the Node, with a token of that node, is never refused: neither its first words nor its last.
func TestStatusWriterIsNotRefused(t *testing.T) {
	g := newGround(t)
	kubeconfig, err := podgrace.EnforcerKubeconfigOf(g.Cluster, "n1")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	clients, err := state.NewClients(config)
	if err != nil {
		t.Fatal(err)
	}
	writer := &status.Writer{Nodes: clients, Name: "n1", Now: time.Now}
	for i, said := range []status.NodeStatus{
		{}, {Pressure: []string{"disk", "memory"}, Message: "short"}, {Pressure: []string{"memory"}, Unenforced: "drift"}, {PressureUnknown: true}, {},
	} {
		// A conflict with another writer of the Node is the program's next round.
		suite.Eventually(t, fmt.Sprint("status ", i), func(ctx context.Context) (bool, error) {
			err := writer.Write(ctx, said)
			if err != nil && strings.Contains(err.Error(), "own-node") {
				t.Fatal(err)
			}
			return err == nil, err
		})
	}
	elsewhere := &status.Writer{Nodes: clients, Name: "n2", Now: time.Now}
	if err := elsewhere.Write(t.Context(), status.NodeStatus{Pressure: []string{"pid"}}); err == nil || !strings.Contains(err.Error(), "its own Node only") {
		t.Errorf("another node: got %v", err)
	}
}

// The API server knows every field that our expressions name, of every resource that they are for.
func TestPoliciesAreWellTyped(t *testing.T) {
	g := newGround(t)
	suite.Eventually(t, "all policies checked", func(ctx context.Context) (bool, error) {
		var policies admissionregistrationv1.ValidatingAdmissionPolicyList
		if err := g.Client.List(ctx, &policies, client.MatchingLabels{"app.kubernetes.io/part-of": "podgrace"}); err != nil {
			return false, err
		}
		for _, p := range policies.Items {
			if p.Status.ObservedGeneration != p.Generation || p.Status.TypeChecking == nil {
				return false, nil
			}
			for _, w := range p.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s: %s: %s", p.Name, w.FieldRef, w.Warning)
			}
		}
		return len(policies.Items) >= 6, nil
	})
}
