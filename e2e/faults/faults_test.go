package faults

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/guard"
)

var shared = &suite.Shared{}

func TestMain(m *testing.M) { suite.Main(m, shared) }

// ground is a guarded namespace with what a fault is tried on.
type ground struct {
	*suite.Suite
	namespace string
	n         int
}

func newGround(t *testing.T) *ground {
	t.Helper()
	s := shared.Get(t)
	g := &ground{Suite: s, namespace: s.Namespace(t)}
	s.Policy(t, g.namespace, v1alpha1.PodPolicySpec{
		Removal:     &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectAll},
		GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(45))},
	})
	return g
}

// pod makes a pod that is bound to a node which answers nobody.
func (g *ground) pod(t *testing.T) *corev1.Pod {
	t.Helper()
	g.n++
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: fmt.Sprintf("p-%d", g.n)},
		Spec:       corev1.PodSpec{NodeName: "nowhere", Containers: []corev1.Container{{Name: "c", Image: "localhost/none:1"}}},
	}
	if err := g.Client.Create(t.Context(), p); err != nil {
		t.Fatalf("a pod can't be created: %v", err)
	}
	return p
}

// unasked are series by which the API server tells what it let through or refused without an answer of the webhook. The alerts
// PodgraceWebhookFailedOpen, PodgraceWebhookUnreachable and PodgraceRemovalsBlocked select them by these labels.
var unasked = map[string]*regexp.Regexp{
	"pods without defaults": regexp.MustCompile(`(?m)^apiserver_admission_webhook_fail_open_count\{.*name="pods\.mutate\.podgrace\.dev".*\} ([0-9]+)$`),
	"unjudged evictions":    regexp.MustCompile(`(?m)^apiserver_admission_webhook_fail_open_count\{.*name="plain-eviction\.removal\.podgrace\.dev".*\} ([0-9]+)$`),
	"pods without a check":  regexp.MustCompile(`(?m)^apiserver_admission_webhook_fail_open_count\{.*name="pods\.validate\.podgrace\.dev".*\} ([0-9]+)$`),
	"refused deletes": regexp.MustCompile(
		`(?m)^apiserver_admission_webhook_rejection_count\{error_type="calling_webhook_error",name="delete\.removal\.podgrace\.dev".*\} ([0-9]+)$`),
}

// unaskedCounts are the values of these series. One that has not begun is 0.
func (g *ground) unaskedCounts(t *testing.T) map[string]int {
	t.Helper()
	kube, err := kubernetes.NewForConfig(g.Config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := kube.Discovery().RESTClient().Get().AbsPath("/metrics").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for what, series := range unasked {
		for _, m := range series.FindAllSubmatch(text, -1) {
			n, err := strconv.Atoi(string(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			counts[what] += n
		}
	}
	return counts
}

// whileAway is what must hold whatever has become of the webhook: ordinary work goes on, a force delete is refused, one that
// was confirmed goes through, and the API server counts what nobody judged.
func (g *ground) whileAway(t *testing.T, existing, confirmed *corev1.Pod) {
	t.Helper()
	before := g.unaskedCounts(t)
	created := g.pod(t)
	if got := *created.Spec.TerminationGracePeriodSeconds; got != 30 {
		t.Errorf("mutation fails open, but the pod has a grace period of %d s", got)
	}
	if err := g.Client.Delete(t.Context(), existing, client.GracePeriodSeconds(0)); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("a force delete that nobody could judge: %v", err)
	}
	if err := g.Client.Delete(t.Context(), existing); err != nil {
		t.Errorf("an ordinary delete: %v", err)
	}
	if err := g.Client.Delete(t.Context(), confirmed, client.GracePeriodSeconds(0)); err != nil {
		t.Errorf("a confirmed force delete: %v", err)
	}
	if err := g.Client.SubResource("eviction").Create(t.Context(), created, &policyv1.Eviction{}); err != nil {
		t.Errorf("an ordinary eviction: %v", err)
	}
	after := g.unaskedCounts(t)
	for what := range unasked {
		if after[what] <= before[what] {
			t.Errorf("the API server tells of %d %s, and told of %d before", after[what], what, before[what])
		}
	}
}

func (g *ground) confirmed(t *testing.T) *corev1.Pod {
	t.Helper()
	p := g.pod(t)
	text := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, guard.AnnotationConfirmForceDelete, suite.Confirmation(p))
	if err := g.Client.Patch(t.Context(), p, client.RawPatch("application/merge-patch+json", []byte(text))); err != nil {
		t.Fatal(err)
	}
	return p
}

// back returns when the webhook decides again.
func (g *ground) back(t *testing.T) {
	t.Helper()
	suite.Eventually(t, "the webhook back", func(ctx context.Context) (bool, error) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "probe"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		err := g.Client.Create(ctx, p, client.DryRunAll)
		return err == nil && *p.Spec.TerminationGracePeriodSeconds == 45, err
	})
}

