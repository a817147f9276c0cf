package faults

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/webhook"
)

// webhookUser is whom the webhook runs as.
const webhookUser = "system:serviceaccount:podgrace-system:podgrace-webhook"

// front stands before the replicas, as their Service does, and sends each review to the replica that the test chooses.
type front struct {
	roots  *x509.CertPool
	caller *http.Client
	own    *podgrace.Webhook // the suite's

	mu       sync.Mutex
	choose   func(*admissionv1.AdmissionRequest) *podgrace.Webhook
	during   func(*admissionv1.AdmissionRequest) // what happens while a review is under way; other reviews may go on meanwhile
	underWay int
	reviews  []answered
}

// answered is a review that went through.
type answered struct {
	path string
	by   *podgrace.Webhook
	req  *admissionv1.AdmissionRequest
	res  *admissionv1.AdmissionResponse
}

// newFront makes the API server call all webhooks through a front, until the test ends.
func (g *ground) newFront(t *testing.T) *front {
	t.Helper()
	f := &front{roots: g.roots(t), own: g.Webhook}
	f.caller = caller(f.roots)
	f.send(func(*admissionv1.AdmissionRequest) *podgrace.Webhook { return g.Webhook })
	// A certificate of the CA that the webhooks have themselves, so that caBundle stays as the leader wants it.
	source, err := certs.SelfManaged(g.Config, "podgrace-system", []string{"localhost"}, certs.DefaultTiming())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), logr.Discard()))
	ended := make(chan error, 1)
	go func() { ended <- source.Start(ctx) }()
	suite.Eventually(t, "the front's certificate", func(context.Context) (bool, error) {
		_, err := source.GetCertificate(nil)
		return err == nil, err
	})
	server := httptest.NewUnstartedServer(f)
	server.TLS = &tls.Config{GetCertificate: source.GetCertificate}
	server.StartTLS()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	restore := g.callAt(t, "https://localhost:"+port, nil)
	t.Cleanup(func() {
		restore()
		server.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	suite.Eventually(t, "reviews through the front", func(ctx context.Context) (bool, error) {
		probe := g.unbound("probe")
		err := g.Client.Create(ctx, probe, client.DryRunAll)
		return slices.Contains(f.paths(), webhook.PathMutatePods) && slices.Contains(f.paths(), webhook.PathValidatePods), err
	})
	return f
}

// send makes a function choose the replica of each review, and forgets those so far.
func (f *front) send(choose func(*admissionv1.AdmissionRequest) *podgrace.Webhook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.choose, f.reviews = choose, nil
}

// inTurn sends one review to each of the replicas, and all that follow to the last.
func (f *front) inTurn(replicas ...*podgrace.Webhook) {
	f.send(func(*admissionv1.AdmissionRequest) *podgrace.Webhook {
		next := replicas[0]
		if len(replicas) > 1 {
			replicas = replicas[1:]
		}
		return next
	})
}

// bySteps sends the reviews of a force delete's first step to one replica, and those of its second to another.
func (f *front) bySteps(first, second *podgrace.Webhook) {
	f.send(func(r *admissionv1.AdmissionRequest) *podgrace.Webhook {
		if secondStep(r) {
			return second
		}
		return first
	})
}

// secondStep reports whether the pod of a review has been through the first step of a force delete, as it is stored. By a count of the reviews nobody can
// tell: each step begins with the watch cache's copy of the pod, and where that is stale it asks again about what is stored
// (k8s.io/apiserver/pkg/storage/cacher/delegator.go, and GuaranteedUpdate and conditionalDelete in etcd3/store.go, 0.36.3).
func secondStep(r *admissionv1.AdmissionRequest) bool {
	var p corev1.Pod
	return json.Unmarshal(r.OldObject.Raw, &p) == nil && p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0
}

// meanwhile makes something happen during each review that begins from now on.
func (f *front) meanwhile(do func(*admissionv1.AdmissionRequest)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.during = do
}

// wantRefusedBy wants the API server to refuse, and a replica to have said why. The API server waits 5 s for that, of which a replica that is cut off takes 3; whoever asked it
// then hears of a timeout alone where the machine is busy.
func (f *front) wantRefusedBy(t *testing.T, by *podgrace.Webhook, what string, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s went through", what)
	}
	var last *admissionv1.AdmissionResponse
	suite.Eventually(t, "the answer about "+what, func(context.Context) (bool, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, a := range f.reviews {
			if a.by == by && a.path == webhook.PathValidateRemoval {
				last = a.res
			}
		}
		return last != nil && f.underWay == 0, nil
	})
	if last.Allowed {
		t.Fatalf("%s was allowed: %v", what, last)
	}
	for _, part := range parts {
		if !strings.Contains(last.Result.Message, part) {
			t.Errorf("%s: the answer lacks %q: %v", what, part, last.Result)
		}
	}
}

// seen returns the reviews since the last send.
func (f *front) seen() []answered {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.reviews)
}

func (f *front) paths() (paths []string) {
	for _, a := range f.seen() {
		paths = append(paths, a.path)
	}
	return paths
}

