package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/graceperiod"
	"github.com/podgrace/podgrace/guard"
)

// ValidateRemoval answers /validate-removal: requests on a road by which Kubernetes can be made to believe that a pod is gone. It
// fails closed: a request that can't be judged is refused, with the reason.
func (e *Engine) ValidateRemoval(ctx context.Context, req admission.Request) admission.Response {
	r, err := e.removalRequest(ctx, req)
	if err != nil {
		return unjudged(err)
	}
	if r == nil {
		return admission.Allowed("")
	}
	d, _, err := e.judge(ctx, r)
	if err != nil {
		return unjudged(err)
	}
	return e.answerRemoval(req, *r, d)
}

// MutateEvictions answers /mutate-evictions. An eviction that would be refused gets a grace period instead where the policy says so (guard.Raise). An
// eviction with grace period 0 that does not is left to ValidateRemoval. Any other (of a drain, for instance) is judged here alone, so that it costs one call: it
// has to be judged, because the pod's own grace period may be 0, or a force delete of it may have begun, which takes a read of the pod.
func (e *Engine) MutateEvictions(ctx context.Context, req admission.Request) admission.Response {
	r, err := e.removalRequest(ctx, req)
	if r == nil || r.Road != guard.RoadEviction {
		return admission.Allowed("") // the validating webhook says what is wrong
	}
	plain := r.GracePeriodSeconds == nil || *r.GracePeriodSeconds != 0
	if err != nil {
		return e.unreadEviction(plain, err)
	}
	d, facts, err := e.judge(ctx, r)
	seconds, raised := guard.Raise(*r, facts, d)
	switch {
	case raised:
		return raiseEviction(req, r.Pod, seconds)
	case !plain:
		if err != nil {
			return admission.Allowed("") // as above
		}
		return admission.Patched("", ofThisPod(req, *r, d, e.Now())...)
	case err != nil:
		return unjudged(err)
	}
	response := e.answerRemoval(req, *r, d)
	response.Patches = ofThisPod(req, *r, d, e.Now())
	return response
}

// ofThisPod keeps an eviction that removes a pod at once to the pod that was judged. The API server reads the pod after it has asked us, by its name, and
// another may have that by then; or it is the same, and was bound to a node meanwhile (pkg/registry/core/pod/storage/eviction.go, 1.36.3). What is
// refused, only warned about by the policies, not guarded or not judged stays as it is.
func ofThisPod(req admission.Request, r guard.Request, d guard.Decision, now time.Time) []jsonpatch.Operation {
	var eviction policyv1.Eviction
	if d.Verdict == guard.Deny || d.Reason == guard.Unsafe || d.Reason == guard.NotGuarded || d.Reason == guard.AllowedActor || !graceperiod.Delete(r.Pod, r.GracePeriodSeconds, now).Force || json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &eviction) != nil {
		return nil
	}
	only := &metav1.Preconditions{}
	if have := eviction.DeleteOptions; have != nil && have.Preconditions != nil {
		only = have.Preconditions.DeepCopy()
	}
	was := *only
	if only.UID == nil {
		only.UID = &r.Pod.UID
	}
	if only.ResourceVersion == nil && r.Pod.Spec.NodeName == "" {
		only.ResourceVersion = &r.Pod.ResourceVersion
	}
	if *only == was || r.Pod.UID == "" {
		return nil
	}
	if eviction.DeleteOptions == nil {
		return []jsonpatch.Operation{{Operation: "add", Path: "/deleteOptions", Value: map[string]any{"preconditions": only}}}
	}
	return []jsonpatch.Operation{{Operation: "add", Path: "/deleteOptions/preconditions", Value: only}}
}

