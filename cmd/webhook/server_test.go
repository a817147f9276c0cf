package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A request that is under way when the server ends can still read what it needs, and is answered.
func TestServerAnswersTheLastRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		ctx, end := context.WithCancel(t.Context())
		s := newServer("", nil, newDrain())
		var under error
		s.Register("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			end()
			<-l.closed // it has begun to end
			time.Sleep(time.Second)
			under = r.Context().Err()
		}))
		ended := make(chan error)
		go func() { ended <- s.serve(ctx, l) }()
		if got := l.ask(t, l.dial(t)); got != http.StatusOK {
			t.Errorf("got %d", got)
		}
		if err := <-ended; err != nil || under != nil {
			t.Errorf("ended by %v, and under way it was told: %v", err, under)
		}
	})
}

// The server is not the one that closes a connection which nobody uses: API servers do so after 90 s.
func TestServerOutlastsItsCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		ctx, end := context.WithCancel(t.Context())
		s := newServer("", nil, newDrain())
		s.Register("/", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		ended := make(chan error)
		go func() { ended <- s.serve(ctx, l) }()
		c := l.dial(t)
		for range 2 {
			if got := l.ask(t, c); got != http.StatusOK {
				t.Errorf("got %d", got)
			}
			time.Sleep(http.DefaultTransport.(*http.Transport).IdleConnTimeout + time.Second)
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A caller that is gone ends what is done for it.
func TestServerLetsCallersGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		ctx, end := context.WithCancel(t.Context())
		s := newServer("", nil, newDrain())
		c := l.dial(t)
		s.Register("/", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // the server looks for the end of the connection once the body was read
			_ = c.Close()
			<-r.Context().Done()
			end()
		}))
		ended := make(chan error)
		go func() { ended <- s.serve(ctx, l) }()
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The check fails until the server answers, and where nothing does at its address.
func TestServerStarted(t *testing.T) {
	t.Parallel()
	answers := httptest.NewTLSServer(nil)
	s := newServer(answers.Listener.Addr().String(), nil, newDrain())
	check := func() string {
		if err := s.StartedChecker()(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)); err != nil {
			return err.Error()
		}
		return ""
	}
	if got := check(); !strings.Contains(got, "not started yet") {
		t.Errorf("before: %q", got)
	}
	s.started.Store(true)
	if got := check(); got != "" {
		t.Errorf("started: %s", got)
	}
	answers.Close()
	if got := check(); !strings.Contains(got, "reach the webhook's server") {
		t.Errorf("away: %q", got)
	}
}

// An address that is taken ends the program with that.
func TestServerCanNotListen(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := newServer(taken.Addr().String(), &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, io.EOF }}, newDrain())
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "listen for API servers") {
		t.Errorf("got %v", err)
	}
}

const request = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"

// pipes is a listener whose connections need no time, so that it works in a bubble.
type pipes struct {
	callers chan net.Conn
	closed  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn, 1), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.callers:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(t *testing.T) net.Conn {
	t.Helper()
	caller, server := net.Pipe()
	t.Cleanup(func() { _ = caller.Close() })
	p.callers <- server
	return caller
}

// ask sends a request, and returns the answer's code.
func (p *pipes) ask(t *testing.T, c net.Conn) int {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode
}
