package kube

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// longestRetry is how long a controller waits at most before it tries again what has failed.
const longestRetry = 10 * time.Second

// Retrying returns the options of a controller that reconciles so many objects at once. It waits longer after each failure, but for ten seconds at most. The default of client-go is 1000 s
// (DefaultTypedControllerRateLimiter in util/workqueue/default_rate_limiters.go, 0.36.3), so that a controller could wait for as long again as the API server was away.
func Retrying(concurrent int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: concurrent,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, longestRetry),
	}
}
