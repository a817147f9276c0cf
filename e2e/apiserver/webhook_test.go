package apiserver

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
)

// otherWebhook is somebody else's mutating webhook for one namespace, called after ours (by name).
func otherWebhook(t *testing.T, s *suite.Suite, namespace string, patch func(*corev1.Pod) string) {
	t.Helper()
	address := suite.Address()
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(address, []net.IP{net.ParseIP(address)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var pod corev1.Pod
		if err := json.Unmarshal(review.Request.Object.Raw, &pod); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if p := patch(&pod); p != "" {
			review.Response.Patch, review.Response.PatchType = []byte(p), ptr.To(admissionv1.PatchTypeJSONPatch)
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
	if err := server.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	if server.Listener, err = net.Listen("tcp", net.JoinHostPort(address, "0")); err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	s.Create(t, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "zz-" + namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "other.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: certPEM},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"CREATE"},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}},
		}},
	})
}

// Another webhook adds a container whose preStop hook needs more time; we are asked again, and the answer still holds.
func TestReinvocation(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	newClass(t, s, "reinvoked", 50)
	spec := gives(v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(40)), PreStopMarginSeconds: new(int64(5))})
	spec.Priority = &v1alpha1.PrioritySection{ClassName: "reinvoked"}
	spec.Node = &v1alpha1.Enforcement{CPU: &v1alpha1.WeightEnforcement{Weight: 200}}
	s.Policy(t, ns, spec)
	const injected = `[{"op":"add","path":"/spec/containers/-","value":{"name":"mesh","image":"localhost/mesh:1","lifecycle":{"preStop":{"sleep":{"seconds":39}}}}}]`
	otherWebhook(t, s, ns, func(p *corev1.Pod) string {
		if len(p.Spec.Containers) > 1 {
			return ""
		}
		return injected
	})
	suite.Eventually(t, "the other webhook in force", func(ctx context.Context) (bool, error) {
		probe := newPod(ns)
		err := s.Client.Create(ctx, probe, client.DryRunAll)
		return len(probe.Spec.Containers) == 2, err
	})
	p, _ := mustCreate(t, s, newPod(ns))
	if got := *p.Spec.TerminationGracePeriodSeconds; got != 44 {
		t.Errorf("got grace %d s, want 39 s of preStop and a margin of 5 s", got)
	}
	if p.Spec.PriorityClassName != "reinvoked" || p.Annotations[v1alpha1.AnnotationEnforcement] != `{"cpu":{"weight":200}}` {
		t.Errorf("got class %q, annotations %v", p.Spec.PriorityClassName, p.Annotations)
	}
}

// What the user puts into the contract annotation is overwritten; what another webhook puts there afterwards is refused.
func TestForgedEnforcement(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Node: &v1alpha1.Enforcement{OOM: &v1alpha1.OOMEnforcement{Rank: 50}}})
	forged := func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AnnotationEnforcement: `{"oom":{"rank":0}}`}
	}
	p, warnings := mustCreate(t, s, newPod(ns, forged))
	if got := p.Annotations[v1alpha1.AnnotationEnforcement]; got != `{"oom":{"rank":50}}` {
		t.Errorf("got %s", got)
	}
	wantWarning(t, warnings, "is written by Podgrace only: it was replaced")

	called := make(chan struct{}, 100)
	otherWebhook(t, s, ns, func(*corev1.Pod) string {
		called <- struct{}{}
		return `[{"op":"add","path":"/metadata/annotations/podgrace.dev~1enforcement","value":"{\"oom\":{\"rank\":0}}"}]`
	})
	suite.Eventually(t, "the other webhook called, and its annotation overwritten by the reinvocation", func(ctx context.Context) (bool, error) {
		probe := newPod(ns)
		probe.Name = "probe"
		err := s.Client.Create(ctx, probe, client.DryRunAll)
		if err == nil && probe.Annotations[v1alpha1.AnnotationEnforcement] != `{"oom":{"rank":50}}` {
			t.Fatalf("got %v", probe.Annotations)
		}
		return len(called) > 0, err
	})

	object := fmt.Sprintf(`{"metadata":{"name":"p","namespace":%q,"annotations":{"podgrace.dev/enforcement":"{\"oom\":{\"rank\":0}}"}},"spec":{}}`, ns)
	body := strings.Replace(string(reviewOf("Pod", object)), `"namespace":"default"`, fmt.Sprintf(`"namespace":%q`, ns), 1)
	got := post(t, s, "/validate-pods", "application/json", []byte(body))
	if got.Allowed || !strings.Contains(got.Result.Message, "does not hold what PodPolicy") {
		t.Errorf("a forged annotation in the final pod: %+v", got)
	}
}

// A dry run gets the same answer and leaves no trace.
func TestDryRun(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, gives(v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(40))}))
	before := counter(t, s, `podgrace_pod_changes_total{section="gracePeriod"}`)
	dry := newPod(ns)
	if err := s.Client.Create(t.Context(), dry, client.DryRunAll); err != nil || *dry.Spec.TerminationGracePeriodSeconds != 40 {
		t.Fatalf("got %v, %v", dry.Spec.TerminationGracePeriodSeconds, err)
	}
	if got := counter(t, s, `podgrace_pod_changes_total{section="gracePeriod"}`); got != before {
		t.Errorf("the dry run was counted: %q, before %q", got, before)
	}
	mustCreate(t, s, newPod(ns))
	if got := counter(t, s, `podgrace_pod_changes_total{section="gracePeriod"}`); got == before {
		t.Errorf("the real creation was not counted: %q", got)
	}
}

