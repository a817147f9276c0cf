package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
)

// stranger is a server with a certificate of nobody's.
func stranger(t *testing.T) string {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// served is the leaf that a replica serves to a new connection.
func served(ctx context.Context, w *podgrace.Webhook) (*x509.Certificate, error) {
	at, err := url.Parse(w.URL)
	if err != nil {
		return nil, err
	}
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"}} // verified by the caller
	c, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:"+at.Port())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// leaves watches the certificates of a replica: how many there were, and whether caBundle was good for each at any time.
type leaves struct {
	mu       sync.Mutex
	serials  map[string]bool
	checks   int
	failures []string
}

// watch looks at a replica's leaf ten times a second until the function that it returns.
func (p *pair) watch(t *testing.T, w *podgrace.Webhook) (l *leaves, end func()) {
	t.Helper()
	l = &leaves{serials: map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			leaf, err := p.trusted(context.Background(), w)
			l.mu.Lock()
			l.checks++
			if err != nil {
				l.failures = append(l.failures, err.Error())
			} else {
				l.serials[leaf.SerialNumber.String()] = true
			}
			l.mu.Unlock()
		}
	}()
	return l, func() { cancel(); <-ended }
}

// trusted is a replica's leaf, as the webhook configurations of this moment verify it.
func (p *pair) trusted(ctx context.Context, w *podgrace.Webhook) (*x509.Certificate, error) {
	m, v, err := p.configurations(ctx)
	if err != nil {
		return nil, err
	}
	leaf, err := served(ctx, w)
	if err != nil {
		return nil, err
	}
	for _, c := range clientConfigs(m, v) {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(c.CABundle)
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost"}); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", w.URL, *c.URL, err)
		}
	}
	return leaf, nil
}

// rotations is how often the leaf changed.
func (l *leaves) rotations() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.serials) - 1
}

// report fails for every leaf that was not trusted and logs the figures.
func (l *leaves) report(t *testing.T, who string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.failures {
		t.Error(f)
	}
	t.Logf("%s: %d rotations of its leaf; looked at %d times, %d not trusted", who, len(l.serials)-1, l.checks, len(l.failures))
}

// rotated returns when a replica has changed its leaf so often.
func (l *leaves) rotated(t *testing.T, times int) {
	t.Helper()
	suite.EventuallyWithin(t, time.Duration(times+2)*leafLife, fmt.Sprintf("%d rotations", times), func(context.Context) (bool, error) {
		return l.rotations() >= times, nil
	})
}

// cas is the caBundle that all webhooks have; empty where they differ.
func (p *pair) cas(ctx context.Context) (string, error) {
	m, v, err := p.configurations(ctx)
	if err != nil {
		return "", err
	}
	all := clientConfigs(m, v)
	for _, c := range all {
		if string(c.CABundle) != string(all[0].CABundle) {
			return "", nil
		}
	}
	return string(all[0].CABundle), nil
}

// ready is the CA once it is the only one, in use and in caBundle of all webhooks.
func (p *pair) ready(t *testing.T, handled string) (ca string) {
	t.Helper()
	suite.EventuallyWithin(t, 2*time.Minute, "one CA after request "+handled, func(ctx context.Context) (bool, error) {
		s, err := p.secret(ctx)
		if err != nil {
			return false, client.IgnoreNotFound(err)
		}
		ca = string(s.Data[corev1.TLSCertKey])
		if s.Annotations[certs.AnnotationHandled] != handled || s.Annotations[certs.AnnotationPhase] != string(certs.Ready) {
			return false, nil
		}
		have, err := p.cas(ctx)
		return have == ca, err
	})
	return ca
}

// ask has the CA replaced, as docs/certificates.md says.
func (p *pair) ask(t *testing.T, token string) {
	t.Helper()
	if _, _, err := p.Kubectl(t.Context(), "-n", "podgrace-system", "annotate", "--overwrite", "secret", certs.SecretName, certs.AnnotationReplace+"="+token); err != nil {
		t.Fatal(err)
	}
}