// unreadEviction answers an eviction whose pod could not be read. If the pod does not exist the API server itself says so. Otherwise a plain eviction (without grace
// period 0) is allowed, as while the webhook is away: it would remove hardly any pod at once, and a failed read must not stop drains. Offline it is
// refused, since no drain waits there.
func (e *Engine) unreadEviction(plain bool, err error) admission.Response {
	switch {
	case !plain || !errors.Is(err, errLookup) || apierrors.IsNotFound(err):
		return admission.Allowed("")
	case e.Offline:
		return unjudged(err)
	}
	return e.missed(PathMutateEvictions, "this eviction was not judged", err)
}

func raiseEviction(req admission.Request, pod *corev1.Pod, grace int64) admission.Response {
	var eviction policyv1.Eviction
	if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &eviction); err != nil {
		return admission.Allowed("")
	}
	patch := jsonpatch.Operation{Operation: "add", Path: "/deleteOptions/gracePeriodSeconds", Value: grace}
	if eviction.DeleteOptions == nil {
		patch = jsonpatch.Operation{Operation: "add", Path: "/deleteOptions", Value: map[string]int64{"gracePeriodSeconds": grace}}
	}
	whose := ""
	if grace == graceperiod.Of(&pod.Spec) {
		whose = "its own "
	}
	response := admission.Patched("", patch)
	return response.WithWarnings(string(defaulting.Shorten(fmt.Sprintf("eviction of pod %s/%s: a grace period of 0 was raised to %s%d s, because it is protected", pod.Namespace, pod.Name, whose, grace))))
}

// MutateNodes answers /mutate-nodes: the out-of-service taint of an allowed actor, a fencing operator for instance, is its word that the node is
// off. So it gets the confirmation with it, without which its volumes would be detached and its pods stay: the pod garbage collection that
// follows is not the actor's any more. The API server then asks whether the actor may confirm (confirm-off.podgrace.dev).
func (e *Engine) MutateNodes(ctx context.Context, req admission.Request) admission.Response {
	r, err := e.removalRequest(ctx, req)
	if err != nil || r == nil || r.Road != guard.RoadOutOfService || req.Operation != admissionv1.Update || !e.Ready() {
		return admission.Allowed("")
	}
	ctx, cancel := context.WithTimeout(ctx, factsTimeout)
	defer cancel()
	var facts guard.Facts
	e.currentPolicies(ctx, &facts, r)
	if !slices.Contains(facts.Policy.ActorsOfAll(), req.UserInfo.Username) {
		return admission.Allowed("") // it is judged, and needs a confirmation
	}
	lease, err := e.Lookup.lease(ctx, r.Node.Name)
	if err != nil || guard.NodeOf(r.Node, lease, e.Now()).Ready {
		return admission.Allowed("") // one that is ready can't be confirmed
	}
	return confirmOff(req, guard.ConfirmOff(r.Node, lease))
}

// confirmOff writes a confirmation into the Node of a request, if it is not there already.
func confirmOff(req admission.Request, text string) admission.Response {
	var node metav1.PartialObjectMetadata
	if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &node); err != nil || node.Annotations[guard.AnnotationConfirmOff] == text {
		return admission.Allowed("")
	}
	patch := jsonpatch.Operation{Operation: "add", Path: "/metadata/annotations/" + strings.ReplaceAll(guard.AnnotationConfirmOff, "/", "~1"), Value: text}
	if node.Annotations == nil {
		patch = jsonpatch.Operation{Operation: "add", Path: "/metadata/annotations", Value: map[string]string{guard.AnnotationConfirmOff: text}}
	}
	return admission.Patched("", patch)
}

// judge decides about a removal. Facts are looked up only if the decision takes any, so that an ordinary eviction costs no more than the read of its pod.
func (e *Engine) judge(ctx context.Context, r *guard.Request) (guard.Decision, guard.Facts, error) {
	if d := guard.ByItself(*r, e.Now()); d != nil {
		return *d, guard.Facts{}, nil
	}
	if !e.Ready() {
		return guard.Decision{}, guard.Facts{}, fmt.Errorf("this removal can't be judged: %w; try again", errNotReady)
	}
	facts := e.RemovalFacts(ctx, r)
	return guard.Decide(*r, facts), facts, nil
}

