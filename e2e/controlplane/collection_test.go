package controlplane

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	installation "github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/guard"
)

const (
	collectionNode = "node-0"
	enforcerUser   = "system:serviceaccount:podgrace-system:podgrace-nodeenforcer"
)

// aroundPods are pods in the midst of a collection, by the rule that can refuse their DELETE. make prepares the pod, which is bound to a node and has a finalizer.
var aroundPods = map[string][]struct {
	name string
	user string // empty: the administrator
	make func(t *testing.T, admin, kubelet client.Client, p *corev1.Pod)
}{
	"half-done-delete.podgrace.dev": {
		{"ended, and deleted plainly", "", func(t *testing.T, admin, kubelet client.Client, p *corev1.Pod) {
			t.Helper()
			ended(t, kubelet, p)
			deleted(t, admin, p)
		}},
		{"deleted plainly, and ended by its kubelet", "", func(t *testing.T, admin, kubelet client.Client, p *corev1.Pod) {
			t.Helper()
			deleted(t, admin, p)
			ended(t, kubelet, p)
			deleted(t, kubelet, p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
		}},
	},
	"delete.removal.podgrace.dev": {
		{"force-deleted", "", func(t *testing.T, admin, _ client.Client, p *corev1.Pod) {
			t.Helper()
			deleted(t, admin, p, client.GracePeriodSeconds(0))
		}},
	},
	"open-delete.removal.podgrace.dev": {
		{"running", "", func(*testing.T, client.Client, client.Client, *corev1.Pod) {}},
	},
	"confirmed-pod.removal.podgrace.dev": {
		{"confirmed, and force-deleted", "", func(t *testing.T, admin, _ client.Client, p *corev1.Pod) {
			t.Helper()
			text := `{"metadata":{"annotations":{"` + guard.AnnotationConfirmForceDelete + `":"` + suite.Confirmation(p) + `"}}}`
			if err := admin.Patch(t.Context(), p, client.RawPatch("application/merge-patch+json", []byte(text))); err != nil {
				t.Fatal(err)
			}
			deleted(t, admin, p, client.GracePeriodSeconds(0))
		}},
	},
	"enforcer.removal.podgrace.dev": {
		{"ended, by the node enforcer of its node", enforcerUser, func(t *testing.T, admin, kubelet client.Client, p *corev1.Pod) {
			t.Helper()
			ended(t, kubelet, p)
			deleted(t, admin, p)
		}},
		{"force-deleted, by the node enforcer of its node", enforcerUser, func(t *testing.T, admin, _ client.Client, p *corev1.Pod) {
			t.Helper()
			deleted(t, admin, p, client.GracePeriodSeconds(0))
		}},
	},
}

// notOfPods can refuse a DELETE and read no options of it: that a delete is a forced one makes no difference to them. own-node is of the account of node enforcers alone.
var notOfPods = []string{
	"node.removal.podgrace.dev", "open-node.removal.podgrace.dev", "confirmed-node.removal.podgrace.dev", "volume-attachment.removal.podgrace.dev", "detach.removal.podgrace.dev",
	"fence-receipts.podgrace.dev", "volume-locks.podgrace.dev", "own-node.podgrace.dev",
}

// The first refusal ends a collection delete: pods that sort behind stay. It can't name one pod's UID, so that where only forced ones pass, people force-delete what runs. So no rule refuses
// a plain collection delete where the forced one passes, and none where no policy denies: one pod that waits for its finalizer between pods that run, for every rule.
func TestCollectionAroundAPodThatWaits(t *testing.T) {
	s := start(t)
	denied := s.Namespace(t)
	s.Policy(t, denied, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectStateful}})
	config, err := s.User("system:node:"+collectionNode, "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	kubelet, err := suite.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range slices.Sorted(maps.Keys(aroundPods)) {
		for _, tc := range aroundPods[rule] {
			for where, ns := range map[string]string{"no policy": s.Namespace(t), "a policy that denies": denied} {
				t.Run(tc.name+"/"+where, func(t *testing.T) {
					running := collection(t, s, ns, func(p *corev1.Pod) { tc.make(t, s.Client, kubelet, p) })
					kube := s.Client
					if tc.user != "" {
						kube = enforcerOf(t, s, collectionNode)
					}
					plain := kube.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(ns), client.DryRunAll)
					forced := kube.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(ns), client.DryRunAll, client.GracePeriodSeconds(0))
					if plain != nil {
						t.Fatalf("%s: a collection delete is refused: %v\nThe forced one: %v", rule, plain, forced)
					}
					if forced != nil { // no pod of it is stateful
						t.Errorf("%s: a forced collection delete is refused: %v", rule, forced)
					}
					if err := kube.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(ns)); err != nil {
						t.Fatal(err)
					}
					for _, p := range running {
						if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil || p.DeletionTimestamp == nil {
							t.Errorf("pod %s is not being deleted (%v)", p.Name, err)
						}
					}
				})
			}
		}
	}
}