// The process is there, its port open, and it answers nothing: the API server waits for the timeouts only.
func TestWebhookHangs(t *testing.T) {
	g := newGround(t)
	existing, confirmed := g.pod(t), g.confirmed(t)
	if err := syscall.Kill(g.Webhook.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := func() { _ = syscall.Kill(g.Webhook.PID, syscall.SIGCONT) }
	defer resume()
	suite.Eventually(t, "all threads of the webhook stopped", func(context.Context) (bool, error) { return stopped(g.Webhook.PID) })
	g.whileAway(t, existing, confirmed)
	resume()
	g.back(t)
}

// A confirmation that is of a time to come, or has ended by what the API server notes of the pod, lets nothing go while the webhook hangs.
func TestVoidConfirmationWhileAway(t *testing.T) {
	g := newGround(t)
	kubelet, _ := g.Warned(t, "system:node:nowhere", "system:nodes")
	confirmed := func(at time.Duration) *corev1.Pod {
		t.Helper()
		p := g.pod(t)
		text := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, guard.AnnotationConfirmForceDelete, guard.ConfirmPod(p, guard.Node{}, time.Now().Add(at)))
		// Of others the API server takes none of another time.
		if err := kubelet.Status().Patch(t.Context(), p.DeepCopy(), client.RawPatch("application/merge-patch+json", text)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	now, ahead, ended := confirmed(0), confirmed(100*time.Hour), confirmed(-time.Hour)
	if err := syscall.Kill(g.Webhook.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := func() { _ = syscall.Kill(g.Webhook.PID, syscall.SIGCONT) }
	defer resume()
	suite.Eventually(t, "all threads of the webhook stopped", func(context.Context) (bool, error) { return stopped(g.Webhook.PID) })
	ends := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Failed"}}`))
	for what, p := range map[string]*corev1.Pod{"of a time to come": ahead, "which has ended": ended} {
		if err := g.Client.Delete(t.Context(), p, client.GracePeriodSeconds(0)); err == nil || !strings.Contains(err.Error(), `failed calling webhook "delete.removal.podgrace.dev"`) {
			t.Errorf("a force delete with a confirmation %s: %v", what, err)
		}
		if err := g.Client.Status().Patch(t.Context(), p.DeepCopy(), ends); err == nil || !strings.Contains(err.Error(), `failed calling webhook "status.removal.podgrace.dev"`) {
			t.Errorf("a status with a confirmation %s: %v", what, err)
		}
	}
	if err := g.Client.Delete(t.Context(), now, client.GracePeriodSeconds(0)); err != nil {
		t.Errorf("a confirmed force delete: %v", err)
	}
	resume()
	g.back(t)
}

// callAt makes both configurations call another address, with another CA; the function puts things back.
func (g *ground) callAt(t *testing.T, url string, ca []byte) (restore func()) {
	t.Helper()
	var m admissionregistrationv1.MutatingWebhookConfiguration
	var v admissionregistrationv1.ValidatingWebhookConfiguration
	key := client.ObjectKey{Name: certs.ConfigurationName}
	if err := g.Client.Get(t.Context(), key, &m); err != nil {
		t.Fatal(err)
	}
	if err := g.Client.Get(t.Context(), key, &v); err != nil {
		t.Fatal(err)
	}
	change := func(c *admissionregistrationv1.WebhookClientConfig) {
		at := strings.Replace(*c.URL, g.Webhook.URL, url, 1)
		c.URL = &at
		if ca != nil {
			c.CABundle = ca
		}
	}
	mPatch, vPatch := client.MergeFrom(m.DeepCopy()), client.MergeFrom(v.DeepCopy())
	mBack, vBack := m.DeepCopy(), v.DeepCopy()
	for i := range m.Webhooks {
		change(&m.Webhooks[i].ClientConfig)
	}
	for i := range v.Webhooks {
		change(&v.Webhooks[i].ClientConfig)
	}
	if err := g.Client.Patch(t.Context(), &m, mPatch); err != nil {
		t.Fatal(err)
	}
	if err := g.Client.Patch(t.Context(), &v, vPatch); err != nil {
		t.Fatal(err)
	}
	return func() {
		ctx := context.Background()
		mBack.ResourceVersion, vBack.ResourceVersion = m.ResourceVersion, v.ResourceVersion
		if err := g.Client.Patch(ctx, mBack, client.MergeFrom(m.DeepCopy())); err != nil {
			t.Error(err)
		}
		if err := g.Client.Patch(ctx, vBack, client.MergeFrom(v.DeepCopy())); err != nil {
			t.Error(err)
		}
	}
}

// refusedForWant returns when a force delete is refused because the webhook can't be called: the API server has seen the
// change of its configuration.
func (g *ground) refusedForWant(t *testing.T, p *corev1.Pod) {
	t.Helper()
	suite.InForce(t, "delete.removal.podgrace.dev", func(ctx context.Context) error {
		return g.Client.Delete(ctx, p, client.GracePeriodSeconds(0), client.DryRunAll)
	}, "failed calling webhook")
	suite.Eventually(t, "the fault in force for mutation", func(ctx context.Context) (bool, error) {
		probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "probe"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		err := g.Client.Create(ctx, probe, client.DryRunAll)
		return err == nil && *probe.Spec.TerminationGracePeriodSeconds == 30, err
	})
}

// Nobody listens.
func TestWebhookDown(t *testing.T) {
	g := newGround(t)
	existing, confirmed := g.pod(t), g.confirmed(t)
	defer g.back(t)
	defer g.callAt(t, "https://localhost:1", nil)()
	g.refusedForWant(t, existing)
	g.whileAway(t, existing, confirmed)
	g.nodeWhileAway(t)
}

// nodeWhileAway is what must hold of nodes: a confirmation works, a void one does not.
func (g *ground) nodeWhileAway(t *testing.T) {
	t.Helper()
	node := g.silentNode(t, "off-"+g.namespace, time.Now().Add(-2*time.Minute))
	taint := func() error {
		return g.Client.Patch(t.Context(), node.DeepCopy(), client.RawPatch("application/strategic-merge-patch+json", []byte(`{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}]}}`)), client.DryRunAll)
	}
	remove := func() error { return g.Client.Delete(t.Context(), node.DeepCopy(), client.DryRunAll) }
	for what, do := range map[string]func() error{"the taint": taint, "the DELETE": remove} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			t.Errorf("%s of a node that nobody confirmed: %v", what, err)
		}
	}
	g.ConfirmOff(t, node.Name).DeepCopyInto(node)
	for what, do := range map[string]func() error{"the taint": taint, "the DELETE": remove} {
		if err := do(); err != nil {
			t.Errorf("%s of a node that is confirmed off: %v", what, err)
		}
	}
	g.heard(t, node, time.Now().Add(time.Minute))
	if err := taint(); err == nil {
		t.Error("the node was heard of since, and the confirmation still counts")
	}
	// Silent again: a confirmation that was void stays void.
	for i := range node.Status.Conditions {
		node.Status.Conditions[i].Status = corev1.ConditionUnknown
	}
	if err := g.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if err := taint(); err == nil {
		t.Error("a void confirmation came back to life")
	}
}

// silentNode makes a node that was last heard of at a time.
func (g *ground) silentNode(t *testing.T, name string, heard time.Time) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}} // one without any field is not tracked in managedFields
	if err := g.Client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	node.Status.NodeInfo.BootID = "boot"
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastHeartbeatTime: metav1.NewTime(heard), LastTransitionTime: metav1.NewTime(heard)}}
	if err := g.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	return node
}

// heard writes what a kubelet writes that is back.
func (g *ground) heard(t *testing.T, node *corev1.Node, at time.Time) {
	t.Helper()
	if err := g.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		t.Fatal(err)
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		c.Status, c.LastHeartbeatTime = corev1.ConditionTrue, metav1.NewTime(at)
	}
	if err := g.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}

// The webhook serves a certificate that has expired.
func TestExpiredCertificate(t *testing.T) {
	g := newGround(t)
	existing, confirmed := g.pod(t), g.confirmed(t)
	dir, ca := expired(t)
	stale, err := podgrace.Start(t.Context(), g.Cluster, filepath.Join(g.Dir, "bin", "webhook"), podgrace.Options{
		Args: []string{"--cert-mode=files", "--cert-dir=" + dir}, Unready: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stale.Stop() }()
	defer g.back(t)
	defer g.callAt(t, stale.URL, ca)()
	g.refusedForWant(t, existing)
	g.whileAway(t, existing, confirmed)
}

// expired writes a certificate that was good until an hour ago.
func expired(t *testing.T) (dir string, ca []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, text := range map[string][]byte{"tls.crt": ca, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, ca
}
