package status

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// eventsAPI takes Events, after it has answered with these codes.
type eventsAPI struct {
	mu    sync.Mutex
	codes []int
	asked int
	took  []map[string]any
}

func (a *eventsAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	if len(a.codes) > 0 {
		code := a.codes[0]
		a.codes = a.codes[1:]
		refuse(w, code, map[int]metav1.StatusReason{http.StatusConflict: metav1.StatusReasonAlreadyExists}[code])
		return
	}
	var event map[string]any
	if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	event["path"] = r.Method + " " + r.URL.Path
	a.took = append(a.took, event)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(event)
}

func (a *eventsAPI) seen() (asked int, took []map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked, a.took
}

// eventWriter does not run yet.
func eventWriter(t *testing.T, api http.Handler) (*EventWriter, *statetest.Log) {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	clients, err := state.NewClients(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	log := &statetest.Log{}
	w, err := NewEventWriter(clients.Events, testclock.NewFakePassiveClock(statetest.LongAgo), funcr.New(log.Write, funcr.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	w.host, w.retry.Duration = "worker", time.Millisecond
	return w, log
}

func startEvents(t *testing.T, w *EventWriter) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestEventWriter(t *testing.T) {
	api := &eventsAPI{}
	w, log := eventWriter(t, api)
	startEvents(t, w)
	w.Eventf(podReference(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1"}}), nil, "Warning", "Evicted", "Evict", "%s", "100%s")
	w.Eventf(nodeReference(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u-2"}}), nil, "Normal", "PressureOver", "Observe", "%s", "over")
	statetest.Until(t, "both are told", func() bool { _, took := api.seen(); return len(took) == 2 })
	_, took := api.seen()
	for i, want := range []map[string]any{
		{
			"path": "POST /apis/events.k8s.io/v1/namespaces/shop/events", "type": "Warning", "reason": "Evicted", "action": "Evict", "note": "100%s",
			"eventTime": "2026-03-04T05:06:07.000000Z", "reportingController": "podgrace-nodeenforcer", "reportingInstance": "podgrace-nodeenforcer-worker",
			"regarding": map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web", "uid": "u-1"},
		},
		{
			"path": "POST /apis/events.k8s.io/v1/namespaces/default/events", "type": "Normal", "reason": "PressureOver", "action": "Observe", "note": "over",
			"regarding": map[string]any{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u-2"},
		},
	} {
		for field, value := range want {
			if diff := cmp.Diff(value, took[i][field]); diff != "" {
				t.Errorf("event %d, %s (-want +got):\n%s", i, field, diff)
			}
		}
	}
	if n := log.Count(""); n > 0 {
		t.Errorf("%d lines logged", n)
	}
}

// What is refused is dropped, what has no answer is tried again, a few times; that it is there already was an answer that got lost.
func TestEventWriterTrouble(t *testing.T) {
	for name, tc := range map[string]struct {
		codes []int
		asked int // with the next Event
		told  int // Events
		says  string
	}{
		"not permitted":             {[]int{403}, 2, 1, "write event Evicted of Pod web"},
		"trouble that passes":       {[]int{500, 503}, 4, 2, ""},
		"an answer that got lost":   {[]int{500, 409}, 3, 1, ""},
		"trouble that does not end": {[]int{500, 500, 500, 500}, 5, 1, "write event Evicted of Pod web"},
	} {
		t.Run(name, func(t *testing.T) {
			api := &eventsAPI{codes: tc.codes}
			w, log := eventWriter(t, api)
			startEvents(t, w)
			w.Eventf(podReference(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}), nil, "Warning", "Evicted", "Evict", "%s", "first")
			w.Eventf(podReference(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}), nil, "Warning", "Next", "Evict", "%s", "next")
			statetest.Until(t, "the next one is told", func() bool {
				_, took := api.seen()
				return len(took) > 0 && took[len(took)-1]["reason"] == "Next"
			})
			if asked, took := api.seen(); asked != tc.asked || len(took) != tc.told {
				t.Errorf("asked %d times, told %d; want %d, %d", asked, len(took), tc.asked, tc.told)
			}
			if lines := log.Count(""); (tc.says == "") != (lines == 0) || log.Count(tc.says) != lines {
				t.Errorf("logged %d lines, %d of them are %q", lines, log.Count(tc.says), tc.says)
			}
		})
	}
}

// An API server that is away holds up nobody, and Events do not pile up.
func TestEventWriterDrops(t *testing.T) {
	w, log := eventWriter(t, &eventsAPI{})
	for i := range eventsQueue + 3 {
		w.Eventf(nodeReference(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}), nil, "Normal", "R", "A", "%s", "n")
	}
	if len(w.queue) != eventsQueue || log.Count("dropping event") != 3 {
		t.Errorf("%d wait, logged %q", len(w.queue), log.Lines())
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: reason, Code: int32(code)})
}
