package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Until the signal connections are kept; from then on every response ends its own.
func TestDrainEndsConnections(t *testing.T) {
	t.Parallel()
	d := newDrain()
	ctx, signal := context.WithCancel(t.Context())
	later, cancel := d.after(ctx, time.Hour)
	defer cancel()
	server := httptest.NewServer(d.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/signal" {
			signal()
			<-d.begun
		}
	})))
	defer server.Close()
	post := func(path string) *http.Response {
		t.Helper()
		r, err := server.Client().Post(server.URL+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		return r
	}
	for _, step := range []struct {
		path string
		ends bool
	}{{"/", false}, {"/signal", false}, {"/", true}, {"/", true}} {
		if got := post(step.path).Close; got != step.ends {
			t.Errorf("%s: the connection ends: %v, want %v", step.path, got, step.ends)
		}
	}
	if later.Err() != nil {
		t.Error("it ended before its time")
	}
}

func TestDrainTakesItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDrain()
		ctx, signal := context.WithCancel(t.Context())
		later, cancel := d.after(ctx, 5*time.Second)
		defer cancel()
		synctest.Wait()
		if d.hasBegun() || later.Err() != nil {
			t.Fatal("it began before the signal")
		}
		start := time.Now()
		signal()
		<-later.Done()
		if took := time.Since(start); !d.hasBegun() || took != 5*time.Second {
			t.Errorf("begun %v, ended after %s", d.hasBegun(), took)
		}
	})
}

// A request under way when the server shuts down can still read what it needs: its base context, which ends then, is not its own.
func TestDrainKeepsRequests(t *testing.T) {
	t.Parallel()
	d := newDrain()
	ctx, signal := context.WithCancel(t.Context())
	later, cancel := d.after(ctx, 0)
	defer cancel()
	var under error
	s := &registered{}
	drained{s, d}.Register("/", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		signal()
		<-s.ended
		under = r.Context().Err()
	}))
	server := httptest.NewUnstartedServer(s)
	server.Config.BaseContext = func(net.Listener) context.Context { return later }
	server.Start()
	defer server.Close()
	r, err := server.Client().Post(server.URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if under != nil {
		t.Errorf("under way it was told: %v", under)
	}
}

// Until then a caller that is gone ends what is done for it.
func TestDrainLetsCallersGo(t *testing.T) {
	t.Parallel()
	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan struct{})
	server := httptest.NewServer(newDrain().handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server looks for the end of the connection once the body was read
		hangUp()
		<-r.Context().Done()
		close(ended)
	})))
	defer server.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := server.Client().Do(req); err == nil {
		_ = r.Body.Close()
		t.Error("it was answered")
	}
	<-ended
}

// registered is the part of a server that handlers are registered with. It serves one request.
type registered struct {
	ctrlwebhook.Server
	handler http.Handler
	ended   chan struct{} // closed when the request's own context has ended
}

func (s *registered) Register(_ string, handler http.Handler) {
	s.handler, s.ended = handler, make(chan struct{})
}

func (s *registered) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	context.AfterFunc(r.Context(), func() { close(s.ended) })
	s.handler.ServeHTTP(w, r)
}
