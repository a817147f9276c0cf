package certificates

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
)

// service is the name by which API servers call the webhook.
const service = "podgrace-webhook.podgrace-system.svc"

// frontProxy is a CA and its only certificate, in files named as kubeadm's.
type frontProxy struct {
	dir string
	ca  *x509.Certificate
	key crypto.Signer
}

func newFrontProxy(t *testing.T) *frontProxy {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "front-proxy-ca"}, key)
	if err != nil {
		t.Fatal(err)
	}
	f := &frontProxy{dir: t.TempDir(), ca: ca, key: key}
	f.write(t, "front-proxy-ca.crt", pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: ca.Raw}))
	f.sign(t, "front-proxy-client")
	return f
}

func (f *frontProxy) write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// sign makes a client's certificate, in files of its name.
func (f *frontProxy) sign(t *testing.T, name string) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: f.ca.NotBefore, NotAfter: f.ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, f.ca, key.Public(), f.key)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	f.write(t, name+".crt", pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: signed}))
	f.write(t, name+".key", keyPEM)
	pair, err := tls.LoadX509KeyPair(filepath.Join(f.dir, name+".crt"), filepath.Join(f.dir, name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

// admission writes the files that docs/install.md gives an API server, for the folder and a port of the Service, and returns the flag. A name
// without a port is one of port 443 (k8s.io/apiserver/pkg/util/webhook/authentication.go clientConfig, 0.36.3).
func (f *frontProxy) admission(t *testing.T, port string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Only the API server may ask\n")
	if !found {
		t.Fatal("docs/install.md has no such section")
	}
	here := strings.NewReplacer("/etc/kubernetes/admission", f.dir, "/etc/kubernetes/pki", f.dir, "- name: "+service, "- name: "+service+":"+port)
	for name, block := range map[string]string{"admission.yaml": "kind: AdmissionConfiguration", "webhooks.kubeconfig": "kind: Config\n"} {
		found := false
		for _, m := range regexp.MustCompile("(?ms)^   ```yaml\n(.*?)^   ```$").FindAllStringSubmatch(section, -1) {
			if strings.Contains(m[1], block) {
				f.write(t, name, []byte(here.Replace(strings.ReplaceAll("\n"+m[1], "\n   ", "\n"))))
				found = true
			}
		}
		if !found {
			t.Fatalf("docs/install.md has no %s", name)
		}
	}
	return "--admission-control-config-file=" + filepath.Join(f.dir, "admission.yaml")
}

// callService has the API server call a Service in place of the URL, as it does in a cluster. Its name is one of loopback.
func (p *pair) callService(t *testing.T, port int32) {
	t.Helper()
	p.Create(t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "podgrace-system", Name: "podgrace-webhook"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	})
	m, v, err := p.configurations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mFrom, vFrom := client.MergeFrom(m.DeepCopy()), client.MergeFrom(v.DeepCopy())
	for _, c := range clientConfigs(m, v) {
		path := strings.TrimPrefix(*c.URL, p.Webhook.URL)
		c.URL, c.Service = nil, &admissionregistrationv1.ServiceReference{Namespace: "podgrace-system", Name: "podgrace-webhook", Path: &path, Port: &port}
	}
	if err := errors.Join(p.Client.Patch(t.Context(), m, mFrom), p.Client.Patch(t.Context(), v, vFrom)); err != nil {
		t.Fatal(err)
	}
}

// refusals is how many handshakes the webhook has refused.
func (p *pair) refusals(ctx context.Context) (int, error) {
	text, err := p.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	m := regexp.MustCompile(`(?m)^podgrace_webhook_handshake_failures_total (\d+)$`).FindStringSubmatch(text)
	if m == nil {
		return 0, errors.New("it has no metric of handshakes")
	}
	return strconv.Atoi(m[1])
}

// forge posts a review of somebody else's as no API server does, and returns how it ended.
func (p *pair) forge(ctx context.Context, certificates ...tls.Certificate) error {
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}} //nolint:gosec // our own process on loopback
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Webhook.URL+"/validate-pods", bytes.NewReader([]byte("{}")))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// An API server with the files of docs/install.md gets its reviews through, one without is refused like everybody else.
func TestOnlyTheAPIServerMayAsk(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute) // the first run on a machine builds Kubernetes
	defer cancel()
	_, err := cluster.Binaries(ctx, os.Stderr, cluster.Options{}.Programs()...)
	clustertest.Require(t, err)
	proxy, front := newFrontProxy(t), newBalancer(t)
	at, err := url.Parse(front.URL())
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(ctx, cluster.Options{Log: os.Stderr, APIServerArgs: []string{proxy.admission(t, at.Port())}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	w, err := podgrace.Install(ctx, c, podgrace.Options{Log: os.Stderr, Args: []string{
		"--client-ca-file=" + filepath.Join(proxy.dir, "front-proxy-ca.crt"), "--client-allowed-names=front-proxy-client", "--dns-names=" + service,
		"--compile-limits=false", // the webhook itself is to refuse
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	kube, err := suite.NewClient(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	front.to(t, w.URL)
	p := &pair{Suite: &suite.Suite{Cluster: c, Webhook: w, Client: kube}, balancer: front}
	if n, err := p.refusals(ctx); err != nil || n != 0 {
		t.Errorf("before anybody asked, but for the checks of readiness: %d were refused, %v", n, err)
	}

	// By its URL the API server knows the webhook under another name, for which it has no certificate.
	namespace := p.Namespace(t)
	pod := func(sleep int64) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "localhost/none:1",
			Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: sleep}}},
		}}}}
	}
	policy := suite.PolicyFor(namespace, v1alpha1.PodPolicySpec{
		Removal:     &v1alpha1.RemovalSection{}, // its status says that the API server has got an answer
		GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(40)), MaxSeconds: new(int64(60))},
	})
	p.refused(t, 0, func() {
		p.Create(t, policy) // without one the leader does not have the API server ask
		if err := kube.Create(ctx, pod(1), client.DryRunAll); err != nil {
			t.Errorf("pods are created all the same: %v", err)
		}
	})

	port, err := strconv.ParseInt(at.Port(), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	p.callService(t, int32(port))
	p.WaitInForce(t, policy)
	suite.Eventually(t, "the API server's knowledge of the Service", func(ctx context.Context) (bool, error) {
		given := pod(1)
		err := kube.Create(ctx, given, client.DryRunAll)
		return err == nil && *given.Spec.TerminationGracePeriodSeconds == 40, err
	})
	before, err := p.refusals(ctx) // with what it asked until it knew
	if err != nil {
		t.Fatal(err)
	}
	if err := kube.Create(ctx, pod(600), client.DryRunAll); err == nil || !strings.Contains(err.Error(), `admission webhook "pods.validate.podgrace.dev" denied the request`) {
		t.Errorf("a pod beyond the limit: %v", err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	p.Create(t, node)
	if err := kube.Delete(ctx, node.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("a node without pods: %v", err)
	}
	if n, err := p.refusals(ctx); err != nil || n != before {
		t.Errorf("with its certificate: %d were refused, %v", n-before, err)
	}

	if err := p.forge(ctx, *proxy.sign(t, "front-proxy-client")); err != nil {
		t.Errorf("who has the API server's certificate: %v", err)
	}
	for who, certificates := range map[string][]tls.Certificate{
		"without a certificate": nil, "another name of the CA": {*proxy.sign(t, "somebody")}, "the name, of another CA": {*newFrontProxy(t).sign(t, "front-proxy-client")},
	} {
		before = p.refused(t, before, func() {
			if err := p.forge(ctx, certificates...); err == nil {
				t.Errorf("%s: it was answered", who)
			}
		})
	}
}

// refused fails unless the webhook refuses a handshake meanwhile, and returns how many it has refused then. It counts them when the
// caller is gone already.
func (p *pair) refused(t *testing.T, before int, meanwhile func()) (after int) {
	t.Helper()
	meanwhile()
	suite.Eventually(t, "a handshake that is refused", func(ctx context.Context) (bool, error) {
		var err error
		after, err = p.refusals(ctx)
		return after > before, err
	})
	return after
}