// answerRemoval makes a response of a decision, and reports it in metrics and Events.
func (e *Engine) answerRemoval(req admission.Request, r guard.Request, d guard.Decision) admission.Response {
	e.Metrics.removal(req, r.Road, d)
	e.Events.removal(req, r, d)
	return removalAnswer(r, d)
}

// unjudged refuses a removal that can't be judged.
func unjudged(err error) admission.Response {
	switch {
	case apierrors.IsNotFound(err): // kubectl drain takes it for done
		return admission.Errored(http.StatusNotFound, err)
	case errors.Is(err, errLookup), errors.Is(err, errNotReady):
		return admission.Errored(http.StatusServiceUnavailable, err)
	}
	return badRequest("%w", err)
}

// removalRequest finds the road that a request is on; nil: it is on none, and removes nothing.
func (e *Engine) removalRequest(ctx context.Context, req admission.Request) (*guard.Request, error) {
	r := &guard.Request{User: req.UserInfo}
	what := fmt.Sprintf("%s %s/%s", req.Operation, req.Resource.Resource, req.SubResource)
	switch what {
	case "DELETE pods/":
		r.Road = guard.RoadDelete
		return r, errors.Join(decodeOld(req, &r.Pod), decodeOptions(req, &r.GracePeriodSeconds))
	case "CREATE pods/eviction":
		r.Road = guard.RoadEviction
		return r, e.decodeEviction(ctx, req, r)
	case "UPDATE pods/", "UPDATE pods/status", "UPDATE pods/ephemeralcontainers", "UPDATE pods/resize":
		return updateRequest(req, r)
	case "DELETE nodes/":
		r.Road = guard.RoadNode
		if err := decodeNode(req.OldObject.Raw, "old object", &r.Node); err != nil {
			return nil, err
		}
		r.HeldFrom = e.heldFrom(ctx, r.Node)
		return r, nil
	case "CREATE nodes/":
		r.Road = guard.RoadOutOfService
		if err := decodeNode(req.Object.Raw, "object", &r.Node); err != nil {
			return nil, err
		}
		if !outOfService(r.Node) {
			return nil, nil
		}
		return r, nil
	case "UPDATE nodes/", "UPDATE nodes/status":
		return nodeUpdate(req, r)
	case "DELETE volumeattachments/":
		r.Road = guard.RoadVolumeAttachment
		var attachment *storagev1.VolumeAttachment
		err := decodeOld(req, &attachment)
		r.VolumeAttachment = attachment
		return r, err
	}
	return nil, fmt.Errorf("%s is no removal that Podgrace judges: check the rules of the webhook configuration", what)
}

// nodeUpdate finds the road that an update of a node is on.
func nodeUpdate(req admission.Request, r *guard.Request) (*guard.Request, error) {
	var now *corev1.Node
	if err := errors.Join(decodeNode(req.OldObject.Raw, "old object", &r.Node), decodeNew(req, &now)); err != nil {
		return nil, err
	}
	switch {
	case r.Node.DeletionTimestamp != nil && len(now.Finalizers) == 0:
		r.Road = guard.RoadNode
	case outOfService(now) && !outOfService(r.Node):
		r.Road = guard.RoadOutOfService
	default:
		return nil, nil
	}
	return r, nil
}

