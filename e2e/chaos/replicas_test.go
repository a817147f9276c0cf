package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/e2e/measure"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/internal/program/logging"
)

func TestPanicked(t *testing.T) {
	for log, want := range map[string]string{
		"it ended:\npanic: nil map\n\ngoroutine 1": "panic: nil map", "panic: first of all": "panic: first of all", "it ended:\nfatal error: concurrent map writes\n": "fatal error: concurrent map writes",
		"it goes on:\nE1 \"Observed a panic\" panic=\"nil map\" path=\"/pods\"\n":           `E1 "Observed a panic" panic="nil map" path="/pods"`,
		"{\"msg\":\"standard library log\",\"text\":\"http: panic serving 127.0.0.1:9\"}\n": `{"msg":"standard library log","text":"http: panic serving 127.0.0.1:9"}`,
		"it ended:\n{\"msg\":\"leader election lost\"}\n":                                   "", "": "",
	} {
		if got := panicked([]byte(log)); got != want {
			t.Errorf("%q: %q", log, got)
		}
	}
}

// A review that panics is answered, so that nothing ends: what the webhook's log and its metrics tell of it is found.
func TestPanicInReviewIsFound(t *testing.T) {
	for _, format := range []string{logging.Text, logging.JSON} {
		var out bytes.Buffer
		log := (&logging.Options{Format: format}).New(&out)
		hook := &admission.Webhook{
			Handler:        admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { panic("nil map") }),
			LogConstructor: func(logr.Logger, *admission.Request) logr.Logger { return log },
		}
		if got := hook.Handle(t.Context(), admission.Request{}); got.Allowed {
			t.Error("it was allowed")
		}
		if line := panicked(out.Bytes()); !strings.Contains(line, "nil map") {
			t.Errorf("%s: %q of\n%s", format, line, out.String())
		}
	}
	served := httptest.NewServer(promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}))
	defer served.Close()
	text, err := measure.Metrics(t.Context(), served.URL)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := recovered(text); err != nil || n < 2 {
		t.Errorf("%g, %v", n, err)
	}
}

// A process that panicked is told of, once, however far up in its log that is, and although another one is in its place.
func TestPanicIsTold(t *testing.T) {
	dir, l, started := t.TempDir(), scripted(), 0
	log := func(name, text string) *podgrace.Webhook {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return &podgrace.Webhook{LogPath: path}
	}
	all := []*podgrace.Webhook{log("first", "panic: nil map\n"+strings.Repeat("goroutine\n", 1000)), log("second", "serving\n")}
	r := &replica{start: func(...string) (*podgrace.Webhook, error) {
		started++
		return all[started-1], nil
	}}
	l.replicas = &replicas{all: []*replica{r}, told: map[string]bool{}}
	look := func(want int) {
		t.Helper()
		if err := l.panicked(); err != nil {
			t.Fatal(err)
		}
		if found := l.found(); len(found) != want || want > 0 && !strings.Contains(found[0], "panic: nil map") {
			t.Errorf("%q", found)
		}
	}
	for range all {
		if err := r.again(); err != nil {
			t.Fatal(err)
		}
	}
	look(1)
	look(1)
	log("second", "Observed a panic\n")
	look(2)
	look(2)
}

// One that was ready does not end by itself. One that is just starting may.
func TestReplicaEnded(t *testing.T) {
	l := scripted()
	l.replicaEnded(&replica{}, "no API server", false)
	if found := l.found(); len(found) > 0 || len(l.counts.others) != 1 {
		t.Errorf("one that was starting: %q, %v", found, l.counts.others)
	}
	l.replicaEnded(&replica{}, "it lost its lease", true)
	if found := l.found(); len(found) != 1 || !strings.Contains(found[0], "it lost its lease") {
		t.Errorf("one that was ready: %q", found)
	}
}
