package state_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/podgrace/podgrace/nodeenforcer/state"
)

// A write says whose it is, and every request what sent it.
func TestClientsSayWhoTheyAre(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.RequestURI()+" by "+r.UserAgent())
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}`))
	}))
	defer server.Close()
	clients, err := state.NewClients(&rest.Config{Host: server.URL, UserAgent: "me/v1", ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clients.Get(t.Context(), "n"); err != nil {
		t.Error(err)
	}
	for _, subresources := range [][]string{nil, {"status"}} {
		if err := clients.Patch(t.Context(), "n", types.MergePatchType, []byte("{}"), subresources...); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"GET /api/v1/nodes/n by me/v1",
		"PATCH /api/v1/nodes/n?fieldManager=podgrace-nodeenforcer by me/v1",
		"PATCH /api/v1/nodes/n/status?fieldManager=podgrace-nodeenforcer by me/v1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A DaemonSet is read without the group apps in the scheme.
func TestDaemonSet(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/apis/apps/v1/namespaces/podgrace-node/daemonsets/there" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
			return
		}
		_, _ = w.Write([]byte(`{"kind":"DaemonSet","apiVersion":"apps/v1","metadata":{"name":"there","deletionTimestamp":"2026-01-02T03:04:05Z"},"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`))
	}))
	defer server.Close()
	clients, err := state.NewClients(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	set, err := clients.DaemonSet(t.Context(), types.NamespacedName{Namespace: "podgrace-node", Name: "there"})
	if err != nil || set.DeletionTimestamp == nil || set.Spec.Template.Spec.NodeSelector["a"] != "b" {
		t.Errorf("got %+v, %v", set, err)
	}
	if _, err := clients.DaemonSet(t.Context(), types.NamespacedName{Namespace: "podgrace-node", Name: "gone"}); !apierrors.IsNotFound(err) {
		t.Errorf("one that is gone: %v", err)
	}
}
