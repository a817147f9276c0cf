package deploy

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Another issuer signs the webhook's certificate: nothing of an own CA is made, and the rest is as with it.
func TestIssuerOfTheUser(t *testing.T) {
	mode := "certificates.mode=cert-manager"
	own := variant{values: []string{mode}}.templated(t, namespace)
	all := variant{values: []string{mode, "certificates.issuerRef.kind=ClusterIssuer", "certificates.issuerRef.name=corporate"}}.templated(t, namespace)
	if len(own)-len(all) != 3 {
		t.Errorf("%d objects, and %d with an own CA", len(all), len(own))
	}
	for _, o := range all {
		if kind := o.GetKind(); kind == "Issuer" || kind == "Certificate" && o.GetName() != "podgrace-webhook" {
			t.Errorf("%s is of an own CA", key(o))
		}
	}
	issuer, _, _ := unstructured.NestedStringMap(find(t, all, "Certificate", "podgrace-webhook").Object, "spec", "issuerRef")
	if issuer["group"] != "cert-manager.io" || issuer["kind"] != "ClusterIssuer" || issuer["name"] != "corporate" || len(issuer) != 3 {
		t.Errorf("issuer %v", issuer)
	}
}

// A certificate of the user's own is mounted from his Secret, and his CA is the caBundle of every webhook: neither cert-manager nor the webhook makes one.
func TestCertificateOfTheUser(t *testing.T) {
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("a")}))
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, []byte(ca), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := helm(t, "template", "podgrace", chart, "--namespace", namespace, "--set", noRegistry+",certificates.mode=secret,certificates.secret=mine", "--set-file", "certificates.caBundle="+file)
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, []byte(out))
	for _, o := range all {
		if strings.Contains(o.GetAPIVersion(), "cert-manager.io") || o.GetName() == "own-secret.podgrace.dev" {
			t.Errorf("%s is there", key(o))
		}
		if o.GetKind() == "ValidatingWebhookConfiguration" || o.GetKind() == "MutatingWebhookConfiguration" {
			for _, w := range typed[admissionregistrationv1.ValidatingWebhookConfiguration](t, only(o, "clientConfig")).Webhooks {
				if string(w.ClientConfig.CABundle) != ca {
					t.Errorf("%s: caBundle %q", key(o), w.ClientConfig.CABundle)
				}
			}
		}
	}
	for right := range declaredFor(t, all, "podgrace-webhook", namespace) {
		if strings.Contains(right, "/secrets ") {
			t.Errorf("it has a right on Secrets: %s", right)
		}
	}
	pod := typed[appsv1.Deployment](t, find(t, all, "Deployment", "podgrace-webhook")).Spec.Template.Spec
	if !slices.Equal(pod.Containers[0].Args, []string{"--cert-mode=files", "--cert-dir=/tls"}) || pod.Volumes[0].Secret.SecretName != "mine" {
		t.Errorf("args %q, volumes %v", pod.Containers[0].Args, pod.Volumes)
	}
}

// only is a webhook configuration with its webhooks' names and one of their fields.
func only(o *unstructured.Unstructured, field string) *unstructured.Unstructured {
	all, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	var some []any
	for _, each := range all {
		w := each.(map[string]any)
		some = append(some, map[string]any{"name": w["name"], field: w[field]})
	}
	return &unstructured.Unstructured{Object: map[string]any{"webhooks": some}}
}

// The bounds of TLS become flags, beside those of whatever mode.
func TestTLSValues(t *testing.T) {
	for values, want := range map[string][]string{
		"webhook.tls.minVersion=VersionTLS12":                                                                        {"--cert-mode=self-managed"},
		"webhook.tls.minVersion=VersionTLS13,certificates.mode=cert-manager":                                         {"--cert-mode=files", "--cert-dir=/tls", "--tls-min-version=VersionTLS13"},
		"webhook.tls.cipherSuites={TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}": {"--cert-mode=self-managed", "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"},
	} {
		d, _ := webhookOf(t, values)
		if got := d.Spec.Template.Spec.Containers[0].Args; !slices.Equal(got, want) {
			t.Errorf("%s: %q", values, got)
		}
	}
}
