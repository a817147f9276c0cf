package lookup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Readiness reports whether this replica knows the cluster. It is a runnable of the manager: it starts the informers, waits
// for them, and turns ready.
type Readiness struct {
	Cache cache.Cache
	// Followed reports whether the stores that are kept by events (policies, nodes, exceptions) have synced.
	Followed func() bool

	ready atomic.Bool
}

// Ready is for Engine.
func (r *Readiness) Ready() bool { return r.ready.Load() && r.Followed() }

// Check is for /readyz.
func (r *Readiness) Check(*http.Request) error {
	if !r.Ready() {
		return errors.New("informers have not synced")
	}
	return nil
}

// Start waits for the informers.
func (r *Readiness) Start(ctx context.Context) error {
	for _, kind := range watched() {
		if _, err := r.Cache.GetInformer(ctx, kind); err != nil {
			return fmt.Errorf("start the informer for %s: %w", KindOf(kind), err)
		}
	}
	if !r.Cache.WaitForCacheSync(ctx) {
		return nil // told to stop
	}
	r.ready.Store(true)
	<-ctx.Done()
	return nil
}

// NeedLeaderElection is false: every replica answers.
func (r *Readiness) NeedLeaderElection() bool { return false }

// NewWatchErrorHandler registers a counter of failed lists and watches, and returns the handler for cache.Options (DefaultWatchErrorHandler) that counts them and logs as client-go
// does, which has no metrics of reflectors any more.
func NewWatchErrorHandler(registry prometheus.Registerer) toolscache.WatchErrorHandlerWithContext {
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "podgrace_webhook_watch_failures_total", Help: "Failed lists and watches of the API server, by the type as the log names it. While they fail this replica decides by stale informers.",
	}, []string{"type"})
	registry.MustRegister(failures)
	return func(ctx context.Context, r *toolscache.Reflector, err error) {
		toolscache.DefaultWatchErrorHandler(ctx, r, err)
		if !ordinaryEnd(err) {
			failures.WithLabelValues(r.TypeDescription()).Inc()
		}
	}
}

// ordinaryEnd reports whether an error is how every watch ends now and then: by the server's timeout, with the server, or because its resource version was
// compacted.
func ordinaryEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}
