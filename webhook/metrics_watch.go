package webhook

import (
	"context"
	"errors"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
)

// NewWatchErrorHandler registers a count of the lists and watches that fail, and returns what counts them and logs as client-go does.
// It is for sigs.k8s.io/controller-runtime/pkg/cache.Options. client-go has metrics of reflectors no more.
func NewWatchErrorHandler(registry prometheus.Registerer) cache.WatchErrorHandlerWithContext {
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "podgrace_webhook_watch_failures_total", Help: "Lists and watches of the API server that failed, by the type as the log names it. While they fail this replica decides by what it knew before.",
	}, []string{"type"})
	registry.MustRegister(failures)
	return func(ctx context.Context, r *cache.Reflector, err error) {
		cache.DefaultWatchErrorHandler(ctx, r, err)
		if !ordinaryEnd(err) {
			failures.WithLabelValues(r.TypeDescription()).Inc()
		}
	}
}

// ordinaryEnd is how every watch ends now and then: by the server's timeout, with the server, or because its past is compacted.
func ordinaryEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}
