package apiserver

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/defaulting/limits"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// excludingCluster has Podgrace in it, installed with excluded namespaces, which takes a cluster of its own.
func excludingCluster(t *testing.T, patterns ...string) *suite.Suite {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute) // the first run on a machine builds Kubernetes
	defer cancel()
	_, err := cluster.Binaries(ctx, os.Stderr, cluster.Options{}.Programs()...)
	clustertest.Require(t, err)
	c, err := cluster.Start(ctx, cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	w, err := podgrace.Install(ctx, c, podgrace.Options{Args: []string{"--exclude-namespaces=" + strings.Join(patterns, ",")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop() }) // the test has stopped it, if it came so far
	kube, err := suite.NewClient(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	exempt, err := policy.ExemptIn("podgrace-system").Excluding(patterns...)
	if err != nil {
		t.Fatal(err)
	}
	exclude(t, kube, exempt)
	return &suite.Suite{Cluster: c, Webhook: w, Client: kube}
}

// exclude has what is installed leave the namespaces out, as the chart does (e2e/deploy holds the one against the other).
func exclude(t *testing.T, kube client.Client, exempt policy.Exempt) {
	t.Helper()
	var policies admissionregistrationv1.ValidatingAdmissionPolicyList
	if err := kube.List(t.Context(), &policies); err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: certs.ConfigurationName}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: certs.ConfigurationName}},
	}
	for i := range policies.Items {
		objects = append(objects, &policies.Items[i])
	}
	for _, o := range objects {
		suite.Eventually(t, o.GetName()+" leaves out what is excluded", func(ctx context.Context) (bool, error) { // the leader writes into them as well
			if err := kube.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return false, err
			}
			controllers.RenderExempt(o.(runtime.Object), exempt)
			return true, kube.Update(ctx, o)
		})
	}
}

// In excluded namespaces nothing is defaulted, limited or guarded, with the webhook or without it, and their pods hold up no removal of a node; everywhere else it is as always.
func TestExcludedNamespaces(t *testing.T) {
	s := excludingCluster(t, "calico-system", "openshift-*")
	excluded, others := []string{"calico-system", "openshift-dns"}, []string{"shop", "openshift"} // the latter is none of openshift-*
	for _, name := range slices.Concat(excluded, others) {
		if err := s.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"n1", "n2"} {
		if err := s.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	everywhere := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "everywhere"}, Spec: v1alpha1.PodPolicySpec{
		Removal:  &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectAll},
		Priority: &v1alpha1.PrioritySection{AllowedClassNames: []string{"system-node-critical"}},
	}}
	if err := s.Client.Create(t.Context(), everywhere); err != nil {
		t.Fatal(err)
	}
	s.WaitInForce(t, everywhere)
	suite.InForce(t, limits.Name, func(ctx context.Context) error {
		return s.Client.Create(ctx, newPod("shop", class("system-cluster-critical")), client.DryRunAll)
	})
	on := func(node string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeName, p.Name = node, "on-"+node }
	}
	bound := map[string]*corev1.Pod{}
	for _, name := range slices.Concat(excluded, others) {
		bound[name] = newPod(name, on("n1"))
		if err := s.Client.Create(t.Context(), bound[name]); err != nil {
			t.Fatal(err)
		}
	}
	onlyExcluded := newPod("openshift-dns", on("n2"))
	if err := s.Client.Create(t.Context(), onlyExcluded); err != nil {
		t.Fatal(err)
	}
	// judged reports whether limits and guard hold in a namespace.
	judged := func(when, namespace string, want bool) {
		t.Helper()
		kube, warnings := s.Warned(t, "")
		if err := kube.Create(t.Context(), newPod(namespace, class("system-cluster-critical")), client.DryRunAll); (err != nil) != want {
			t.Errorf("%s: a pod of a class that is not allowed in %s: %v", when, namespace, err)
		}
		if err := kube.Delete(t.Context(), bound[namespace].DeepCopy(), client.GracePeriodSeconds(0), client.DryRunAll); (err != nil) != want {
			t.Errorf("%s: a force delete in %s: %v", when, namespace, err)
		}
		if got := warnings.Take(); !want && len(got) > 0 && !strings.Contains(strings.Join(got, ""), "Immediate deletion") {
			t.Errorf("%s: %s: %q", when, namespace, got)
		}
	}
	node := func(name string) error {
		return s.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.DryRunAll)
	}
	for _, name := range excluded {
		judged("with the webhook", name, false)
	}
	for _, name := range others {
		judged("with the webhook", name, true)
	}
	if err := node("n2"); err != nil {
		t.Errorf("a Node whose pods are all in excluded namespaces: %v", err)
	}
	err := node("n1")
	if err == nil || !strings.Contains(err.Error(), "openshift/on-n1") || !strings.Contains(err.Error(), "shop/on-n1") || strings.Contains(err.Error(), "openshift-dns") || strings.Contains(err.Error(), "calico-system") {
		t.Errorf("a Node with pods of both: %v", err)
	}

	if err := s.Webhook.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, name := range excluded {
		judged("without it", name, false)
	}
	for _, name := range others {
		judged("without it", name, true)
	}
	if err := s.Client.Delete(t.Context(), onlyExcluded, client.GracePeriodSeconds(0)); err != nil {
		t.Errorf("it is not removed: %v", err)
	}
}
