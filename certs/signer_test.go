package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"
	"time"

	"github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
)

// stored is the API server's Secret, or why it can't be read.
type stored struct {
	secret *corev1.Secret
	err    error
}

func (s *stored) Get(context.Context, string, metav1.GetOptions) (*corev1.Secret, error) {
	return s.secret, s.err
}

func template(t *testing.T) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &x509.Certificate{PublicKeyAlgorithm: x509.ECDSA, PublicKey: key.Public(), DNSNames: []string{"localhost"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, key
}

// leafOf is a leaf and its key, in PEM.
func leafOf(t *testing.T, ca Pair) [2][]byte {
	t.Helper()
	of, key := template(t)
	leaf, err := sign(of, ca, tested, epoch)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return [2][]byte{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})}
}

func trusts(t *testing.T, ca Authority, leaf *x509.Certificate, at time.Time) bool {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle([]Authority{ca})) {
		t.Fatal("caBundle has no certificate")
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost", CurrentTime: at})
	return err == nil
}

// A replica signs with the CA of the API server at that moment, and not at all while it can't be read.
func TestSigner(t *testing.T) {
	one, two := newTestPair(t, epoch), newTestPair(t, epoch)
	at := &stored{err: apierrors.NewNotFound(corev1.Resource("secrets"), SecretName)}
	clock := testclock.NewFakePassiveClock(epoch.Add(day))
	s := &signer{secrets: at, timing: tested, clock: clock}
	signed := func(step string, ca Pair) {
		t.Helper()
		of, _ := template(t)
		leaf, err := s.Sign(of)
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		now := clock.Now()
		if !trusts(t, ca.Authority, leaf, now) || !trusts(t, ca.Authority, leaf, now.Add(-time.Hour)) {
			t.Errorf("%s: not trusted now and by a clock that is an hour behind", step)
		}
		if !leaf.NotAfter.Equal(now.Add(tested.Leaf)) {
			t.Errorf("%s: it ends at %s", step, leaf.NotAfter)
		}
	}
	refused := func(step string, available bool) {
		t.Helper()
		of, _ := template(t)
		if _, err := s.Sign(of); err == nil || errors.Is(err, authority.ErrCertificateNotAvailable) == available {
			t.Errorf("%s: %v", step, err)
		}
	}
	refused("no Secret", false)
	at.err = nil
	at.secret = secretOf(Pair{})
	refused("an empty Secret", false)
	at.secret = secretOf(one)
	signed("the first, which nobody has published yet", one)
	at.secret = secretOf(two)
	refused("another, while the last leaf serves", false)
	at.secret = writeState(secretOf(two), State{Current: two, Settled: two.ID})
	signed("another that the API servers have", two)
	at.err = apierrors.NewServiceUnavailable("etcd")
	refused("no API server", true)
	at.err = nil
	at.secret = secretOf(one)
	refused("another", false)
	clock.SetTime(epoch.Add(day + tested.Leaf))
	signed("another, once the last leaf has ended", one)
	clock.SetTime(epoch.Add(tested.CA))
	refused("a CA that has ended", true)
}

// A leaf ends with its CA at the latest.
func TestLeafEndsWithItsCA(t *testing.T) {
	one := newTestPair(t, epoch)
	of, _ := template(t)
	leaf, err := sign(of, one, tested, epoch.Add(tested.CA-time.Hour))
	if err != nil || !leaf.NotAfter.Equal(one.NotAfter) {
		t.Errorf("got %v, %v", leaf, err)
	}
}

// Two CAs of one name in caBundle: each leaf finds its own.
func TestBundleOfTwo(t *testing.T) {
	one, two := newTestPair(t, epoch), newTestPair(t, epoch)
	both := bundle(union([]Authority{two.Authority}, []Authority{one.Authority, two.Authority}))
	if got := parseAuthorities(both); len(got) != 2 {
		t.Fatalf("%d CAs", len(got))
	}
	for _, ca := range []Pair{one, two} {
		of, _ := template(t)
		leaf, err := sign(of, ca, tested, epoch.Add(day))
		if err != nil {
			t.Fatal(err)
		}
		if !trusts(t, Authority{PEM: string(both)}, leaf, epoch.Add(day)) {
			t.Error("a leaf is not trusted by old and new together")
		}
	}
}
