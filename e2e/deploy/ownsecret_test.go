package deploy

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/suite"
)

// webhookUser is a client with the webhook's rights in Podgrace's namespace.
func webhookUser(t *testing.T, s *suite.Suite) client.Client {
	t.Helper()
	kube, _ := s.Warned(t, "system:serviceaccount:"+namespace+":podgrace-webhook", "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	return kube
}

// With the right to create Secrets the webhook can make its CA's and no other: none by which it would get another account's token.
func TestWebhookMakesItsOwnSecretOnly(t *testing.T) {
	s := shared.Get(t)
	own := webhookUser(t, s)
	const by = "own-secret.podgrace.dev"
	suite.InForce(t, by, func(ctx context.Context) error { return own.Create(ctx, secret("any", nil), client.DryRunAll) })
	token := func(o *corev1.Secret) {
		o.Type = corev1.SecretTypeServiceAccountToken
		o.Annotations = map[string]string{corev1.ServiceAccountNameKey: "podgrace-nodeenforcer"}
	}
	for name, tc := range map[string]struct {
		secret *corev1.Secret
		want   string
	}{
		"another name":          {secret("podgrace-webhook-ca2", nil), "the Secret podgrace-webhook-ca only"},
		"no name":               {secret("", func(o *corev1.Secret) { o.GenerateName = "podgrace-webhook-ca" }), "the Secret podgrace-webhook-ca only"},
		"a name made of it":     {secret("", func(o *corev1.Secret) { o.GenerateName = "podgrace-webhook-" }), "the Secret podgrace-webhook-ca only"},
		"both kinds of name":    {secret(certs.SecretName, func(o *corev1.Secret) { o.GenerateName = "podgrace-" }), "the Secret podgrace-webhook-ca only"},
		"a token":               {secret(certs.SecretName, token), "of type Opaque only"},
		"a token, another name": {secret("token", token), "the Secret podgrace-webhook-ca only"},
		"another type":          {secret(certs.SecretName, func(o *corev1.Secret) { o.Type = "example.org/other" }), "of type Opaque only"},
		"an account's": {secret(certs.SecretName, func(o *corev1.Secret) {
			o.Annotations = map[string]string{corev1.ServiceAccountNameKey: "podgrace-nodeenforcer"}
		}), "for a service account"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := own.Create(t.Context(), tc.secret.DeepCopy(), client.DryRunAll); !suite.RefusedBy(err, by, tc.want) {
				t.Errorf("the webhook: got %v", err)
			}
			if err := s.Client.Create(t.Context(), tc.secret.DeepCopy(), client.DryRunAll); suite.RefusedBy(err, by) {
				t.Errorf("the administrator: got %v", err)
			}
		})
	}
}

// What the program itself does is not refused: it recreates the CA's Secret, and that can't become another type.
func TestWebhookMakesItsSecret(t *testing.T) {
	s := shared.Get(t)
	key := client.ObjectKey{Namespace: namespace, Name: certs.SecretName}
	var before corev1.Secret
	if err := s.Client.Get(t.Context(), key, &before); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Delete(t.Context(), before.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	after := &corev1.Secret{}
	suite.Eventually(t, "another Secret", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, key, after)
		return err == nil && after.UID != before.UID && len(after.Data[corev1.TLSCertKey]) > 0, client.IgnoreNotFound(err)
	})
	own := webhookUser(t, s)
	after.ResourceVersion, after.Type = "", corev1.SecretTypeServiceAccountToken // whatever its leader writes meanwhile
	after.Annotations[corev1.ServiceAccountNameKey] = "podgrace-nodeenforcer"
	if err := own.Update(t.Context(), after, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "field is immutable") {
		t.Errorf("another type: got %v", err)
	}
	if err := own.Patch(t.Context(), after, client.RawPatch(types.MergePatchType, []byte(`{}`)), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "cannot patch") {
		t.Errorf("patch: got %v", err)
	}
}

// secret is a Secret of Podgrace's namespace.
func secret(name string, change func(*corev1.Secret)) *corev1.Secret {
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if change != nil {
		change(o)
	}
	return o
}