// updateRequest finds the road that an update of a pod is on.
func updateRequest(req admission.Request, r *guard.Request) (*guard.Request, error) {
	var now *corev1.Pod
	if err := errors.Join(decodeOld(req, &r.Pod), decodeNew(req, &now)); err != nil {
		return nil, err
	}
	ends := &corev1.Pod{Status: now.Status}
	switch {
	case req.SubResource == "status" && graceperiod.Finished(ends) && !graceperiod.Finished(r.Pod):
		r.Road, r.Phase = guard.RoadStatus, now.Status.Phase
	case len(now.Finalizers) == 0 && r.Pod.DeletionTimestamp != nil:
		r.Road = guard.RoadFinalizer
		// The confirmation may be what the update writes: it completes the removal that it is about.
		if confirmation, ok := now.Annotations[guard.AnnotationConfirmForceDelete]; ok {
			metav1.SetMetaDataAnnotation(&r.Pod.ObjectMeta, guard.AnnotationConfirmForceDelete, confirmation)
		}
	default:
		return nil, nil
	}
	return r, nil
}

func outOfService(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// errLookup is wrapped where the pod of an eviction, which the review does not have, could not be read.
var errLookup = errors.New("look up the pod of the eviction")

// decodeEviction reads the options of the eviction (policy/v1 and v1beta1 have the same fields) and looks the pod up: the
// review does not have it.
func (e *Engine) decodeEviction(ctx context.Context, req admission.Request, r *guard.Request) error {
	var eviction policyv1.Eviction
	if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &eviction); err != nil {
		return fmt.Errorf("decode the eviction: %w", err)
	}
	if eviction.DeleteOptions != nil {
		r.GracePeriodSeconds = eviction.DeleteOptions.GracePeriodSeconds
	}
	pod, err := e.Lookup.pod(ctx, req.Namespace, req.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", errLookup, err)
	}
	r.Pod = pod
	return nil
}

func decodeOld[T any](req admission.Request, into **T) error {
	return decode(req.OldObject.Raw, "old object", into)
}

// decodeNode decodes the node of a request. It must have a name, by which its pods are found.
func decodeNode(raw []byte, what string, node **corev1.Node) error {
	if err := decode(raw, what, node); err != nil {
		return err
	}
	if (*node).Name == "" {
		return fmt.Errorf("the review does not say which node it is about: its %s has no name", what)
	}
	return nil
}

func decodeNew[T any](req admission.Request, into **T) error {
	return decode(req.Object.Raw, "object", into)
}

func decode[T any](raw []byte, what string, into **T) error {
	*into = new(T)
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, *into); err != nil {
		return fmt.Errorf("decode the %s: %w", what, err)
	}
	return nil
}

func decodeOptions(req admission.Request, grace **int64) error {
	if len(req.Options.Raw) == 0 {
		return nil
	}
	var options metav1.DeleteOptions
	if err := json.UnmarshalCaseSensitivePreserveInts(req.Options.Raw, &options); err != nil {
		return fmt.Errorf("decode the options: %w", err)
	}
	*grace = options.GracePeriodSeconds
	return nil
}

func removalAnswer(r guard.Request, d guard.Decision) admission.Response {
	response := admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Allowed:          d.Verdict != guard.Deny,
		AuditAnnotations: map[string]string{"removal": string(r.Road), "verdict": string(d.Verdict), "reason": d.Reason.Code},
	}}
	switch d.Verdict {
	case guard.Deny:
		response.Result = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReason(d.Reason.Code), Message: d.Message}
	case guard.Warn:
		response.Warnings = warnings(d.Message)
	case guard.Allow:
	}
	return response
}

// warnings splits a message into what may happen and what to do, in as many warnings as it takes: the API server truncates long ones.
func warnings(message string) []string {
	var all []string
	what, ways, told := strings.Cut(message, guard.WaysOn)
	if told {
		ways = strings.TrimPrefix(guard.WaysOn, ". ") + ways
		what += "."
	}
	for _, part := range []string{what, ways} {
		for part != "" {
			fits := part
			if len(part) > defaulting.MaxWarning {
				if end := strings.LastIndex(part[:defaulting.MaxWarning], "; "); end > 0 {
					fits = part[:end+len("; ")]
				}
			}
			part = part[len(fits):]
			all = append(all, string(defaulting.Shorten(strings.TrimSpace(fits))))
		}
	}
	return all
}
