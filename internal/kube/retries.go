package kube

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// longestRetry is how long a controller waits at most before it tries again what has failed.
const longestRetry = 10 * time.Second

// Retries returns when a controller reconciles an object again that failed: later after each failure, but within ten seconds. The default of client-go is up to 1000 s
// (DefaultTypedControllerRateLimiter in util/workqueue/default_rate_limiters.go, 0.36.3), so that a controller could wait for as long again as the API server was away.
func Retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, longestRetry)
}
