package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// An installation that fails, in whatever variant: its webhook never answers, for want of an image, a certificate or a place, or because it ends as soon as it
// starts. Policies that deny make nothing of that: ordinary work goes on, and so do removals of every road, those of nodes above all.
func TestFailedInstallBlocksNothing(t *testing.T) {
	w := empty(t)
	w.install(t, append(certManagerCRDs(t), prometheusCRDs(t)...))
	policies := append(readFiles(t, manifests+"/policies/first.yaml"), objects(t, []byte(strings.ReplaceAll(refusing, "zeroGrace: Deny", "protect: All")))...)
	var closed variant
	for _, v := range variants {
		if slices.Contains(v.components, "limits-fail-closed") {
			closed = v
		}
		t.Run(v.name, func(t *testing.T) {
			w.install(t, append(v.kustomized(t), policies...))
			w.removes(t) // and makes the pods that it removes
		})
	}
	// With the objects of all variants there, which hold up more than those of one; and limits that fail closed.
	w.install(t, slices.DeleteFunc(closed.kustomized(t), func(o *unstructured.Unstructured) bool { return o.GetKind() != "ValidatingWebhookConfiguration" }))
	w.goesOn(t, "a failed installation")
	w.scales(t)
	w.endsNamespace(t)
	t.Run("the namespace is deleted by mistake", w.losesNamespace)
}

// losesNamespace is what becomes of a guard and of limits that were armed when somebody deletes Podgrace's namespace: what is left of it, all that has no namespace, holds up nothing.
func (w *world) losesNamespace(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	unanswered := map[string]func(context.Context) error{
		"node.removal.podgrace.dev":  func(ctx context.Context) error { return w.kube.Delete(ctx, node.DeepCopy(), client.DryRunAll) },
		"pods.validate.podgrace.dev": func(ctx context.Context) error { return w.kube.Create(ctx, w.pod(shop), client.DryRunAll) },
	}
	w.inForce(t, controllers.Asked{Admissions: true, Removals: true, Guarded: controllers.Closed{All: true}, Nodes: true, Limits: true})
	for name, request := range unanswered {
		suite.InForce(t, name, request, "failed calling webhook")
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := w.kube.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	for name, request := range unanswered {
		suite.OutOfForce(t, name, request)
	}
	suite.Eventually(t, "the namespace gone", func(ctx context.Context) (bool, error) {
		err := w.kube.Get(ctx, client.ObjectKeyFromObject(ns), ns)
		return err != nil, client.IgnoreNotFound(err)
	})
	w.goesOn(t, "the end of Podgrace's namespace")
	w.scales(t)
	w.removes(t)
	w.endsNamespace(t)
}

// scales has the Deployment controller make a pod, and take it away again.
func (w *world) scales(t *testing.T) {
	t.Helper()
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web"}}
	for _, replicas := range []int32{1, 0} {
		if err := w.kube.SubResource("scale").Update(t.Context(), web, client.WithSubResourceBody(&autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web"}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}})); err != nil {
			t.Fatalf("scale to %d: %v", replicas, err)
		}
		suite.Eventually(t, fmt.Sprintf("%d pods", replicas), func(ctx context.Context) (bool, error) {
			var pods corev1.PodList
			err := w.kube.List(ctx, &pods, client.InNamespace(shop), client.MatchingLabels{"app": "web"})
			return len(pods.Items) == int(replicas), err
		})
	}
}

// removes takes every road that the removal guard would judge: of pods that run, of their node and of its volume.
func (w *world) removes(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	running := func() *corev1.Pod {
		p := w.pod(shop)
		p.Spec.NodeName = "n1"
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "db", Controller: new(true)}}
		if err := w.kube.Create(ctx, p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	evict := func(p *corev1.Pod, grace *int64) error {
		return w.kube.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: grace}})
	}
	merge := func(patch string) client.Patch { return client.RawPatch("application/merge-patch+json", []byte(patch)) }
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: "example.org", NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("v")},
	}}
	for _, road := range []struct {
		name string
		take func() error
	}{
		{"delete", func() error { return w.kube.Delete(ctx, running()) }},
		{"force delete", func() error { return w.kube.Delete(ctx, running(), client.GracePeriodSeconds(0)) }},
		{"drain", func() error { return evict(running(), nil) }},
		{"eviction without grace", func() error { return evict(running(), new(int64)) }},
		{"status", func() error { return w.kube.Status().Patch(ctx, running(), merge(`{"status":{"phase":"Failed"}}`)) }},
		{"volume attachment", func() error {
			if err := w.kube.Create(ctx, attachment); err != nil {
				return err
			}
			if err := w.kube.Status().Patch(ctx, attachment, merge(`{"status":{"attached":true}}`)); err != nil {
				return err
			}
			return w.kube.Delete(ctx, attachment)
		}},
		{"out of service", func() error {
			return w.kube.Patch(ctx, node, merge(`{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}]}}`))
		}},
		{"node", func() error {
			running()
			return w.kube.Delete(ctx, node)
		}},
	} {
		if err := road.take(); err != nil {
			t.Errorf("%s: %v", road.name, err)
		}
	}
	if err := w.kube.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}); err != nil {
		t.Fatal(err)
	}
}

// endsNamespace has a namespace and what is in it go.
func (w *world) endsNamespace(t *testing.T) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "going-"}}
	if err := w.kube.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "its service account", func(ctx context.Context) (bool, error) {
		err := w.kube.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
	if err := w.kube.Create(t.Context(), w.pod(ns.Name)); err != nil {
		t.Fatal(err)
	}
	if err := w.kube.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the namespace gone", func(ctx context.Context) (bool, error) {
		err := w.kube.Get(ctx, client.ObjectKeyFromObject(ns), ns)
		return err != nil, client.IgnoreNotFound(err)
	})
}