// collection makes pods that run and, between them, one that waits for its finalizer. They are gone when the test ends.
func collection(t *testing.T, s *suite.Suite, ns string, wait func(*corev1.Pod)) (running []*corev1.Pod) {
	t.Helper()
	var all []*corev1.Pod
	for _, name := range []string{"a1", "a2", "m", "z1", "z2"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: template(name).Spec}
		p.Spec.NodeName = collectionNode
		if name == "m" {
			p.Finalizers = []string{"example.com/hold"}
		} else {
			running = append(running, p)
		}
		s.Create(t, p)
		all = append(all, p)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		_ = s.Client.Patch(ctx, all[2], client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		for _, p := range all {
			if err := client.IgnoreNotFound(s.Client.Delete(ctx, p, client.GracePeriodSeconds(0))); err != nil {
				t.Error(err)
			}
		}
	})
	wait(all[2])
	return running
}

func ended(t *testing.T, kubelet client.Client, p *corev1.Pod) {
	t.Helper()
	if err := kubelet.Status().Patch(t.Context(), p, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Succeeded"}}`))); err != nil {
		t.Fatal(err)
	}
}

func deleted(t *testing.T, kube client.Client, p *corev1.Pod, options ...client.DeleteOption) {
	t.Helper()
	if err := kube.Delete(t.Context(), p, options...); err != nil {
		t.Fatal(err)
	}
}

// enforcerOf returns a client with the account of node enforcers and a token of the one of a node.
func enforcerOf(t *testing.T, s *suite.Suite, node string) client.Client {
	t.Helper()
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: enforcerUser, Groups: []string{"system:masters"}, Extra: map[string][]string{"authentication.kubernetes.io/node-name": {node}}}
	kube, err := suite.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

// Each rule of the manifests that can refuse a DELETE is one of those above.
func TestCollectionsOfEveryRule(t *testing.T) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	rules := slices.Concat(slices.Collect(maps.Keys(aroundPods)), notOfPods)
	found := map[string]bool{}
	for _, pattern := range []string{"webhook", "nodeenforcer", "components/*"} {
		files, err := filepath.Glob(filepath.Join(root, "deploy", pattern, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			objects, err := installation.Objects(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range objects {
				for name, text := range deleteRules(t, o) {
					found[name] = true
					if !slices.Contains(rules, name) {
						t.Errorf("%s: %s can refuse a DELETE, and no collection is tried with it", file, name)
					}
					if slices.Contains(notOfPods, name) && strings.Contains(text, "request.options") {
						t.Errorf("%s: %s reads the options of a DELETE: try a collection with it", file, name)
					}
				}
			}
		}
	}
	for _, name := range rules {
		if !found[name] {
			t.Errorf("no manifest has %s", name)
		}
	}
}

// deleteRules returns the webhooks or the ValidatingAdmissionPolicy of an object that are asked about a DELETE, and all of their expressions.
func deleteRules(t *testing.T, o *unstructured.Unstructured) map[string]string {
	t.Helper()
	asked := func(rules []admissionregistrationv1.OperationType) bool {
		return slices.Contains(rules, admissionregistrationv1.Delete) || slices.Contains(rules, admissionregistrationv1.OperationAll)
	}
	found := map[string]string{}
	switch o.GetKind() {
	case "ValidatingWebhookConfiguration":
		var c admissionregistrationv1.ValidatingWebhookConfiguration
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &c); err != nil {
			t.Fatal(err)
		}
		for _, w := range c.Webhooks {
			if slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool { return asked(r.Operations) }) {
				for _, m := range w.MatchConditions {
					found[w.Name] += m.Expression
				}
			}
		}
	case "ValidatingAdmissionPolicy":
		var p admissionregistrationv1.ValidatingAdmissionPolicy
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(p.Spec.MatchConstraints.ResourceRules, func(r admissionregistrationv1.NamedRuleWithOperations) bool { return asked(r.Operations) }) {
			for _, m := range p.Spec.MatchConditions {
				found[p.Name] += m.Expression
			}
			for _, v := range p.Spec.Validations {
				found[p.Name] += v.Expression
			}
		}
	}
	return found
}