// ServeHTTP passes a review on and its answer back, byte for byte.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var review admissionv1.AdmissionReview
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if review.Request.Kind.Kind == "PodPolicy" { // which a choice may make, while it has the lock; these tests are about removals
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
		return
	}
	var during func(*admissionv1.AdmissionRequest)
	to, stray := f.own, r.URL.Path == webhook.PathAnswers // by which the leader asks in its own time whether it is reached
	if !stray {
		f.mu.Lock()
		to, during = f.choose(review.Request), f.during
		f.underWay++
		f.mu.Unlock()
	}
	if during != nil {
		during(review.Request)
	}
	// To its end: what the replica says counts, also where the API server waits no more.
	answer, res, err := post(context.WithoutCancel(r.Context()), f.caller, to.URL+r.URL.RequestURI(), body)
	if !stray {
		f.mu.Lock()
		f.underWay--
		if err == nil {
			f.reviews = append(f.reviews, answered{path: r.URL.Path, by: to, req: review.Request, res: res})
		}
		f.mu.Unlock()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

// roots are what the API server trusts the webhooks by.
func (g *ground) roots(t *testing.T) *x509.CertPool {
	t.Helper()
	var secret corev1.Secret
	if err := g.Client.Get(t.Context(), client.ObjectKey{Namespace: "podgrace-system", Name: certs.SecretName}, &secret); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data[corev1.TLSCertKey]) {
		t.Fatal("the CA's Secret has no certificate")
	}
	return roots
}

// caller is a client that trusts what the API server trusts.
func caller(roots *x509.CertPool) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}}}
}

// post sends a review as the API server does.
func post(ctx context.Context, c *http.Client, to string, review []byte) ([]byte, *admissionv1.AdmissionResponse, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(review))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	response, err := c.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, nil, err
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %s", response.Status, err, body)
	}
	if answer.Response == nil {
		return nil, nil, fmt.Errorf("%s: no response in %s", response.Status, body)
	}
	return body, answer.Response, nil
}

// gate is a way to the API server that can be shut: connections stay, and nothing comes through.
type gate struct {
	address string
	way     sync.RWMutex // held for writing while the gate is shut
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	g := &gate{address: l.Addr().String()}
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", to)
			if err != nil {
				from.Close()
				continue
			}
			go g.pass(back, from)
			go g.pass(from, back)
		}
	}()
	return g
}

func (g *gate) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		g.way.RLock()
		_, err = to.Write(buffer[:n])
		g.way.RUnlock()
		if err != nil {
			return
		}
	}
}

// behind starts another replica that reaches the API server through a gate.
func (g *ground) behind(t *testing.T) (*podgrace.Webhook, *gate) {
	t.Helper()
	file, err := g.KubeconfigFor(webhookUser, "system:serviceaccounts", "system:serviceaccounts:podgrace-system")
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(g.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	way := newGate(t, to.Host)
	alone := filepath.Join(t.TempDir(), "kubeconfig") // the other one is of all replicas
	if err := cluster.Redirect(file, "https://"+way.address, alone); err != nil {
		t.Fatal(err)
	}
	return g.replica(t, "--kubeconfig="+alone), way
}

// replica starts another webhook, until the test ends.
func (g *ground) replica(t *testing.T, args ...string) *podgrace.Webhook {
	t.Helper()
	w, err := podgrace.Start(t.Context(), g.Cluster, filepath.Join(g.Dir, "bin", "webhook"), podgrace.Options{Args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop() })
	return w
}

// node makes a node of the test's own that is heard of and has no kubelet.
func (g *ground) node(t *testing.T, name string) string {
	t.Helper()
	if err := g.AddNode(t.Context(), name, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.StopHeartbeat(name)
		_ = g.Client.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		_ = g.Client.Delete(context.Background(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}})
	})
	return name
}

// kubelet is the client of a node's kubelet.
func (g *ground) kubelet(t *testing.T, node string) client.Client {
	t.Helper()
	kube, _ := g.Warned(t, "system:node:"+node, "system:nodes")
	return kube
}

func (g *ground) unbound(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "localhost/none:1"}}},
	}
}

// runs makes a pod that runs on a node, as far as its kubelet says, which lets go of it when the test ends.
func (g *ground) runs(t *testing.T, node, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	p := g.unbound(name)
	p.Spec.NodeName = node
	for _, c := range change {
		c(p)
	}
	if err := g.Client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	kubelet := g.kubelet(t, node)
	p.Status.Phase = corev1.PodRunning
	if err := kubelet.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = kubelet.Delete(context.Background(), p, client.GracePeriodSeconds(0))
	})
	return p
}

func held(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} }

// stays fails unless this very pod is still there, and returns it as it is.
func (g *ground) stays(t *testing.T, p *corev1.Pod, after string) *corev1.Pod {
	t.Helper()
	var now corev1.Pod
	if err := g.Client.Get(t.Context(), client.ObjectKeyFromObject(p), &now); err != nil {
		t.Fatalf("%s removed the pod: %v", after, err)
	}
	if now.UID != p.UID {
		t.Fatalf("%s: it is another pod", after)
	}
	return &now
}

func (g *ground) gone(t *testing.T, p *corev1.Pod, after string) {
	t.Helper()
	var now corev1.Pod
	if err := g.Client.Get(t.Context(), client.ObjectKeyFromObject(p), &now); client.IgnoreNotFound(err) != nil || err == nil && now.UID == p.UID {
		t.Errorf("%s: the pod is still there (%v)", after, err)
	}
}

// wantRefused wants a refusal by the webhook ("denied the request") or by a policy ("denied request").
func wantRefused(t *testing.T, what string, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s went through", what)
		return
	}
	for _, part := range append([]string{"denied"}, parts...) {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: the refusal lacks %q: %v", what, part, err)
		}
	}
}

func (g *ground) patch(t *testing.T, kube client.Client, p *corev1.Pod, text string) error {
	t.Helper()
	return kube.Patch(t.Context(), p.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(text)))
}

// get reads a page of a webhook.
func get(ctx context.Context, from string) (code int, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}
