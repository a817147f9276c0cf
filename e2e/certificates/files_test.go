package certificates

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
)

// A Secret of the user's own, or cert-manager's, is replaced again and again, as the kubelet does it in what is mounted: both replicas come to serve the new
// certificate, and no request notices. The CA stays as it is.
func TestMountedSecretReplaced(t *testing.T) {
	p, namespace := newPair(t)
	secret, err := p.secret(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	folders := []string{t.TempDir(), t.TempDir()}
	var replicas []*podgrace.Webhook
	for _, dir := range folders {
		mount(t, dir, issue(t, ca, 1))
		// Who leads is one of the pair's: these have no caBundle to write.
		w, err := podgrace.Start(t.Context(), p.Cluster, filepath.Join(p.Dir, "bin", "webhook"), podgrace.Options{Args: []string{"--cert-mode=files", "--cert-dir=" + dir}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.Stop(); err != nil {
				t.Error(err)
			}
		})
		replicas = append(replicas, w)
	}
	p.balancer.to(t, replicas[0].URL, replicas[1].URL)
	t.Cleanup(func() { p.balancer.to(t, p.replicas[0].URL, p.replicas[1].URL) })
	p.balancer.Cut()
	c, end := p.churn(t, namespace)
	defer end()
	for serial := range 5 {
		suite.Eventually(t, "requests between two certificates", func(context.Context) (bool, error) {
			c.between.Lock()
			defer c.between.Unlock()
			return c.pods >= 10*(serial+1), nil
		})
		next := issue(t, ca, int64(serial)+2)
		for _, dir := range folders {
			mount(t, dir, next)
		}
		for _, w := range replicas {
			suite.Eventually(t, fmt.Sprintf("certificate %d at %s", serial+2, w.URL), func(ctx context.Context) (bool, error) {
				leaf, err := served(ctx, w)
				return err == nil && leaf.SerialNumber.Int64() == int64(serial)+2, err
			})
		}
	}
	end()
	c.report(t, "five certificates mounted anew in two replicas")
}

// issued is a serving certificate, as a Secret of the type kubernetes.io/tls has it.
type issued struct {
	serial           int64
	certificate, key []byte
}

func issue(t *testing.T, ca tls.Certificate, serial int64) issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, leaf, ca.Leaf, key.Public(), ca.PrivateKey.(crypto.Signer))
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return issued{serial, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}
}

// mount writes a Secret as the kubelet does: files are links through ..data, which is swapped in one step, and what it led to before is removed
// (pkg/volume/util/atomic_writer.go, 1.36.3).
func mount(t *testing.T, dir string, secret issued) {
	t.Helper()
	version := fmt.Sprintf("..%d", secret.serial)
	before, err := filepath.EvalSymlinks(filepath.Join(dir, "..data"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.Mkdir(filepath.Join(dir, version), 0o700),
		os.WriteFile(filepath.Join(dir, version, corev1.TLSCertKey), secret.certificate, 0o600),
		os.WriteFile(filepath.Join(dir, version, corev1.TLSPrivateKeyKey), secret.key, 0o600),
		os.Symlink(version, filepath.Join(dir, "..data_tmp")),
		os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")),
	); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	if before != "" {
		if err := os.RemoveAll(before); err != nil {
			t.Fatal(err)
		}
	}
}
