package deploy

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// enforceAdmissions does what AKS' admissions enforcer does to webhook configurations that don't say
// admissions.enforcer/disabled: "true": it keeps their webhooks from AKS' own namespaces, as an owner of the selectors. From what its users
// report (github.com/aws-observability/helm-charts/issues/350, github.com/cert-manager/cert-manager/issues/4114).
func (w *world) enforceAdmissions(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		c := &unstructured.Unstructured{}
		c.SetAPIVersion("admissionregistration.k8s.io/v1")
		c.SetKind(kind)
		if err := w.kube.Get(t.Context(), client.ObjectKey{Name: "podgrace"}, c); err != nil {
			t.Fatal(err)
		}
		if c.GetAnnotations()["admissions.enforcer/disabled"] == "true" {
			continue
		}
		webhooks, _, _ := unstructured.NestedSlice(c.Object, "webhooks")
		var enforced []any
		for _, each := range webhooks {
			webhook := each.(map[string]any)
			expressions, _, _ := unstructured.NestedSlice(webhook, "namespaceSelector", "matchExpressions")
			own := map[string]any{"key": "control-plane", "operator": "DoesNotExist"}
			enforced = append(enforced, map[string]any{"name": webhook["name"], "namespaceSelector": map[string]any{"matchExpressions": append(expressions, own)}})
		}
		apply := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "podgrace"}, "webhooks": enforced}}
		apply.SetGroupVersionKind(c.GroupVersionKind())
		if err := w.kube.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(apply), client.FieldOwner("admissionsenforcer"), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
}

// On AKS upgrades go through, the second as the first, and nothing is left to apply: its admissions enforcer leaves the webhook
// configurations alone. Without the annotation it would not.
func TestAdmissionsEnforcerOfAKS(t *testing.T) {
	w := empty(t)
	w.helmIn(t, "install", chart, "--create-namespace")
	w.enforceAdmissions(t)
	for range 2 {
		w.helmIn(t, "upgrade", chart, "--reset-then-reuse-values")
		w.enforceAdmissions(t)
	}
	manifest, err := helm(t, "get", "manifest", "podgrace", "--kubeconfig", w.Kubeconfig, "--namespace", namespace)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects(t, []byte(manifest)) {
		if !strings.HasSuffix(o.GetKind(), "WebhookConfiguration") {
			continue
		}
		now := o.DeepCopy()
		if err := w.kube.Get(t.Context(), client.ObjectKeyFromObject(o), now); err != nil {
			t.Fatal(err)
		}
		if err := w.kube.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("gitops"), client.DryRunAll); err != nil {
			t.Errorf("%s: %v", key(o), err)
		}
		if o.GetGeneration() != now.GetGeneration() {
			t.Errorf("%s: there was something left to apply", key(o))
		}
	}

	const without = `webhook.configurationAnnotations.admissions\.enforcer/disabled=null`
	w.helmIn(t, "upgrade", chart, "--reset-then-reuse-values", "--set", without)
	w.enforceAdmissions(t)
	_, err = helm(t, "upgrade", "podgrace", chart, "--kubeconfig", w.Kubeconfig, "--namespace", namespace, "--reset-then-reuse-values", "--set", without)
	if err == nil || !strings.Contains(err.Error(), `conflicts with "admissionsenforcer"`) {
		t.Errorf("without the annotation: got %v", err)
	}
}
