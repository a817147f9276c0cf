package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"testing"
)

func TestAuthorityIssues(t *testing.T) {
	authority, err := newAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority.cert)

	client := leaf(t)(authority.client("system:node:a", "system:nodes"))
	if client.Subject.CommonName != "system:node:a" {
		t.Errorf("user %q", client.Subject.CommonName)
	}
	if !slices.Equal(client.Subject.Organization, []string{"system:nodes"}) {
		t.Errorf("groups %v", client.Subject.Organization)
	}
	verify(t, client, x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})

	server := leaf(t)(authority.server("a", net.IPv4(10, 0, 0, 1)))
	verify(t, server, x509.VerifyOptions{Roots: roots, DNSName: "10.0.0.1"})
	verify(t, server, x509.VerifyOptions{Roots: roots, DNSName: "a"})
}

// leaf parses what an authority issues, checking that the key belongs to it.
func leaf(t *testing.T) func(certPEM, keyPEM []byte, err error) *x509.Certificate {
	return func(certPEM, keyPEM []byte, err error) *x509.Certificate {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf
	}
}

func verify(t *testing.T, cert *x509.Certificate, options x509.VerifyOptions) {
	t.Helper()
	if _, err := cert.Verify(options); err != nil {
		t.Error(err)
	}
}
