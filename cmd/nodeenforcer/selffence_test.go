package main

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// relay passes connections on to a server.
type relay struct {
	net.Listener
	server string
	// swallowed gets something when a connection that is cut was written to.
	swallowed chan struct{}

	mu    sync.Mutex
	conns []*relayed
}

// relayed is one connection. Cut: it takes what is written, passes nothing on, and stays open.
type relayed struct {
	client, server net.Conn
	cut            chan struct{}
}

func newRelay(t *testing.T, server string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: listener, server: server, swallowed: make(chan struct{}, 1)}
	go r.serve()
	t.Cleanup(func() {
		_ = listener.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, c := range r.conns {
			_, _ = c.client.Close(), c.server.Close()
		}
	})
	return r
}

func (r *relay) serve() {
	for {
		client, err := r.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &relayed{client: client, server: server, cut: make(chan struct{})}
		r.mu.Lock()
		r.conns = append(r.conns, c)
		r.mu.Unlock()
		go r.pass(c, c.server, c.client)
		go r.pass(c, c.client, c.server)
	}
}

func (r *relay) pass(c *relayed, to io.Writer, from io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		select {
		case <-c.cut:
			if from == io.Reader(c.client) {
				select {
				case r.swallowed <- struct{}{}:
				default:
				}
			}
		default:
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
}

// cut has the connections that there are pass nothing on any more. It returns how many there are.
func (r *relay) cut() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		close(c.cut)
	}
	return len(r.conns)
}

// A connection that takes what is written and brings nothing is closed though something is still asked over it, and what is asked next goes over a new one.
func TestHangUp(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.ProtoMajor != 2:
			t.Errorf("%s by %s: what breaks is another thing there", r.URL, r.Proto)
		case strings.HasSuffix(r.URL.Path, "/leases/n"):
			_, _ = io.WriteString(w, `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","spec":{"renewTime":"2026-11-25T10:00:00.000000Z"}}`)
		default:
			close(asked)
			<-release
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close) // once the relay has closed its connections
	t.Cleanup(func() { close(release) })
	r := newRelay(t, server.Listener.Addr().String())
	o := &selfFenceOptions{options: defaultOptions()}
	feeder, err := newFeeder(o, "boot", &rest.Config{
		Host: "https://" + r.Addr().String(), ContentConfig: rest.ContentConfig{ContentType: "application/json"},
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // before HTTP/2 would find out by itself
	defer cancel()
	if _, err := feeder.Leases.Renewal(ctx, "n"); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() { got <- feeder.Nodes.Patch(ctx, "n", types.MergePatchType, []byte("{}")) }() // which client-go does not try again by itself
	<-asked
	if n := r.cut(); n != 1 {
		t.Fatalf("%d connections", n)
	}
	once, giveUp := context.WithCancel(ctx)
	go func() {
		select {
		case <-r.swallowed:
		case <-ctx.Done():
		}
		giveUp()
	}()
	if text, err := feeder.Leases.Renewal(once, "n"); !errors.Is(err, context.Canceled) {
		t.Fatalf("it is not cut: %q, %v", text, err)
	}
	feeder.HangUp()
	if err := <-got; err == nil || ctx.Err() != nil {
		t.Errorf("what was asked is still waited for: %v", err)
	}
	if text, err := feeder.Leases.Renewal(ctx, "n"); err != nil || text == "" {
		t.Errorf("the API server is still not reached: %q, %v", text, err)
	}
}
