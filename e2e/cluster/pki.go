package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// authority is a certificate authority whose key we hold, unlike envtest's own: the controller manager signs
// with it, and the API server and the kubelet need certificates before there is an API server to ask.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of %s: %w", name, err)
	}
	root, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	if err != nil {
		return nil, fmt.Errorf("making the certificate of %s: %w", name, err)
	}
	return &authority{cert: root, key: key}, nil
}

// client issues a certificate as the API server reads it: the common name is the user, the organizations are
// its groups.
func (a *authority) client(user string, groups ...string) (certPEM, keyPEM []byte, err error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server issues a serving certificate for a name and an address.
func (a *authority) server(name string, address net.IP) (certPEM, keyPEM []byte, err error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    []string{name},
		IPAddresses: []net.IP{address},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

func (a *authority) issue(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making the key of %s: %w", template.Subject, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("making a serial number: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = a.cert.NotBefore, time.Now().Add(30*24*time.Hour)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing the certificate of %s: %w", template.Subject, err)
	}
	keyPEM, err = encodeKey(key)
	return encodeCert(raw), keyPEM, err
}

// write puts certificate and key of the authority into dir as ca.crt and ca.key.
func (a *authority) write(dir string) error {
	key, err := encodeKey(a.key)
	if err != nil {
		return err
	}
	return writePair(dir, "ca", encodeCert(a.cert.Raw), key)
}

// writePair writes name.crt and name.key.
func writePair(dir, name string, certPEM, keyPEM []byte) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), certPEM, 0o644); err != nil {
		return fmt.Errorf("writing a certificate: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".key"), keyPEM, 0o600); err != nil {
		return fmt.Errorf("writing a key: %w", err)
	}
	return nil
}

func encodeCert(raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: raw})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}

// authn makes envtest's API server trust our authority, and envtest's AddUser issue from it.
type authn struct {
	authority *authority
	caFile    string
}

var _ envtest.Authn = (*authn)(nil)

func (a *authn) Configure(_ string, args *envtest.Arguments) error {
	args.Set("client-ca-file", a.caFile)
	return nil
}

func (a *authn) Start() error { return nil }

func (a *authn) Stop() error { return nil }

func (a *authn) AddUser(user envtest.User, base *rest.Config) (*rest.Config, error) {
	certPEM, keyPEM, err := a.authority.client(user.Name, user.Groups...)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(base)
	config.CertData, config.KeyData = certPEM, keyPEM
	return config, nil
}
