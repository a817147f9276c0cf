package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// clientOf is a certificate for a client, and its key.
func clientOf(t *testing.T, ca Pair, name string, change ...func(*x509.Certificate)) *tls.Certificate {
	t.Helper()
	of, key := template(t)
	of.Subject, of.DNSNames, of.ExtKeyUsage = pkix.Name{CommonName: name}, nil, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for _, c := range change {
		c(of)
	}
	leaf, err := sign(of, ca, tested, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
}

func dnsNames(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames = names }
}

// askingServer serves as controller-runtime does (pkg/webhook/server.go Start, 0.24.1: a listener of the config as it is, HTTP/2) and
// asks for certificates.
type askingServer struct {
	url, address string
	tls          *tls.Config
	requests     atomic.Int64
	// later is how long after the epoch it is.
	later atomic.Int64
	// refusals are what it says of handshakes that failed. The client's error need not have the reason: it may find the connection closed
	// before it reads why.
	refusals chan string
}

// Write is for a log.
func (s *askingServer) Write(line []byte) (int, error) {
	s.refusals <- string(line)
	return len(line), nil
}

func newAskingServer(t *testing.T, c *Clients) *askingServer {
	t.Helper()
	serving := leafOf(t, newTestPair(t, epoch))
	pair, err := tls.X509KeyPair(serving[0], serving[1])
	if err != nil {
		t.Fatal(err)
	}
	s := &askingServer{refusals: make(chan string, 10), tls: &tls.Config{
		NextProtos:     []string{"h2"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil },
	}}
	s.tls.Time = func() time.Time { return epoch.Add(time.Duration(s.later.Load())) }
	c.Configure(s.tls)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", s.tls)
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	s.url = "https://" + s.address
	server := &http.Server{
		ErrorLog: log.New(s, "", 0),
		Handler:  http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.requests.Add(1) }),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return s
}

