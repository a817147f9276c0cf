package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"time"

	servertls "github.com/cert-manager/cert-manager/pkg/server/tls"
	"github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// Source is a serving certificate that may change.
type Source interface {
	// GetCertificate is for tls.Config. It fails until there is a certificate.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Start keeps the certificate up to date until the context ends.
	Start(context.Context) error
	// NeedLeaderElection is false: every replica serves.
	NeedLeaderElection() bool
}

// SecretName is the Secret that holds the self-managed CA.
const SecretName = "podgrace-webhook-ca"

// The lifetimes of the self-managed CA and of the leaves.
const (
	caDuration   = 10 * 365 * 24 * time.Hour
	leafDuration = 7 * 24 * time.Hour
)

// SelfManaged returns a source whose CA is in a Secret of the namespace, made by the first replica that misses it.
func SelfManaged(config *rest.Config, namespace string, dnsNames []string) Source {
	return everyReplica{&servertls.DynamicSource{
		DNSNames: dnsNames,
		Authority: &authority.DynamicAuthority{
			SecretNamespace: namespace,
			SecretName:      SecretName,
			SecretLabels:    map[string]string{"app.kubernetes.io/part-of": "podgrace"},
			RESTConfig:      config,
			CommonName:      "podgrace-webhook-ca",
			CADuration:      caDuration,
			LeafDuration:    leafDuration,
		},
	}}
}

// everyReplica says that the source is not the leader's.
type everyReplica struct{ *servertls.DynamicSource }

// NeedLeaderElection is false.
func (everyReplica) NeedLeaderElection() bool { return false }

// Files returns a source that reads tls.crt and tls.key of a folder, as a Secret of type kubernetes.io/tls is mounted.
func Files(dir string) (Source, error) {
	watcher, err := certwatcher.New(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("read the serving certificate from %s: %w", dir, err)
	}
	return watcher, nil
}
