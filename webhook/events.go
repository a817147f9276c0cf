package webhook

import (
	"fmt"
	"hash/fnv"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/kube"
	"github.com/podgrace/podgrace/webhook/ratelimit"
)

// Events records Events about removals that were refused, or allowed because of a confirmation, on the object that was to be
// removed. They are rate-limited for each namespace, so that a tenant who repeats a force delete in a loop neither floods the cluster nor uses up the
// Events of others. Metrics and the audit log have every removal.
type Events struct {
	recorder events.EventRecorder
	// refusals limits those of all namespaces together.
	refusals *rate.Limiter

	// limits are by namespace and reason.
	limits *ratelimit.Limiters
}

// The rate limits of a replica's Events: for each reason in each namespace, and for refusals in all namespaces together.
const (
	eventsPerSecond   = 1
	eventsBurst       = 20
	refusalsPerSecond = 10
	refusalsBurst     = 200
)

// The reasons of Events.
const (
	removalRefused   = "RemovalRefused"
	removalConfirmed = "RemovalConfirmed"
)

// NewEvents limits a recorder.
func NewEvents(recorder events.EventRecorder) *Events {
	return &Events{recorder: recorder, refusals: rate.NewLimiter(refusalsPerSecond, refusalsBurst), limits: ratelimit.New(eventsPerSecond, eventsBurst)}
}

// allow reports whether one more is within the limits.
func (e *Events) allow(namespace, reason string) bool {
	return e.limits.Allow(namespace+"/"+reason) && (reason != removalRefused || e.refusals.Allow())
}

func (e *Events) removal(req admission.Request, r Removal) {
	if e == nil || req.DryRun != nil && *req.DryRun {
		return
	}
	kind, reason, note := corev1.EventTypeNormal, "", ""
	switch {
	case r.Verdict == guard.Deny:
		kind, reason, note = corev1.EventTypeWarning, removalRefused, fmt.Sprintf("%s by %s refused: %s", r.Road, req.UserInfo.Username, r.Message())
	case r.Reason == guard.Confirmed:
		reason, note = removalConfirmed, fmt.Sprintf("%s by %s allowed: it was confirmed that the pod may run twice", r.Road, req.UserInfo.Username)
	case r.Reason == guard.NodeStopped || r.Reason == guard.NodeOutOfService:
		reason, note = removalConfirmed, fmt.Sprintf("%s by %s allowed: the node is known to have stopped", r.Road, req.UserInfo.Username)
	default:
		return
	}
	if !e.allow(req.Namespace, reason) {
		return
	}
	e.recorder.Eventf(regarding(r.Request), to(req.UserInfo.Username, r.Decision), kind, reason, string(r.Road), "%s", console.Note(note))
}

// to is the related object of an Event: the user. An event recorder aggregates Events that differ in nothing but the note (k8s.io/client-go/tools/events
// getKey, 0.36.3), so that the refusal of another user, or for another reason, would appear under the first one's note. The user's name and, as the
// resourceVersion, a hash of the decision keep these apart.
func to(user string, d guard.Decision) *corev1.ObjectReference {
	decision := fnv.New64a()
	fmt.Fprintf(decision, "%s %s", d.Reason, d.Why)
	return &corev1.ObjectReference{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: rbacv1.UserKind, Name: user, ResourceVersion: fmt.Sprintf("%016x", decision.Sum64())}
}

// regarding is the object that was to be removed, by its identity alone: an Event needs no more.
func regarding(r guard.Request) runtime.Object {
	switch {
	case r.Pod != nil:
		return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: kube.Identity(r.Pod.ObjectMeta)}
	case r.VolumeAttachment != nil:
		return &storagev1.VolumeAttachment{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment"}, ObjectMeta: kube.Identity(r.VolumeAttachment.ObjectMeta)}
	}
	return &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: kube.Identity(r.Node.ObjectMeta)} // kubectl describe looks for its UID
}
