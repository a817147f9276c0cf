package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
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
	Lookup *Lookup
	// Ready says whether policies and informers have synced.
	Ready func() bool
	// Namespace that Podgrace itself runs in; its pods are left alone. Empty: none.
	Namespace string
	// Offline: this is a review of files. A request whose facts can't be read is then refused, also where it would be allowed in a cluster so that nothing
	// is held up.
	Offline bool
	// Fences returns receipts of fences. nil: there is no fencing.
	Fences Fences
	// Holds records since when Nodes have had finalizers. nil: they always had them, as offline, where nothing changes during a review.
	Holds *Holds
	// Events may be nil.
	Events *Events
	// Metrics may be nil.
	Metrics *Metrics
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

// MutatePods decides about /mutate-pods.
func (e *Engine) MutatePods(ctx context.Context, req admission.Request) (Decision, error) {
	return e.pods(ctx, req, PathMutatePods, "defaults were not applied to this pod", (*defaulting.Effective).Apply)
}

// ValidatePods decides about /validate-pods.
func (e *Engine) ValidatePods(ctx context.Context, req admission.Request) (Decision, error) {
	d, err := e.pods(ctx, req, PathValidatePods, "this pod was not checked", (*defaulting.Effective).Validate)
	e.Metrics.except(req, d.Result) // once a pod
	return d, err
}

func (e *Engine) pods(ctx context.Context, req admission.Request, path, otherwise string, decide func(*defaulting.Effective, policy.Request, defaulting.Facts) defaulting.Result) (d Decision, err error) {
	if req.Kind.Group != "" || req.Kind.Kind != "Pod" {
		return d, misdirected("pods", req)
	}
	if req.Operation != admissionv1.Create || req.SubResource != "" {
		// Changing a pod later would be refused by the API server, and on pods/ephemeralcontainers and pods/resize discarded.
		d.warn(becauseMisdirected, "podgrace: pods are decided at creation only: check the rules of the webhook configuration")
		return d, nil
	}
	pod, err := decodePod(req)
	if err != nil {
		return d, err
	}
	if !e.Ready() {
		return e.missed(path, otherwise, errNotReady), nil
	}
	request := policy.Request{Pod: pod, Namespace: e.Lookup.Namespace(ctx, req.Namespace), User: req.UserInfo, DryRun: ptr.Deref(req.DryRun, false)}
	effective := defaulting.For(e.Policies.Policies(), request, e.Namespace)
	facts, err := e.Lookup.Facts(ctx, effective.Needs(), req.Namespace, pod)
	if err != nil {
		return e.missed(path, otherwise, err), nil
	}
	d.Result = decide(effective, request, facts)
	e.Metrics.decided(req, d.Result)
	return d, nil
}

func decodePod(req admission.Request) (*corev1.Pod, error) {
	var pod corev1.Pod
	if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &pod); err != nil {
		return nil, fmt.Errorf("decode the pod: %w", err)
	}
	return &pod, nil
}

// misdirected is for what no API server sends by our webhook configuration.
func misdirected(what string, req admission.Request) error {
	kind := fmt.Sprintf("%s/%s %s", req.Kind.Group, req.Kind.Version, req.Kind.Kind)
	if req.Kind.Kind == "" {
		kind = "no kind: is this an AdmissionReview?"
	}
	return fmt.Errorf("this path is for %s, the request is for %s: check the rules of the webhook configuration", what, kind)
}