func counter(t *testing.T, s *suite.Suite, name string) string {
	t.Helper()
	text, err := s.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return value
		}
	}
	return "0"
}

// A mirror pod is left alone; its annotation in the hands of a user protects nothing.
func TestStaticPods(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, gives(v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(40))}))
	if err := s.AddNode(t.Context(), "static", map[string]string{}); err != nil {
		t.Fatal(err)
	}
	var node corev1.Node
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: "static"}, &node); err != nil {
		t.Fatal(err)
	}
	mirror := func(p *corev1.Pod) {
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
		p.Spec.NodeName = "static"
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "static", UID: node.UID, Controller: new(true)}}
	}
	kubelet, _ := s.Warned(t, "system:node:static", "system:nodes")
	var real *corev1.Pod
	suite.Eventually(t, "the API server's knowledge of the node", func(ctx context.Context) (bool, error) { // NodeRestriction has an informer
		real = newPod(ns, mirror, func(p *corev1.Pod) { p.Name = "kube-static" })
		err := kubelet.Create(ctx, real, client.DryRunAll)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return err == nil, err
	})
	if got := *real.Spec.TerminationGracePeriodSeconds; got != 30 {
		t.Errorf("the mirror pod was changed: grace %d s", got)
	}
	forged := newPod(ns, func(p *corev1.Pod) {
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
		p.Spec.NodeName = "static"
	})
	if err := s.Client.Create(t.Context(), forged, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if got := *forged.Spec.TerminationGracePeriodSeconds; got != 40 {
		t.Errorf("a forged mirror annotation kept the default away: grace %d s", got)
	}
}

// post sends a body to the webhook as the API server does, and returns its answer.
func post(t *testing.T, s *suite.Suite, path, contentType string, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	text, err := s.Post(t.Context(), path, contentType, body)
	if err != nil {
		t.Fatal(err)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &review); err != nil || review.Response == nil {
		t.Fatalf("no AdmissionReview in the answer (%v): %.200s", err, text)
	}
	return review.Response
}

func reviewOf(kind, object string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"group":"","version":"v1","kind":%q},"operation":"CREATE","namespace":"default","object":%s}}`, kind, object)
}

// Whatever comes is answered with a reason.
func TestBadInput(t *testing.T) {
	s := shared.Get(t)
	var containers []string
	for i := range 500 {
		containers = append(containers, fmt.Sprintf(`{"name":"c%d","image":"i","lifecycle":{"preStop":{"exec":{"command":["sleep","%d"]}}}}`, i, i))
	}
	for name, tc := range map[string]struct {
		path, contentType string
		body              []byte
		allowed           bool
		want              string
	}{
		"not JSON":               {"/mutate-pods", "application/json", []byte("hello"), false, "decode the review: invalid character 'h'"},
		"not an AdmissionReview": {"/mutate-pods", "application/json", []byte(`{"apiVersion":"v1","kind":"Pod"}`), false, "there is no request in it: is this an AdmissionReview"},
		"empty":                  {"/mutate-pods", "application/json", nil, false, "decode the review: unexpected end of JSON input"},
		"other content type":     {"/mutate-pods", "text/plain", []byte("{}"), false, `Content-Type is "text/plain": an AdmissionReview is application/json`},
		"wrong kind":             {"/mutate-pods", "application/json", reviewOf("Service", `{}`), false, "this path is for pods, the request is for /v1 Service"},
		"wrong kind of workload": {"/validate-workloads", "application/json", reviewOf("Pod", `{}`), false, "this path is for workloads"},
		"not a pod":              {"/mutate-pods", "application/json", reviewOf("Pod", `{"spec":[]}`), false, "decode the pod"},
		"8 MiB":                  {"/mutate-pods", "application/json", reviewOf("Pod", `{"metadata":{"name":"`+strings.Repeat("x", 8<<20)+`"}}`), true, ""}, // controller-runtime reads 7
		"500 containers":         {"/mutate-pods", "application/json", reviewOf("Pod", `{"metadata":{"name":"p"},"spec":{"containers":[`+strings.Join(containers, ",")+`]}}`), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			// As long as an API server waits at most: through a proxy, on a machine that is busy, it takes its time to send 8 MiB.
			got := post(t, s, tc.path+"?timeout=30s", tc.contentType, tc.body)
			message := ""
			if got.Result != nil {
				message = got.Result.Message
			}
			if got.Allowed != tc.allowed || !regexp.MustCompile(tc.want).MatchString(message) {
				t.Errorf("got allowed %v, %q; want %v, %q", got.Allowed, message, tc.allowed, tc.want)
			}
		})
	}
	if err := s.Client.Create(t.Context(), newPod("default"), client.DryRunAll); err != nil {
		t.Errorf("the webhook does not answer any more: %v", err)
	}
}
