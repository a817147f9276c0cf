package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
)

const (
	// idleFor is how long a connection is kept that nobody uses. API servers end theirs after 90 s (k8s.io/apimachinery/pkg/util/net/http.go SetTransportDefaults,
	// 0.36.3), and a server must not be the first: a request that is on its way when it closes the connection is lost.
	idleFor = 5 * time.Minute
	// lastRequests is how long requests that are under way may take when all else has ended. They are bound by their own timeouts before (package intake).
	lastRequests = time.Minute
	// headerWithin is how long the header of a request may take.
	headerWithin = 32 * time.Second
)

// server serves reviews. It differs from controller-runtime's (pkg/webhook/server.go and pkg/internal/httpserver, 0.24.1) in what it loses: that one keeps idle connections for as long as
// API servers do, 90 s, and cancels the contexts of the requests that are under way when it ends, so that what they still read of the API server fails, and what
// is not known is refused.
type server struct {
	ctrlwebhook.Server // whose mux and metrics it has
	mux                *http.ServeMux
	address            string
	tls                *tls.Config
	drain              *drain
	started            atomic.Bool
}

func newServer(address string, config *tls.Config, end *drain) *server {
	mux := http.NewServeMux()
	return &server{Server: ctrlwebhook.NewServer(ctrlwebhook.Options{WebhookMux: mux}), mux: mux, address: address, tls: config, drain: end}
}

// WebhookMux has the handlers that were registered.
func (s *server) WebhookMux() *http.ServeMux { return s.mux }

// Start serves until the context ends, and until what was under way then is answered.
func (s *server) Start(ctx context.Context) error {
	listener, err := tls.Listen("tcp", s.address, s.tls)
	if err != nil {
		return fmt.Errorf("listen for API servers: %w", err)
	}
	return s.serve(ctx, listener)
}

func (s *server) serve(ctx context.Context, listener net.Listener) error {
	srv := &http.Server{
		Handler: s.drain.handler(s.mux), BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		IdleTimeout: idleFor, ReadHeaderTimeout: headerWithin, MaxHeaderBytes: 1 << 20,
	}
	ended := make(chan error, 1)
	defer context.AfterFunc(ctx, func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastRequests)
		defer cancel()
		ended <- srv.Shutdown(end)
	})()
	s.started.Store(true)
	if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve API servers: %w", err)
	}
	if err := <-ended; err != nil {
		return fmt.Errorf("answer the last requests: %w", err)
	}
	return nil
}

// StartedChecker fails where the server does not answer.
func (s *server) StartedChecker() healthz.Checker {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // it sends nothing, and the certificate has a check of its own
	return func(r *http.Request) error {
		if !s.started.Load() {
			return errors.New("the webhook's server has not started yet")
		}
		conn, err := dialer.DialContext(r.Context(), "tcp", s.address)
		if err != nil {
			return fmt.Errorf("reach the webhook's server: %w", err)
		}
		return conn.Close()
	}
}
