package terminate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

var victimRef = terminate.Ref{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "pod"}, UID: "uid-1"}

// request is what a server got.
type request struct {
	Line string
	Body map[string]any
}

// server answers with a status, and a GET with the pod of a UID.
func server(t *testing.T, code int, body, uid string) (*terminate.Client, *[]request) {
	t.Helper()
	var got []request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		req := request{Line: r.Method + " " + r.URL.RequestURI()}
		_ = json.Unmarshal(text, &req.Body)
		got = append(got, req)
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"ns","name":"pod","uid":%q}}`, uid)
			return
		}
		if strings.Contains(body, `"retryAfterSeconds"`) {
			w.Header().Set("Retry-After", "10")
		}
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return newClient(t, s.URL), &got
}

func newClient(t *testing.T, url string) *terminate.Client {
	t.Helper()
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: url, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return terminate.NewClient(kube.CoreV1().RESTClient(), clock.RealClock{})
}

func status(code int, reason, details string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"no","details":{%s}}`, code, reason, details)
}

func TestVerdicts(t *testing.T) {
	const budget = `"causes":[{"reason":"DisruptionBudget","message":"needs 1 healthy pod"}]`
	for name, tc := range map[string]struct {
		code       int
		body, uid  string
		want       terminate.Verdict
		retryAfter time.Duration
	}{
		"accepted":                      {201, `{"kind":"Status","apiVersion":"v1","status":"Success"}`, "", terminate.Accepted, 0},
		"gone":                          {404, status(404, "NotFound", `"kind":"pods"`), "", terminate.Gone, 0},
		"replaced":                      {409, status(409, "Conflict", ""), "uid-2", terminate.Gone, 0},
		"a conflict of versions":        {409, status(409, "Conflict", ""), "uid-1", terminate.Refused, 0},
		"a budget forbids it":           {429, status(429, "TooManyRequests", budget), "", terminate.Budget, 0},
		"a budget is not known yet":     {429, status(429, "TooManyRequests", budget+`,"retryAfterSeconds":10`), "", terminate.Budget, 10 * time.Second},
		"the API server has no time":    {429, status(429, "TooManyRequests", `"retryAfterSeconds":10`), "", terminate.Busy, 10 * time.Second},
		"not permitted":                 {403, status(403, "Forbidden", ""), "", terminate.Refused, 0},
		"not known who asks":            {401, status(401, "Unauthorized", ""), "", terminate.Refused, 0},
		"not valid":                     {422, status(422, "Invalid", ""), "", terminate.Refused, 0},
		"it can't be said":              {500, status(500, "InternalError", ""), "", terminate.Unknown, 0},
		"etcd did not answer":           {504, status(504, "Timeout", `"retryAfterSeconds":10`), "", terminate.Unknown, 10 * time.Second},
		"something that is no API":      {502, "bad gateway", "", terminate.Unknown, 0},
		"a page that asks for patience": {503, "service unavailable", "", terminate.Unknown, 0},
	} {
		for method, call := range map[string]func(*terminate.Client) terminate.Answer{
			"evict":  func(c *terminate.Client) terminate.Answer { return c.Evict(t.Context(), victimRef, 30) },
			"delete": func(c *terminate.Client) terminate.Answer { return c.Delete(t.Context(), victimRef, 1) },
		} {
			t.Run(name+", "+method, func(t *testing.T) {
				client, got := server(t, tc.code, tc.body, tc.uid)
				a := call(client)
				if a.Verdict != tc.want || a.RetryAfter != tc.retryAfter {
					t.Errorf("got verdict %d, retry after %s (%v); want %d, %s", a.Verdict, a.RetryAfter, a.Err, tc.want, tc.retryAfter)
				}
				if (a.Err == nil) != (tc.want == terminate.Accepted) || a.Online == (tc.want == terminate.Accepted) {
					t.Errorf("error %v", a.Err)
				}
				// client-go would try again by itself, up to ten times.
				if writes := len(*got); tc.code != 409 && writes != 1 {
					t.Errorf("%d requests: %v", writes, *got)
				}
			})
		}
	}
}

func TestRequests(t *testing.T) {
	client, got := server(t, 200, `{"kind":"Status","apiVersion":"v1","status":"Success"}`, "")
	client.Evict(t.Context(), victimRef, 0)
	client.Delete(t.Context(), victimRef, 1)
	if err := client.Mark(t.Context(), victimRef, "memory is short"); err != nil {
		t.Error(err)
	}
	options := map[string]any{"gracePeriodSeconds": 1.0, "preconditions": map[string]any{"uid": "uid-1"}}
	condition := map[string]any{"type": "DisruptionTarget", "status": "True", "reason": terminate.ReasonEvicted, "message": "memory is short"}
	want := []request{
		{"POST /api/v1/namespaces/ns/pods/pod/eviction", map[string]any{"metadata": map[string]any{"namespace": "ns", "name": "pod"}, "deleteOptions": options}},
		{"DELETE /api/v1/namespaces/ns/pods/pod", options},
		{"PATCH /api/v1/namespaces/ns/pods/pod/status?fieldManager=podgrace-nodeenforcer", map[string]any{"metadata": map[string]any{"uid": "uid-1"}, "status": map[string]any{"conditions": []any{condition}}}},
	}
	unimportant := cmpopts.IgnoreMapEntries(func(key string, _ any) bool {
		return slices.Contains([]string{"kind", "apiVersion", "lastProbeTime", "lastTransitionTime"}, key)
	})
	if diff := cmp.Diff(want, *got, unimportant); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// An address where nobody listens got nothing; a connection that broke may have brought it.
func TestVerdictsWithoutAnswer(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	if a := newClient(t, closed.URL).Delete(t.Context(), victimRef, 1); a.Verdict != terminate.Failed {
		t.Errorf("nobody listens: %d, %v", a.Verdict, a.Err)
	}
	broken := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer broken.Close()
	if a := newClient(t, broken.URL).Delete(t.Context(), victimRef, 1); a.Verdict != terminate.Unknown {
		t.Errorf("the connection broke: %d, %v", a.Verdict, a.Err)
	}
	arrived := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		close(arrived)
		<-r.Context().Done()
	}))
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if a := newClient(t, silent.URL).Delete(ctx, victimRef, 1); a.Verdict != terminate.Unknown {
		t.Errorf("no answer: %d, %v", a.Verdict, a.Err)
	}
	if a := (terminate.Offline{}).Delete(t.Context(), victimRef, 1); a.Verdict != terminate.Failed || a.Err == nil {
		t.Errorf("offline: %d, %v", a.Verdict, a.Err)
	}
}
