package state_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// smallAPI lists and watches Nodes, Pods and NodePolicies, and does nothing else of an API server.
type smallAPI struct {
	t      *testing.T
	server *httptest.Server

	mu      sync.Mutex
	objects map[string]map[string]client.Object // by path of the kind, by name
	missing map[string]bool                     // kinds that are not installed
	log     []apiChange
	news    chan struct{} // closed when log grows
}

// apiChange is an event of a watch. Its index in the log is its resource version, less one.
type apiChange struct {
	path, kind string
	object     client.Object
}

const (
	nodesPath    = "/api/v1/nodes"
	podsPath     = "/api/v1/pods"
	policiesPath = "/apis/podgrace.dev/v1alpha1/nodepolicies"
)

// selectors are what an enforcer of node n may ask for, and no more.
var selectors = map[string]string{nodesPath: "metadata.name=n", podsPath: "spec.nodeName=n", policiesPath: ""}

func newSmallAPI(t *testing.T) *smallAPI {
	t.Helper()
	api := &smallAPI{t: t, objects: map[string]map[string]client.Object{nodesPath: {}, podsPath: {}, policiesPath: {}}, missing: map[string]bool{}, news: make(chan struct{})}
	api.server = httptest.NewServer(api)
	t.Cleanup(func() {
		api.server.CloseClientConnections()
		api.server.Close()
	})
	return api
}

func (a *smallAPI) config() *rest.Config {
	return &rest.Config{Host: a.server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

func pathOf(o client.Object) string {
	switch o.(type) {
	case *corev1.Node:
		return nodesPath
	case *corev1.Pod:
		return podsPath
	}
	return policiesPath
}

// put makes or changes an object, remove removes it.
func (a *smallAPI) put(o client.Object) { a.change(o, "MODIFIED") }

func (a *smallAPI) remove(o client.Object) { a.change(o, "DELETED") }

func (a *smallAPI) change(o client.Object, kind string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	path, o := pathOf(o), o.DeepCopyObject().(client.Object)
	of := a.objects[path]
	if _, ok := of[o.GetName()]; !ok {
		kind = "ADDED"
	}
	of[o.GetName()] = o
	if kind == "DELETED" {
		delete(of, o.GetName())
	}
	o.SetResourceVersion(strconv.Itoa(len(a.log) + 1))
	a.log = append(a.log, apiChange{path, kind, o})
	close(a.news)
	a.news = make(chan struct{})
}

// install reports whether a kind is installed.
func (a *smallAPI) install(path string, installed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.missing[path] = !installed
}

func (a *smallAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	a.mu.Lock()
	missing := a.missing[r.URL.Path]
	a.mu.Unlock()
	selector, ok := selectors[r.URL.Path]
	switch {
	case !ok || r.Method != http.MethodGet || q.Get("fieldSelector") != selector:
		a.t.Errorf("asked for %s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusForbidden)
	case missing:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case q.Get("sendInitialEvents") == "true": // then the client lists
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case q.Get("watch") != "":
		after, _ := strconv.Atoi(q.Get("resourceVersion"))
		a.watch(w, r, after)
	default:
		a.list(w, r.URL.Path)
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: reason, Code: int32(code)})
}

func (a *smallAPI) list(w http.ResponseWriter, path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kind := map[string]metav1.TypeMeta{
		nodesPath: {APIVersion: "v1", Kind: "NodeList"}, podsPath: {APIVersion: "v1", Kind: "PodList"},
		policiesPath: {APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodePolicyList"},
	}[path]
	items := []client.Object{}
	for _, o := range a.objects[path] {
		items = append(items, o)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": kind.APIVersion, "kind": kind.Kind, "metadata": metav1.ListMeta{ResourceVersion: strconv.Itoa(len(a.log))}, "items": items,
	})
}

func (a *smallAPI) watch(w http.ResponseWriter, r *http.Request, after int) {
	w.Header().Set("Content-Type", "application/json")
	for {
		a.mu.Lock()
		changes, news := a.log[min(after, len(a.log)):], a.news
		after = len(a.log)
		a.mu.Unlock()
		for _, c := range changes {
			if c.path == r.URL.Path {
				_ = json.NewEncoder(w).Encode(map[string]any{"type": c.kind, "object": typed(c.object)})
			}
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-news:
		case <-r.Context().Done():
			return
		}
	}
}

// typed says its kind, which a watch needs.
func typed(o client.Object) client.Object {
	o = o.DeepCopyObject().(client.Object)
	switch pathOf(o) {
	case nodesPath:
		o.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	case podsPath:
		o.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	default:
		o.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodePolicy"))
	}
	return o
}
