package certs

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/util/pki"
)

// commonName is the subject of every CA of ours.
const commonName = "podgrace-webhook-ca"

// Authority is the certificate of a CA.
type Authority struct {
	// ID is the certificate's SHA-256, in hexadecimal.
	ID string
	// PEM is the certificate.
	PEM string
	// NotBefore and NotAfter are its life.
	NotBefore, NotAfter time.Time
}

// Pair is a CA that can sign.
type Pair struct {
	Authority
	// Key is the private key in PEM.
	Key string
}

// parseAuthorities returns the CAs of ours among PEM blocks, and passes over the rest: it reads what anybody may have
// written into caBundle.
func parseAuthorities(text []byte) []Authority {
	var all []Authority
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return union(all)
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.IsCA && c.Subject.CommonName == commonName {
			all = append(all, newAuthority(c))
		}
	}
}

func newAuthority(c *x509.Certificate) Authority {
	sum := sha256.Sum256(c.Raw)
	return Authority{
		ID:        hex.EncodeToString(sum[:]),
		PEM:       string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})),
		NotBefore: c.NotBefore, NotAfter: c.NotAfter,
	}
}

// parsePair returns a CA whose key fits.
func parsePair(certificate, key []byte) (Pair, error) {
	if _, err := tls.X509KeyPair(certificate, key); err != nil {
		return Pair{}, fmt.Errorf("read the CA: %w", err)
	}
	c, err := pki.DecodeX509CertificateBytes(certificate)
	if err != nil {
		return Pair{}, fmt.Errorf("read the CA: %w", err)
	}
	if !c.IsCA {
		return Pair{}, fmt.Errorf("read the CA: the certificate of %s is not one of a CA", c.Subject)
	}
	return Pair{Authority: newAuthority(c), Key: string(key)}, nil
}

// sooner is how long before now a CA begins, for an API server, or another leader, whose clock is behind.
const sooner = time.Hour

// newPair makes a CA, like those of cert-manager's library (pkg/server/tls/authority, regenerateCA), which makes the first.
func newPair(now time.Time, life time.Duration) (Pair, error) {
	key, err := pki.GenerateECPrivateKey(384)
	if err != nil {
		return Pair{}, fmt.Errorf("make a CA: %w", err)
	}
	keyPEM, err := pki.EncodePrivateKey(key, cmapi.PKCS8)
	if err != nil {
		return Pair{}, fmt.Errorf("make a CA: %w", err)
	}
	template := &x509.Certificate{
		BasicConstraintsValid: true,
		PublicKeyAlgorithm:    x509.ECDSA,
		Subject:               pkix.Name{CommonName: commonName},
		IsCA:                  true,
		NotBefore:             now.Add(-sooner),
		NotAfter:              now.Add(life),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
	}
	_, c, err := pki.SignCertificate(template, template, key.Public(), key)
	if err != nil {
		return Pair{}, fmt.Errorf("make a CA: %w", err)
	}
	return Pair{Authority: newAuthority(c), Key: string(keyPEM)}, nil
}

// union is each of the CAs once, oldest first, so that caBundle has one form only.
func union(sets ...[]Authority) []Authority {
	all := slices.Concat(sets...)
	slices.SortFunc(all, func(a, b Authority) int { return cmp.Or(a.NotBefore.Compare(b.NotBefore), strings.Compare(a.ID, b.ID)) })
	return slices.CompactFunc(all, func(a, b Authority) bool { return a.ID == b.ID })
}

// without is the CAs that are not among others.
func without(all, others []Authority) []Authority {
	return slices.DeleteFunc(slices.Clone(all), func(a Authority) bool {
		return slices.ContainsFunc(others, func(o Authority) bool { return o.ID == a.ID })
	})
}

// bundle is the CAs as caBundle has them.
func bundle(all []Authority) []byte {
	var b strings.Builder
	for _, a := range all {
		b.WriteString(a.PEM)
	}
	return []byte(b.String())
}
