package main

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
)

// drain ends a replica so that no request is lost. API servers keep connections open for the next request, and a server that
// shuts down closes those that are idle: a request that is on its way then ends with EOF, which is a refused delete. So after
// the signal it goes on serving for a while, and asks with each response that the connection be closed: the next request comes
// over a new one, to another replica. (A POST is not sent again by Go's client, net/http/transport.go shouldRetryRequest, 1.26,
// nor does an API server after EOF, k8s.io/apiserver/pkg/util/webhook/webhook.go DefaultShouldRetry, 0.36.3.)
type drain struct{ begun atomic.Bool }

// after is a context that ends some time after ctx, or when it is cancelled. The drain begins when ctx ends.
func (d *drain) after(ctx context.Context, delay time.Duration) (later context.Context, cancel context.CancelFunc) {
	later, cancel = context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		d.begun.Store(true)
		time.AfterFunc(delay, cancel)
	})
	return later, cancel
}

func (d *drain) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.begun.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
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
