package main

import (
	"context"
	"net/http"
	"time"
)

// drain ends a replica so that no request is lost. API servers keep connections open for the next request, and a server that
// shuts down closes those that are idle: a request that is on its way then ends with EOF, which is a refused delete. So after
// the signal it goes on serving for a while, and asks with each response that the connection be closed: the next request comes
// over a new one, to another replica. (A POST is not sent again by Go's client, net/http/transport.go shouldRetryRequest, 1.26,
// nor does an API server after EOF, k8s.io/apiserver/pkg/util/webhook/webhook.go DefaultShouldRetry, 0.36.3.)
//
// One road remains: a connection that was not used in all that time is closed in the end, and a request that is sent over it in that very moment is lost. API servers close theirs
// after 90 s without use; to wait for that would hold up each drain of a node for as long.
//
// Nodes that have not heard of the end yet send new connections meanwhile. That is why nothing else delays the end, such as a preStop hook: in its time nobody would be asked to close.
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
		next.ServeHTTP(w, r)
	})
}
