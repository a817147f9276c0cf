package webhook

import (
	"context"
	"errors"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
)

// NewWatchErrorHandler registers a counter of failed lists and watches, and returns the handler for cache.Options that counts them and logs as client-go
// does, which has no metrics of reflectors any more.
func NewWatchErrorHandler(registry prometheus.Registerer) cache.WatchErrorHandlerWithContext {
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "podgrace_webhook_watch_failures_total", Help: "Failed lists and watches of the API server, by the type as the log names it. While they fail this replica decides by stale informers.",
	}, []string{"type"})
	registry.MustRegister(failures)
	return func(ctx context.Context, r *cache.Reflector, err error) {
		cache.DefaultWatchErrorHandler(ctx, r, err)
		if !ordinaryEnd(err) {
			failures.WithLabelValues(r.TypeDescription()).Inc()
		}
	}
}

// ordinaryEnd says whether an error is how every watch ends now and then: by the server's timeout, with the server, or because its resource version was
// compacted.
func ordinaryEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}
