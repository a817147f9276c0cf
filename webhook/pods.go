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

// MutatePods answers /mutate-pods.
func (e *Engine) MutatePods(ctx context.Context, req admission.Request) admission.Response {
	return e.pods(ctx, req, PathMutatePods, "defaults were not applied to this pod", (*defaulting.Effective).Apply)
}

// ValidatePods answers /validate-pods.
func (e *Engine) ValidatePods(ctx context.Context, req admission.Request) admission.Response {
	return e.pods(ctx, req, PathValidatePods, "this pod was not checked", (*defaulting.Effective).Validate)
}

func (e *Engine) pods(ctx context.Context, req admission.Request, path, otherwise string, decide func(*defaulting.Effective, policy.Request, defaulting.Facts) defaulting.Result) admission.Response {
	pod, response := decodePod(req)
	if pod == nil {
		return response
	}
	if !e.Ready() {
		return e.missed(path, otherwise, errNotReady)
	}
	request := policy.Request{Pod: pod, Namespace: e.Lookup.Namespace(ctx, req.Namespace), User: req.UserInfo, DryRun: ptr.Deref(req.DryRun, false)}
	effective := defaulting.For(e.Policies.Policies(), request, e.Namespace)
	facts, err := e.Lookup.Facts(ctx, effective.Needs(), req.Namespace, pod)
	if err != nil {
		return e.missed(path, otherwise, err)
	}
	result := decide(effective, request, facts)
	e.Metrics.decided(req, result)
	if path == PathValidatePods { // once a pod
		e.Metrics.except(req, result)
	}
	return answer(result)
}

// decodePod returns the pod of a request that is for us, or the answer to one that is not.
func decodePod(req admission.Request) (*corev1.Pod, admission.Response) {
	if req.Kind.Group != "" || req.Kind.Kind != "Pod" {
		return nil, badRequest("this path is for pods, the request is for %s: check the rules of the webhook configuration", gvk(req))
	}
	if req.Operation != admissionv1.Create || req.SubResource != "" {
		// Changing a pod later would be refused by the API server, and on pods/ephemeralcontainers and pods/resize discarded.
		return nil, admission.Allowed("").WithWarnings("podgrace: pods are decided at creation only: check the rules of the webhook configuration")
	}
	var pod corev1.Pod
	if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &pod); err != nil {
		return nil, badRequest("decode the pod: %w", err)
	}
	return &pod, admission.Response{}
}

func gvk(req admission.Request) string {
	if req.Kind.Kind == "" {
		return "no kind: is this an AdmissionReview?"
	}
	return fmt.Sprintf("%s/%s %s", req.Kind.Group, req.Kind.Version, req.Kind.Kind)
}
