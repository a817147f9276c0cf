package intake_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/podgrace/podgrace/webhook/intake"
)

// certificateUntil returns a certificate as tls.X509KeyPair does, and without its parsed leaf.
func certificateUntil(t *testing.T, notAfter time.Time) (parsed, raw *tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: notAfter}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, Leaf: leaf}, &tls.Certificate{Certificate: [][]byte{der}}
}

// What is told follows what is true at the scrape; a replica without a certificate tells no date, rather than 1970.
func TestServingMetrics(t *testing.T) {
	notAfter := time.Unix(2_000_000_000, 0)
	parsed, raw := certificateUntil(t, notAfter)
	ready, certificate := false, (*tls.Certificate)(nil)
	err := errors.New("no certificate yet")
	registry := prometheus.NewRegistry()
	intake.NewServingMetrics(registry, func() bool { return ready }, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate, err })

	check := func(step string, isReady int, hasDate bool) {
		t.Helper()
		want := fmt.Sprintf("# HELP podgrace_webhook_ready 1 where this replica's informers and policies have synced; 0: it judges nothing yet.\n# TYPE podgrace_webhook_ready gauge\npodgrace_webhook_ready %d\n", isReady)
		if hasDate {
			want += "# HELP podgrace_webhook_certificate_expiration_timestamp_seconds When the certificate that this replica serves with expires, in seconds since 1970. Missing while it has none.\n# TYPE podgrace_webhook_certificate_expiration_timestamp_seconds gauge\npodgrace_webhook_certificate_expiration_timestamp_seconds 2e+09\n"
		}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
			t.Errorf("%s: %v", step, err)
		}
	}
	check("no certificate", 0, false)
	certificate, err = &tls.Certificate{}, nil
	check("an empty one", 0, false)
	certificate = &tls.Certificate{Certificate: [][]byte{[]byte("no DER")}}
	check("a broken one", 0, false)
	ready, certificate = true, parsed
	check("parsed", 1, true)
	certificate = raw
	check("not parsed", 1, true)
}
