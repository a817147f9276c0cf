package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	servertls "github.com/cert-manager/cert-manager/pkg/server/tls"
	"github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
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

// SelfManaged returns a source whose CA is in a Secret of the namespace, made by the first replica that misses it.
func SelfManaged(config *rest.Config, namespace string, dnsNames []string, timing Timing) (Source, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the CA's Secret: %w", err)
	}
	return &servertls.DynamicSource{
		DNSNames: dnsNames,
		Authority: &signer{
			DynamicAuthority: &authority.DynamicAuthority{
				SecretNamespace: namespace,
				SecretName:      SecretName,
				SecretLabels:    map[string]string{"app.kubernetes.io/part-of": "podgrace"},
				RESTConfig:      config,
				CommonName:      commonName,
				CADuration:      timing.CA,
				LeafDuration:    timing.Leaf,
			},
			secrets: kube.CoreV1().Secrets(namespace),
			timing:  timing,
			clock:   clock.RealClock{},
		},
	}, nil
}

// Files returns a source that reads tls.crt and tls.key of a folder, as a Secret of type kubernetes.io/tls is mounted. A pair
// that cannot be read or does not fit is logged, and the one before it goes on serving.
func Files(dir string) (Source, error) {
	watcher, err := certwatcher.New(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("read the serving certificate from %s: %w", dir, err)
	}
	return watcher, nil
}

// Check fails where there is no certificate or it has ended: no API server would take it, another replica's perhaps.
func Check(source Source, now time.Time) error {
	leaf, err := serving(source)
	if err != nil {
		return err
	}
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("the serving certificate ended at %s", leaf.NotAfter.Format(time.RFC3339))
	}
	return nil
}

// CheckClock fails where a self-managed certificate has not begun: it was signed here while this clock was ahead, no API server would
// take it for that long, and only a new start signs another. A replica without a certificate is fine: it has none yet. Not for Files,
// which were signed by another's clock.
func CheckClock(source Source, now time.Time) error {
	leaf, err := serving(source)
	if errors.Is(err, servertls.ErrNotAvailable) {
		return nil
	}
	if err != nil {
		return err
	}
	if now.Before(leaf.NotBefore) {
		return fmt.Errorf("the serving certificate begins at %s, and it is %s: the clock was put back since it was signed", leaf.NotBefore.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}

func serving(source Source) (*x509.Certificate, error) {
	c, err := source.GetCertificate(nil)
	if err != nil {
		return nil, fmt.Errorf("get the serving certificate: %w", err)
	}
	leaf := c.Leaf
	if leaf == nil { // tls.X509KeyPair sets it, unless GODEBUG says otherwise
		if leaf, err = x509.ParseCertificate(c.Certificate[0]); err != nil {
			return nil, fmt.Errorf("read the serving certificate: %w", err)
		}
	}
	return leaf, nil
}
