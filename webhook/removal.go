package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/fieldpath"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// ValidateRemoval decides about /validate-removal: requests on a road by which Kubernetes can be made to believe that a pod is gone. It
// fails closed: a request that can't be judged is refused, with the reason.
func (e *Engine) ValidateRemoval(ctx context.Context, req admission.Request) (Decision, error) {
	r, err := e.removalRequest(ctx, req)
	if r == nil || err != nil {
		return Decision{}, err
	}
	removal, err := e.judge(ctx, r)
	if err != nil {
		return Decision{}, err
	}
	return e.tell(req, removal), nil
}

// ValidateOpenRemoval decides about /validate-open-removal: the same requests where nothing fails closed. Policies that warn judge here, and policies that deny
// in a namespace that the leader has not seen yet. A request that can't be judged passes with a warning.
func (e *Engine) ValidateOpenRemoval(ctx context.Context, req admission.Request) (Decision, error) {
	r, err := e.removalRequest(ctx, req)
	if r == nil && err == nil {
		return Decision{}, nil
	}
	var removal Removal
	if err == nil {
		removal, err = e.judgeOpen(ctx, r)
	}
	if err != nil {
		if e.Offline {
			return Decision{}, err
		}
		return e.missed(PathOpenRemoval, "this removal was not judged", err), nil
	}
	return e.tell(req, removal), nil
}

// errPolicies is the error of a removal that would be refused only because the policies could not be read.
var errPolicies = errors.New("the policies could not be read")

// judgeOpen is judge where nothing fails closed: unread policies refuse nothing.
func (e *Engine) judgeOpen(ctx context.Context, r *guard.Request) (Removal, error) {
	removal, err := e.judge(ctx, r)
	if err == nil && removal.Verdict == guard.Deny && removal.Policy.Unknown {
		err = errPolicies
	}
	return removal, err
}

// MutateEvictions decides about /mutate-evictions. An eviction that would be refused gets a grace period instead where the policy says so (guard.Raise).
// An eviction with grace period 0 that does not is left to ValidateRemoval. Any other (of a drain, for instance) is judged here alone, so that it costs one
// call: it has to be judged, because the pod's own grace period may be 0, or a force delete of it may have begun, which takes a read of the pod.
func (e *Engine) MutateEvictions(ctx context.Context, req admission.Request) (d Decision, err error) {
	r, err := e.removalRequest(ctx, req)
	if r == nil || r.Road != guard.RoadEviction {
		return d, nil // the validating webhook says what is wrong
	}
	plain := r.GracePeriodSeconds == nil || *r.GracePeriodSeconds != 0
	if err != nil {
		return e.unreadEviction(plain, err)
	}
	removal, err := e.judgeOpen(ctx, r)
	if err != nil {
		if plain && errors.Is(err, errNotReady) && e.guarding(ctx, &guard.Facts{}, r, e.Policies.Policies()).Denies() {
			return d, err
		}
		return e.unreadEviction(plain, err)
	}
	if seconds, raised := guard.Raise(*r, removal.Facts, removal.Decision); raised {
		return raiseEviction(req, r.Pod, seconds), nil
	}
	if plain {
		d = e.tell(req, removal)
	}
	ofThisPod(req, removal, e.Now(), &d)
	return d, nil
}

// ofThisPod keeps an eviction that removes a pod at once to the pod that was judged. The API server reads the pod after it has asked us, by its name, and
// another may have that by then; or it is the same, and was bound to a node meanwhile (pkg/registry/core/pod/storage/eviction.go, 1.36.3). What is
// refused, only warned about by the policies, not guarded or not judged stays as it is.
func ofThisPod(req admission.Request, r Removal, now time.Time, d *Decision) {
	var eviction policyv1.Eviction
	if r.Verdict == guard.Deny || r.Reason == guard.Unsafe || r.Reason == guard.NotGuarded || r.Reason == guard.AllowedActor || !graceperiod.Delete(r.Pod, r.GracePeriodSeconds, now).Force || json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &eviction) != nil {
		return
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
	switch {
	case *only == was || r.Pod.UID == "":
	case eviction.DeleteOptions == nil:
		d.change("/deleteOptions", map[string]any{"preconditions": only})
	default:
		d.change("/deleteOptions/preconditions", only)
	}
}

