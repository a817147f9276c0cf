package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// Clients says who may open a connection to the webhook's server: whoever shows a certificate of a CA. All others are refused in the
// handshake, before anything of a request is read.
type Clients struct {
	ca    *dynamiccertificates.DynamicFileCAContent
	names []string
	// self is what this process shows its own server.
	self tls.Certificate
}

// ClientCA reads the CAs from a file, as an API server reads --client-ca-file: one that can't be read or has none fails here, and later is
// logged while those before it hold. With names only certificates are taken whose common name or one of whose DNS names is among them.
func ClientCA(file string, names []string) (*Clients, error) {
	ca, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", file)
	if err != nil {
		return nil, fmt.Errorf("read the CAs of clients: %w", err)
	}
	self, err := selfSigned()
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the check of the own server: %w", err)
	}
	return &Clients{ca: ca, names: names, self: self}, nil
}

// Configure has a server ask each connection for a certificate. What else is set in the config stays, also what is set later: it must be
// the config that the server listens with, no copy.
func (c *Clients) Configure(config *tls.Config) {
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.VerifyConnection = c.verify
	// A session that is resumed would bring a verdict from before the file changed. API servers keep connections; they lose little.
	config.SessionTicketsDisabled = true
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		options, ok := c.ca.VerifyOptions()
		if !ok { // without roots crypto/tls would take those of the system
			return nil, errors.New("there is no CA of clients")
		}
		now := config.Clone()
		now.ClientCAs = options.Roots.Clone()
		now.ClientCAs.AddCert(c.self.Leaf)
		return now, nil
	}
}

// verify is called with a certificate that a CA has signed.
func (c *Clients) verify(state tls.ConnectionState) error {
	leaf := state.PeerCertificates[0]
	if len(c.names) == 0 || slices.Contains(c.names, leaf.Subject.CommonName) || leaf.Equal(c.self.Leaf) {
		return nil
	}
	if slices.ContainsFunc(leaf.DNSNames, func(name string) bool { return slices.Contains(c.names, name) }) {
		return nil
	}
	return fmt.Errorf("the client is %q (DNS names %q), and only %q may call", leaf.Subject.CommonName, leaf.DNSNames, strings.Join(c.names, ","))
}

// dialTimeout is as long as controller-runtime's check takes (pkg/webhook/server.go StartedChecker, 0.24.1).
const dialTimeout = 10 * time.Second

// Check fails where the server does not answer at an address. It shows a certificate, which the server's own check does not: else
// each look of the kubelet would be a refused handshake.
func (c *Clients) Check(address string) func(*http.Request) error {
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: &tls.Config{
		InsecureSkipVerify: true, // it sends nothing, and Check(Source, time.Time) is about the server's certificate
		Certificates:       []tls.Certificate{c.self},
	}}
	return func(r *http.Request) error {
		conn, err := dialer.DialContext(r.Context(), "tcp", address)
		if err != nil {
			return fmt.Errorf("reach the webhook's server: %w", err)
		}
		return conn.Close()
	}
}

// Start reads the file again when it changes, until the context ends.
func (c *Clients) Start(ctx context.Context) error {
	c.ca.Run(ctx, 1)
	return nil
}

// NeedLeaderElection is false: every replica serves.
func (*Clients) NeedLeaderElection() bool { return false }

// selfSigned makes a client's certificate whose key never leaves this process. It holds for ever: no clock that is put back may end the
// check.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "podgrace-webhook-itself"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC), // RFC 5280: without an end
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(signed)
	return tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key, Leaf: leaf}, err
}
