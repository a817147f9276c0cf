package certs

import (
	"context"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	"github.com/cert-manager/cert-manager/pkg/util/pki"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

// secretReader reads one Secret from the API server (k8s.io/client-go/kubernetes/typed/core/v1.SecretInterface).
type secretReader interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Secret, error)
}

// readTimeout bounds the read before a leaf is signed.
const readTimeout = 10 * time.Second

// signer is cert-manager's authority, which makes the first CA and tells of a new one, but it signs with the CA that the API
// server has at this moment. Its own Sign takes the one in memory: a replica that no longer hears from the API server would
// sign with an old CA for ever, and nobody could know when that may be dropped from caBundle.
type signer struct {
	*authority.DynamicAuthority
	secrets secretReader
	timing  Timing
	clock   clock.PassiveClock

	mu    sync.Mutex
	held  string    // ID of the CA of the last leaf
	until time.Time // when that leaf ends
}

// Sign signs a leaf. It fails with authority.ErrCertificateNotAvailable, whereupon it is called again, while there is no CA
// that may sign.
func (s *signer) Sign(template *x509.Certificate) (*x509.Certificate, error) {
	now := s.clock.Now() // before the read: a CA that is replaced right after it must outlast this leaf only
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	secret, err := s.secrets.Get(ctx, SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: there is no Secret %s", authority.ErrCertificateNotAvailable, SecretName)
	}
	if err != nil {
		return nil, fmt.Errorf("read the CA before signing: %w", err)
	}
	state, err := readState(secret)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", authority.ErrCertificateNotAvailable, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !state.MaySign(s.held, s.until, now) {
		return nil, fmt.Errorf("%w: the API servers may not have the new CA yet", authority.ErrCertificateNotAvailable)
	}
	leaf, err := sign(template, state.Current, s.timing, now)
	if err != nil {
		return nil, err
	}
	s.held, s.until = state.Current.ID, leaf.NotAfter
	return leaf, nil
}

// sign makes a leaf which ends no later than its CA.
func sign(template *x509.Certificate, ca Pair, timing Timing, now time.Time) (*x509.Certificate, error) {
	if !now.Before(ca.NotAfter) {
		return nil, fmt.Errorf("the CA ended at %s", ca.NotAfter.Format(time.RFC3339))
	}
	parent, err := pki.DecodeX509CertificateBytes([]byte(ca.PEM))
	if err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	key, err := pki.DecodePrivateKeyBytes([]byte(ca.Key))
	if err != nil {
		return nil, fmt.Errorf("read the CA's key: %w", err)
	}
	template.BasicConstraintsValid = true
	template.NotBefore = now.Add(-timing.backdate())
	template.NotAfter = now.Add(timing.Leaf)
	if ca.NotAfter.Before(template.NotAfter) {
		template.NotAfter = ca.NotAfter
	}
	_, leaf, err := pki.SignCertificate(template, parent, template.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("sign a serving certificate: %w", err)
	}
	return leaf, nil
}
