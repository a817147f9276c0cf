package certs_test

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/certs"
)

func mutating(webhooks ...admissionregistrationv1.MutatingWebhook) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: certs.ConfigurationName}, Webhooks: webhooks}
}

func validating(webhooks ...admissionregistrationv1.ValidatingWebhook) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: certs.ConfigurationName}, Webhooks: webhooks}
}

func secret(ca string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "podgrace-system", Name: certs.SecretName}, Data: map[string][]byte{corev1.TLSCertKey: []byte(ca)}}
}

func kube(objects ...client.Object) client.WithWatch {
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme)
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func reconciled(t *testing.T, c client.WithWatch) {
	t.Helper()
	if _, err := (&certs.CABundle{Client: c, Namespace: "podgrace-system"}).Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
}

// Every webhook of both configurations gets the CA, and gets it back when somebody empties it; nothing else is touched.
func TestCABundleIsWrittenAndRepaired(t *testing.T) {
	url := "https://localhost:1/x"
	c := kube(secret("CA 1"),
		mutating(admissionregistrationv1.MutatingWebhook{Name: "a.podgrace.dev", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}}),
		validating(admissionregistrationv1.ValidatingWebhook{Name: "b.podgrace.dev"}, admissionregistrationv1.ValidatingWebhook{Name: "c.podgrace.dev", ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: []byte("old")}}))
	check := func(step string) {
		t.Helper()
		m, v := mutating(), validating()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(v), v); err != nil {
			t.Fatal(err)
		}
		if len(m.Webhooks) != 1 || len(v.Webhooks) != 2 {
			t.Fatalf("%s: webhooks were lost: %v %v", step, m.Webhooks, v.Webhooks)
		}
		if w := m.Webhooks[0]; string(w.ClientConfig.CABundle) != "CA 1" || w.ClientConfig.URL == nil || *w.ClientConfig.URL != url {
			t.Errorf("%s: got %+v", step, w.ClientConfig)
		}
		for _, w := range v.Webhooks {
			if string(w.ClientConfig.CABundle) != "CA 1" {
				t.Errorf("%s: %s has caBundle %q", step, w.Name, w.ClientConfig.CABundle)
			}
		}
	}
	reconciled(t, c)
	check("written")
	v := validating()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(v), v); err != nil {
		t.Fatal(err)
	}
	v.Webhooks[0].ClientConfig.CABundle = nil
	if err := c.Update(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	reconciled(t, c)
	check("repaired")
}

// Before the Secret exists, or before the configurations do, there is nothing to do and nothing to fail.
func TestCABundleWithoutSecretOrConfigurations(t *testing.T) {
	c := kube(mutating(admissionregistrationv1.MutatingWebhook{Name: "a.podgrace.dev"}))
	reconciled(t, c)
	m := mutating()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil || m.Webhooks[0].ClientConfig.CABundle != nil {
		t.Errorf("got %+v, %v", m.Webhooks, err)
	}
	reconciled(t, kube(secret("CA 1")))
	reconciled(t, kube(secret("")))
}

func TestFilesThatAreMissing(t *testing.T) {
	if _, err := certs.Files(t.TempDir()); err == nil {
		t.Error("no error")
	}
}