// ask posts a review over a new connection. A nil certificate is none.
func (s *askingServer) ask(t *testing.T, certificate *tls.Certificate, change ...func(*tls.Config)) error {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true, Time: s.tls.Time, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if certificate == nil {
			return &tls.Certificate{}, nil
		}
		return certificate, nil // whatever CAs the server names, as client-go does
	}}
	for _, c := range change {
		c(config)
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Post(s.url, "application/json", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// wantAsked fails unless a client is let in, or refused with these words.
func (s *askingServer) wantAsked(t *testing.T, who string, certificate *tls.Certificate, refusal string, change ...func(*tls.Config)) {
	t.Helper()
	before := s.requests.Load()
	err := s.ask(t, certificate, change...)
	heard := s.requests.Load() - before
	if refusal == "" && (err != nil || heard != 1) {
		t.Errorf("%s: %v, %d requests", who, err, heard)
	}
	if refusal == "" {
		return
	}
	if err == nil || heard != 0 {
		t.Fatalf("%s: %v, %d requests", who, err, heard)
	}
	if line := <-s.refusals; !strings.Contains(line, refusal) {
		t.Errorf("%s: %s, want %q", who, line, refusal)
	}
}

// caFile writes CAs into a file.
func caFile(t *testing.T, cas ...Pair) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, caPEM(cas...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func caPEM(cas ...Pair) (text []byte) {
	for _, ca := range cas {
		text = append(text, ca.PEM...)
	}
	return text
}

func newClients(t *testing.T, file string, names ...string) *Clients {
	t.Helper()
	c, err := ClientCA(file, names)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// none is said of a client that shows no certificate.
const none = "client didn't provide a certificate"

// Whoever has no certificate of one of the CAs is refused in the handshake, and no handler hears of it.
func TestClients(t *testing.T) {
	ca, second, other := newTestPair(t, epoch), newTestPair(t, epoch), newTestPair(t, epoch)
	s := newAskingServer(t, newClients(t, caFile(t, ca, second)))
	old := func(config *tls.Config) { config.MaxVersion = tls.VersionTLS12 }

	s.wantAsked(t, "of the CA", clientOf(t, ca, "apiserver"), "")
	s.wantAsked(t, "of the CA, TLS 1.2", clientOf(t, ca, "apiserver"), "", old)
	s.wantAsked(t, "of the second CA", clientOf(t, second, "apiserver"), "")
	s.wantAsked(t, "without a certificate", nil, none)
	s.wantAsked(t, "without a certificate, TLS 1.2", nil, none, old)
	s.wantAsked(t, "of another CA", clientOf(t, other, "apiserver"), "signed by unknown authority")
	s.wantAsked(t, "a server's", clientOf(t, ca, "apiserver", func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}), "incompatible key usage")
	s.wantAsked(t, "TLS 1.1", clientOf(t, ca, "apiserver"), "unsupported versions", func(config *tls.Config) {
		config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	})

	s.later.Store(int64(2 * tested.Leaf))
	s.wantAsked(t, "after its end", clientOf(t, ca, "apiserver"), "has expired")
}

// With names, only who has one of them.
func TestNamesOfClients(t *testing.T) {
	ca := newTestPair(t, epoch)
	c := newClients(t, caFile(t, ca), "front-proxy-client", "api.example.com")
	s := newAskingServer(t, c)
	const notNamed = `and only "front-proxy-client,api.example.com" may call`
	s.wantAsked(t, "by its common name", clientOf(t, ca, "front-proxy-client"), "")
	s.wantAsked(t, "by a DNS name", clientOf(t, ca, "x", dnsNames("other", "api.example.com")), "")
	s.wantAsked(t, "another", clientOf(t, ca, "system:node:n1", dnsNames("n1")), notNamed)
	s.wantAsked(t, "nameless", clientOf(t, ca, ""), notNamed)
	s.wantAsked(t, "under the check's own name", clientOf(t, ca, c.self.Leaf.Subject.CommonName), notNamed)
	s.wantAsked(t, "another, TLS 1.2", clientOf(t, ca, "system:node:n1"), notNamed, func(config *tls.Config) { config.MaxVersion = tls.VersionTLS12 })
}

// A session is not resumed: it would be one of before the file changed.
func TestSessionsOfClientsAreNotResumed(t *testing.T) {
	ca := newTestPair(t, epoch)
	s := newAskingServer(t, newClients(t, caFile(t, ca)))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		cache, resumed := tls.NewLRUClientSessionCache(1), false
		for range 2 {
			s.wantAsked(t, "of the CA", clientOf(t, ca, "apiserver"), "", func(config *tls.Config) {
				config.MaxVersion, config.ServerName, config.ClientSessionCache = version, "localhost", cache
				config.VerifyConnection = func(state tls.ConnectionState) error { resumed = resumed || state.DidResume; return nil }
			})
		}
		if resumed {
			t.Errorf("%s: a session was resumed", tls.VersionName(version))
		}
	}
}

// changed hears of the file.
type changed chan struct{}

func (c changed) Enqueue() { c <- struct{}{} }

// CAs are replaced with two in the file for a while; a file that is no good is passed over.
func TestClientCAIsReadAgain(t *testing.T) {
	first, next := newTestPair(t, epoch), newTestPair(t, epoch)
	dir := t.TempDir()
	mount(t, dir, "1", caPEM(first), nil)
	file := filepath.Join(dir, "tls.crt")
	c := newClients(t, file)
	if c.NeedLeaderElection() {
		t.Error("not every replica asks")
	}
	read := make(changed, 10)
	c.ca.AddListener(read)
	s := newAskingServer(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	s.wantAsked(t, "of the next CA, too early", clientOf(t, next, "apiserver"), "signed by unknown authority")
	mount(t, dir, "2", caPEM(first, next), nil)
	<-read
	s.wantAsked(t, "of the first CA, beside the next", clientOf(t, first, "apiserver"), "")
	s.wantAsked(t, "of the next CA", clientOf(t, next, "apiserver"), "")
	mount(t, dir, "3", caPEM(next), nil)
	<-read
	s.wantAsked(t, "of the first CA, after it", clientOf(t, first, "apiserver"), "signed by unknown authority")

	for what, text := range map[string]string{"empty": "", "no PEM": "hello", "no certificate": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.ca.RunOnce(ctx); err == nil { // what Start logs
			t.Errorf("%s: it was read", what)
		}
		s.wantAsked(t, "while the file is "+what, clientOf(t, next, "apiserver"), "")
		s.wantAsked(t, "without a certificate while the file is "+what, nil, none)
	}
}

func TestClientCAFileMustBeGood(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "text": "hello"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"empty", "text", "gone", ""} {
		file := filepath.Join(dir, name)
		if _, err := ClientCA(file, nil); err == nil || !strings.Contains(err.Error(), "read the CAs of clients: ") || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// The check is let in by its own server, which needs no name for that, and by no other: each process has a certificate of its own.
func TestCheckOfClients(t *testing.T) {
	file := caFile(t, newTestPair(t, epoch))
	c := newClients(t, file, "apiserver")
	s := newAskingServer(t, c)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(s.address)(r); err != nil {
		t.Error(err)
	}
	s.wantAsked(t, "the check", &c.self, "")
	s.later.Store(int64(-20 * 365 * day))
	s.wantAsked(t, "the check with a clock that was put back", &c.self, "")
	s.wantAsked(t, "another replica's", &newClients(t, file, "apiserver").self, "signed by unknown authority")
	if err := c.Check("127.0.0.1:1")(r); err == nil || !strings.Contains(err.Error(), "reach the webhook's server") {
		t.Errorf("where nobody listens: %v", err)
	}
}