// unreadEviction decides about an eviction that can't be judged, such as one whose pod could not be read. If the pod does not exist the API server itself
// says so. Otherwise a plain eviction (without grace period 0) is allowed, as while the webhook is down: it would remove hardly any pod at once, and a failed
// read must not stop drains. Offline it is refused, since no drain waits there. One without a grace period is left to ValidateRemoval.
func (e *Engine) unreadEviction(plain bool, err error) (Decision, error) {
	unread := errors.Is(err, errLookup) || errors.Is(err, errNotReady) || errors.Is(err, errPolicies)
	switch {
	case !plain || !unread || apierrors.IsNotFound(err):
		return Decision{}, nil
	case e.Offline:
		return Decision{}, err
	}
	return e.missed(PathMutateEvictions, "this eviction was not judged", err), nil
}

func raiseEviction(req admission.Request, pod *corev1.Pod, grace int64) (d Decision) {
	var eviction policyv1.Eviction
	if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &eviction); err != nil {
		return d
	}
	if eviction.DeleteOptions == nil {
		d.change("/deleteOptions", map[string]int64{"gracePeriodSeconds": grace})
	} else {
		d.change("/deleteOptions/gracePeriodSeconds", grace)
	}
	whose := ""
	if grace == graceperiod.Of(&pod.Spec) {
		whose = "its own "
	}
	d.warn(becauseRaised, fmt.Sprintf("eviction of pod %s/%s: a grace period of 0 was raised to %s%d s, because it is protected", pod.Namespace, pod.Name, whose, grace))
	return d
}

// MutateNodes decides about /mutate-nodes: the out-of-service taint of an allowed actor, a fencing operator for instance, is its word that the node is
// off. So it gets the confirmation with it, without which its volumes would be detached and its pods stay: the pod garbage collection that
// follows is not the actor's any more. The API server then asks whether the actor may confirm (confirm-off.podgrace.dev).
func (e *Engine) MutateNodes(ctx context.Context, req admission.Request) (d Decision, err error) {
	r, err := e.removalRequest(ctx, req)
	if err != nil || r == nil || r.Road != guard.RoadOutOfService || req.Operation != admissionv1.Update || !e.Ready() {
		return d, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookup.Timeout)
	defer cancel()
	var facts guard.Facts
	e.currentPolicies(ctx, &facts, r)
	if !slices.Contains(facts.Policy.ActorsOfAll(), req.UserInfo.Username) {
		return d, nil // it is judged, and needs a confirmation
	}
	lease, err := e.Lookup.Lease(ctx, r.Node.Name)
	if err != nil || guard.NodeOf(r.Node, lease, e.Now()).Ready {
		return d, nil // one that is ready can't be confirmed
	}
	confirmOff(req, guard.ConfirmOff(r.Node, lease), &d)
	return d, nil
}

// confirmOff writes a confirmation into the Node of a request, if it is not there already.
func confirmOff(req admission.Request, text string, d *Decision) {
	var node metav1.PartialObjectMetadata
	if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &node); err != nil || node.Annotations[guard.AnnotationConfirmOff] == text {
		return
	}
	if node.Annotations == nil {
		d.change("/metadata/annotations", map[string]string{guard.AnnotationConfirmOff: text})
		return
	}
	d.change(fieldpath.Path{"metadata", "annotations", guard.AnnotationConfirmOff}.Pointer(), text)
}

// judge decides about a removal. Facts are looked up only if the decision takes any, so that an ordinary eviction costs no more than the read of its pod.
func (e *Engine) judge(ctx context.Context, r *guard.Request) (Removal, error) {
	removal := Removal{Request: *r}
	if d := guard.ByItself(*r, e.Now()); d != nil {
		removal.Decision = *d
		return removal, nil
	}
	if !e.Ready() {
		return removal, fmt.Errorf("this removal can't be judged: %w; try again", errNotReady)
	}
	removal.Facts = e.RemovalFacts(ctx, r)
	removal.Decision = guard.Decide(*r, removal.Facts)
	return removal, nil
}

// tell reports a removal that was judged in metrics and Events.
func (e *Engine) tell(req admission.Request, r Removal) Decision {
	e.Metrics.removal(req, r)
	e.Events.removal(req, r)
	return r.decision()
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

// heldFrom is from when on finalizers are sure to keep a Node that is deleted (guard.Request.HeldFrom); zero: it has none, and a DELETE removes it.
func (e *Engine) heldFrom(ctx context.Context, n *corev1.Node) time.Time {
	switch {
	case !lookup.IsHeld(n):
		return time.Time{}
	case e.Holds == nil:
		return e.Now()
	}
	return e.Holds.From(ctx, n)
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
	pod, err := e.Lookup.Pod(ctx, req.Namespace, req.Name)
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
