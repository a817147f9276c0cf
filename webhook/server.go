package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// The paths that the API server calls.
const (
	PathMutatePods        = "/mutate-pods"
	PathValidatePods      = "/validate-pods"
	PathValidateWorkloads = "/validate-workloads"
	PathValidateRemoval   = "/validate-removal"
	PathValidatePolicies  = "/validate-policies"
	PathValidatePodGroups = "/validate-pod-groups"
	PathMutateEvictions   = "/mutate-evictions"
	PathMutateNodes       = "/mutate-nodes"
	PathAnswers           = "/answers"
)

// Handlers by the paths that the API server calls.
func (e *Engine) Handlers() map[string]Handler {
	return map[string]Handler{
		PathMutatePods:        e.MutatePods,
		PathValidatePods:      e.ValidatePods,
		PathValidateWorkloads: e.ValidateWorkloads,
		PathValidateRemoval:   e.ValidateRemoval,
		PathValidatePolicies:  e.ValidatePolicies,
		PathValidatePodGroups: e.ValidatePodGroups,
		PathMutateEvictions:   e.MutateEvictions,
		PathMutateNodes:       e.MutateNodes,
	}
}

// Register puts the handlers on a server.
func (e *Engine) Register(mux interface {
	Register(path string, hook http.Handler)
}) {
	bounds := newBounds()
	register := func(path string, handler admission.Handler) {
		mux.Register(path, &intake{path: path, hook: &admission.Webhook{Handler: handler, LogConstructor: logAs(path)}, bounds: bounds, metrics: e.Metrics})
	}
	for path, handler := range e.Handlers() {
		register(path, handler)
	}
	register(PathAnswers, admission.HandlerFunc(e.Answers))
}

// logAs returns a log constructor that adds the path and no values of the request: controller-runtime calls it three times a request, so that the logger is made
// only once.
func logAs(path string) func(logr.Logger, *admission.Request) logr.Logger {
	var once sync.Once
	var named logr.Logger
	return func(base logr.Logger, _ *admission.Request) logr.Logger {
		once.Do(func() { named = base.WithValues("path", path) }) // the server's base is always the same
		return named
	}
}

// Readiness says whether this replica knows the cluster. It is a runnable of the manager: it starts the informers, waits
// for them, and turns ready.
type Readiness struct {
	Cache cache.Cache
	// Followed says whether the stores that are kept by events (policies, nodes, exceptions) have synced.
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
