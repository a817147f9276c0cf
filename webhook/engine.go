package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// errNotReady is the answer while the informers have not synced.
var errNotReady = errors.New("this replica has just started and does not know the cluster yet")

// Engine is what the handlers have in common.
type Engine struct {
	// Policies in force.
	Policies interface{ Policies() policy.Policies }
	// LivePolicies reads them from the API server. nil: they are from files, and never stale.
	LivePolicies func(context.Context) (policy.Policies, error)
	// Lookup of the facts.
	Lookup *lookup.Lookup
	// Ready reports whether policies and informers have synced.
	Ready func() bool
	// Exempt are the namespaces that no policy is for.
	Exempt policy.Exempt
	// Offline: this is a review of files. A request whose facts can't be read is then refused, also where it would be allowed in a cluster so that nothing
	// is held up.
	Offline bool
	// Later: the pod that is reviewed offline is created at another time than now, or is there already.
	Later bool
	// Holds records since when Nodes have had finalizers. nil: they always had them, as offline, where nothing changes during a review.
	Holds *lookup.Holds
	// Events may be nil.
	Events *Events
	// Metrics may be nil.
	Metrics *Metrics
	// Decisions logs them; nil: nobody does.
	Decisions *Decisions
	// Clock tells how long a node has been silent. nil: the real one.
	Clock clock.PassiveClock
}

// Now is the time by the clock.
func (e *Engine) Now() time.Time {
	if e.Clock == nil {
		return time.Now()
	}
	return e.Clock.Now()
}

// missed lets a request go that could not be judged, counts it and says so.
func (e *Engine) missed(path, what string, err error) Decision {
	e.Metrics.miss(path)
	var d Decision
	d.warn(becauseMissed, fmt.Sprintf("podgrace: %s: %v", what, err))
	return d
}

// misdirected is for what no API server sends by our webhook configuration.
func misdirected(what string, req admission.Request) error {
	kind := fmt.Sprintf("%s/%s %s", req.Kind.Group, req.Kind.Version, req.Kind.Kind)
	if req.Kind.Kind == "" {
		kind = "no kind: is this an AdmissionReview?"
	}
	return fmt.Errorf("this path is for %s, the request is for %s: check the rules of the webhook configuration", what, kind)
}
