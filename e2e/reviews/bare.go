package reviews

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// Bare is a running bare webhook.
type Bare struct {
	// URL of the server, MetricsURL of the Go runtime's counters.
	URL, MetricsURL string
	// Trusted is the certificate by which a client knows it.
	Trusted []byte

	*cluster.Process
}

// StartBare builds and starts the bare webhook, which serves at once.
func StartBare(ctx context.Context, c *cluster.Cluster, args ...string) (*Bare, error) {
	program := filepath.Join(c.Dir, "bin", "bare")
	if err := cluster.GoBuild(ctx, program, "e2e/bench/bare"); err != nil {
		return nil, err
	}
	certDir := filepath.Join(c.Dir, "bare")
	trusted, err := WriteCertificate(certDir)
	if err != nil {
		return nil, err
	}
	ports, err := cluster.FreePorts(2)
	if err != nil {
		return nil, err
	}
	metricsAddress := net.JoinHostPort("127.0.0.1", ports[1])
	args = append([]string{"--port", ports[0], "--metrics-address", metricsAddress, "--cert-dir", certDir}, args...)
	child, err := cluster.StartProcess("bare", c.LogPath("bare"), program, args...)
	if err != nil {
		return nil, err
	}
	return &Bare{URL: "https://" + net.JoinHostPort("localhost", ports[0]), MetricsURL: "http://" + metricsAddress + "/metrics", Trusted: trusted, Process: child}, nil
}

// WriteCertificate puts tls.crt and tls.key of a server on localhost into a folder, and returns what its clients trust.
func WriteCertificate(dir string) (trusted []byte, err error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make a webhook's certificate: %w", err)
	}
	err = errors.Join(os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600), os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	if err != nil {
		return nil, fmt.Errorf("write a webhook's certificate: %w", err)
	}
	return certificate, nil
}
