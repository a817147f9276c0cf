package main

import (
	"context"
	"net/http"
	"time"

	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
)

// drain ends a replica so that no request is lost. API servers keep connections open for the next request, and a server that
// shuts down closes those that are idle: a request that is on its way then ends with EOF, which is a refused delete. So after
// the signal it goes on serving for a while, and asks with each response that the connection be closed: the next request comes
// over a new one, to another replica. (A POST is not sent again by Go's client, net/http/transport.go shouldRetryRequest, 1.26,
// nor does an API server after EOF, k8s.io/apiserver/pkg/util/webhook/webhook.go DefaultShouldRetry, 0.36.3.)
//
// A server that shuts down also cancels the contexts of the requests under way (sigs.k8s.io/controller-runtime/pkg/internal/httpserver,
// 0.24.1, has the manager's as their base): what they still read of the API server would fail, and what is not known is refused.
// From the signal on they are bound by their own timeouts alone.
type drain struct{ begun chan struct{} }

func newDrain() *drain { return &drain{begun: make(chan struct{})} }

func (d *drain) hasBegun() bool {
	select {
	case <-d.begun:
		return true
	default:
		return false
	}
}

// after is a context that ends some time after ctx, or when it is cancelled. The drain begins when ctx ends.
func (d *drain) after(ctx context.Context, delay time.Duration) (later context.Context, cancel context.CancelFunc) {
	later, cancel = context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		close(d.begun)
		time.AfterFunc(delay, cancel)
	})
	return later, cancel
}

func (d *drain) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.hasBegun() {
			w.Header().Set("Connection", "close")
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
		defer cancel()
		defer context.AfterFunc(r.Context(), func() {
			if !d.hasBegun() { // it is the caller that is gone
				cancel()
			}
		})()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// drained is a server whose handlers drain.
type drained struct {
	ctrlwebhook.Server
	drain *drain
}

// Register is for webhook.Engine.
func (s drained) Register(path string, handler http.Handler) {
	s.Server.Register(path, s.drain.handler(handler))
}
