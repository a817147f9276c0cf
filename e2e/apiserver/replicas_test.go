package apiserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
)

// A second replica is ready without being the leader, decides by the same policies, and serves a certificate of the same
// CA: the API server may call either.
func TestSecondReplica(t *testing.T) {
	s := shared.Get(t)
	if s.Webhook == nil {
		t.Skip("it starts a replica, which a cluster that runs already has of its own")
	}
	second, err := podgrace.Start(t.Context(), s.Cluster, filepath.Join(s.Dir, "bin", "webhook"), podgrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := second.Stop(); err != nil {
			t.Error(err)
		}
	}()
	var configuration admissionregistrationv1.MutatingWebhookConfiguration
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: certs.ConfigurationName}, &configuration); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(configuration.Webhooks[0].ClientConfig.CABundle) {
		t.Fatal("caBundle has no certificate")
	}
	for _, w := range []*podgrace.Webhook{s.Webhook, second} {
		connection, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "localhost"}}).DialContext(t.Context(), "tcp", w.URL[len("https://"):])
		if err != nil {
			t.Errorf("%s: %v", w.URL, err)
			continue
		}
		_ = connection.Close()
	}
}

// Somebody empties caBundle, as a deployment tool does that applies its manifest again: the leader writes it again, and no
// pod goes without its defaults for longer.
func TestCABundleEmptied(t *testing.T) {
	s := shared.Get(t)
	var configuration admissionregistrationv1.MutatingWebhookConfiguration
	key := client.ObjectKey{Name: certs.ConfigurationName}
	if err := s.Client.Get(t.Context(), key, &configuration); err != nil {
		t.Fatal(err)
	}
	want := string(configuration.Webhooks[0].ClientConfig.CABundle)
	patch := client.MergeFrom(configuration.DeepCopy())
	configuration.Webhooks[0].ClientConfig.CABundle = nil
	if err := s.Client.Patch(t.Context(), &configuration, patch); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "caBundle written again", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, key, &configuration)
		return string(configuration.Webhooks[0].ClientConfig.CABundle) == want, err
	})
	ns := s.Namespace(t)
	s.Policy(t, ns, gives(v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(40))}))
	suite.Eventually(t, "the API server to call it again", func(ctx context.Context) (bool, error) {
		probe := newPod(ns)
		err := s.Client.Create(ctx, probe, client.DryRunAll)
		return err == nil && *probe.Spec.TerminationGracePeriodSeconds == 40, err
	})
}
