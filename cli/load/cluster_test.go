package load

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/terminal"
)

// served is an API server that knows little, and which requests arrived: METHOD PATH.
type served struct {
	kubeconfig string
	mu         sync.Mutex
	arrived    []string
}

func (s *served) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.arrived)
}

// serve answers with the body of each path.
func serve(t *testing.T, bodies map[string]string) *served {
	t.Helper()
	s := &served{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.arrived = append(s.arrived, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		body, ok := bodies[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	write(t, s.kubeconfig, "{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: '"+server.URL+"'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}")
	return s
}

func write(t *testing.T, file, text string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// options are those of a command line.
func options(t *testing.T, args ...string) *Options {
	t.Helper()
	o := New("podgrace")
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(f)
	for _, err := range []error{f.Parse(args), o.Complete(f)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// What is asked of a client by each of its verbs, and whether it reads.
var asked = map[string]struct {
	reads bool
	do    func(*testing.T, kubernetes.Interface) error
}{
	"get": {true, func(t *testing.T, k kubernetes.Interface) error {
		_, err := k.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
		return err
	}},
	"list": {true, func(t *testing.T, k kubernetes.Interface) error {
		_, err := k.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
		return err
	}},
	"watch": {true, func(t *testing.T, k kubernetes.Interface) error {
		w, err := k.CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{})
		if err == nil {
			w.Stop()
		}
		return err
	}},
	"create": {false, func(t *testing.T, k kubernetes.Interface) error {
		_, err := k.CoreV1().Pods("shop").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{})
		return err
	}},
	"create, dry run": {false, func(t *testing.T, k kubernetes.Interface) error {
		_, err := k.CoreV1().Pods("shop").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}},
	"update": {false, func(t *testing.T, k kubernetes.Interface) error {
		_, err := k.CoreV1().Pods("shop").Update(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.UpdateOptions{})
		return err
	}},
	"patch": {false, func(t *testing.T, k kubernetes.Interface) error {
		_, err := k.CoreV1().Pods("shop").Patch(t.Context(), "web", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
		return err
	}},
	"delete": {false, func(t *testing.T, k kubernetes.Interface) error {
		return k.CoreV1().Pods("shop").Delete(t.Context(), "web", metav1.DeleteOptions{})
	}},
	"delete all": {false, func(t *testing.T, k kubernetes.Interface) error {
		return k.CoreV1().Pods("shop").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
	}},
	"evict": {false, func(t *testing.T, k kubernetes.Interface) error {
		return k.PolicyV1().Evictions("shop").Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
	}},
	"what may I do": {false, func(t *testing.T, k kubernetes.Interface) error {
		_, err := k.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{}, metav1.CreateOptions{})
		return err
	}},
}

func TestReadOnly(t *testing.T) {
	pod := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}`
	s := serve(t, map[string]string{
		"/api/v1/namespaces/shop/pods": `{"apiVersion": "v1", "kind": "PodList", "items": []}`, "/api/v1/namespaces/shop/pods/web": pod, "/api/v1/namespaces/shop/pods/web/eviction": pod,
		"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": `{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}`,
	})
	for name, a := range asked {
		for _, readOnly := range []bool{false, true} {
			o := options(t, "--kubeconfig", s.kubeconfig)
			o.ReadOnly = readOnly
			config, err := o.Kube.ToRESTConfig()
			if err != nil {
				t.Fatal(err)
			}
			kube, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			before := len(s.requests())
			err = a.do(t, kube)
			arrived := s.requests()[before:]
			switch {
			case a.reads || !readOnly:
				if err != nil || len(arrived) != 1 || strings.HasPrefix(arrived[0], "GET ") != a.reads {
					t.Errorf("%s, read only %t: %v, %q", name, readOnly, err, arrived)
				}
			case err == nil || !strings.Contains(err.Error(), "was not sent: this command only reads") || len(arrived) > 0:
				t.Errorf("%s, read only: %v, %q arrived", name, err, arrived)
			}
		}
	}
}

// No method but GET is sent, whatever HTTP will come to have, nor does a body stay open.
func TestReadOnlyByMethod(t *testing.T) {
	s := serve(t, map[string]string{"/": "{}"})
	o := options(t, "--kubeconfig", s.kubeconfig)
	o.ReadOnly = true
	config, err := o.Kube.ToRESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	http1, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions, http.MethodConnect, http.MethodTrace, "get", "QUERY"} {
		body := &closes{Reader: strings.NewReader("{}")}
		request, err := http.NewRequestWithContext(t.Context(), method, config.Host, body)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http1.Do(request)
		if err == nil {
			response.Body.Close()
			t.Errorf("%s was sent", method)
		}
		if !body.closed {
			t.Errorf("%s: its body stays open", method)
		}
	}
	if arrived := s.requests(); len(arrived) > 0 {
		t.Errorf("%q arrived", arrived)
	}
}

type closes struct {
	io.Reader
	closed bool
}

func (c *closes) Close() error { c.closed = true; return nil }

// Who asks for further kinds has them, of files and of a cluster.
func TestFurtherKinds(t *testing.T) {
	dir := t.TempDir()
	pod := write(t, filepath.Join(dir, "pod.yaml"), "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}")
	policy := write(t, filepath.Join(dir, "policy.yaml"), "{apiVersion: podgrace.dev/v1alpha1, kind: PodPolicy, metadata: {name: p}, spec: {gracePeriod: {minSeconds: 20}}}")
	budget := write(t, filepath.Join(dir, "budget.yaml"), "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: of-a-file}, spec: {minAvailable: 1}}")
	s := serve(t, map[string]string{
		"/api":                                 `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/apis":                                `{"kind": "APIGroupList", "groups": [{"name": "policy", "versions": [{"groupVersion": "policy/v1", "version": "v1"}]}]}`,
		"/apis/policy/v1":                      `{"kind": "APIResourceList", "groupVersion": "policy/v1", "resources": [{"name": "poddisruptionbudgets", "kind": "PodDisruptionBudget", "namespaced": true, "verbs": ["list"]}]}`,
		"/apis/policy/v1/poddisruptionbudgets": `{"kind": "PodDisruptionBudgetList", "apiVersion": "policy/v1", "items": [{"metadata": {"name": "of-the-cluster", "namespace": "shop"}}]}`,
	})
	load := func(t *testing.T, further []client.Object, args ...string) *review.State {
		o := options(t, append(args, "-f", pod, "--policy", policy)...)
		o.Further, o.ReadOnly = further, true
		l, err := o.Load(t.Context(), terminal.Terminal{Err: io.Discard})
		if err != nil || len(l.Errors) > 0 || len(l.Documents) != 1 {
			t.Fatalf("%v, %+v", err, l)
		}
		return l.Engine.State
	}
	live := []string{"--kubeconfig", s.kubeconfig}
	const list = "GET /apis/policy/v1/poddisruptionbudgets"
	if load(t, nil, live...); slices.Contains(s.requests(), list) {
		t.Error("it lists what nobody asked for")
	}
	for want, args := range map[string][]string{"of-a-file": {"--state", budget}, "of-the-cluster": live} {
		got := review.Objects[*policyv1.PodDisruptionBudget](load(t, []client.Object{&policyv1.PodDisruptionBudget{}}, args...))
		if len(got) != 1 || got[0].Name != want {
			t.Errorf("%q: got %v, want %s", args, got, want)
		}
	}
	for _, r := range s.requests() {
		if !strings.HasPrefix(r, "GET ") {
			t.Errorf("%s arrived", r)
		}
	}
	if !slices.Contains(s.requests(), list) {
		t.Error("it does not list what somebody asked for")
	}
}

// A cluster that does not know policies has none for those who may take it so, and can't be read for the others.
func TestClusterWithoutPolicies(t *testing.T) {
	pod := write(t, filepath.Join(t.TempDir(), "pod.yaml"), "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}")
	s := serve(t, map[string]string{"/api": `{"kind": "APIVersions", "versions": ["v1"]}`, "/apis": `{"kind": "APIGroupList", "groups": []}`})
	for _, may := range []bool{false, true} {
		var said strings.Builder
		o := options(t, "--kubeconfig", s.kubeconfig, "-f", pod)
		o.MayLackPolicies = may
		l, err := o.Load(t.Context(), terminal.Terminal{Err: &said})
		switch {
		case !may && err == nil:
			t.Error("it reviews by no policies")
		case may && (err != nil || !l.NoPolicies || !strings.Contains(said.String(), "Podgrace is not installed in the cluster")):
			t.Errorf("%v, %+v: %s", err, l, said.String())
		}
	}
}
