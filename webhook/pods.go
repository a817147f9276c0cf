package webhook

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
)

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
	d.Pod = pod
	if !e.Ready() {
		return e.missed(path, otherwise, errNotReady), nil
	}
	request := policy.Request{Pod: pod, Namespace: e.Lookup.Namespace(ctx, req.Namespace), User: req.UserInfo, DryRun: ptr.Deref(req.DryRun, false)}
	effective := defaulting.For(e.Policies.Policies(), request, e.Exempt)
	facts, err := e.Lookup.Facts(ctx, effective.Needs(), req.Namespace, pod)
	if err != nil {
		return e.missed(path, otherwise, err), nil
	}
	facts.Told = e.Offline || metav1.GetControllerOfNoCopy(pod) == nil
	facts.Later = e.Later
	d.Result = decide(effective, request, facts)
	e.Metrics.decided(req, d.Result)
	return d, nil
}

// decodePod returns the pod of a request. The intake has decoded it already (intake.PodHandler); a review of files has not.
func decodePod(req admission.Request) (*corev1.Pod, error) {
	if pod, ok := req.Object.Object.(*corev1.Pod); ok {
		return pod, nil
	}
	var pod corev1.Pod
	if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &pod); err != nil {
		return nil, fmt.Errorf("decode the pod: %w", err)
	}
	return &pod, nil
}
