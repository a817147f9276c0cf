package terminate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/policy/enforcement"
)

// FieldManager owns what the node enforcer writes: a pod's condition, and the Node's taint and conditions. Without a name it would be
// the first word of the user agent.
const FieldManager = enforcement.NodeEnforcer

// ReasonEvicted is the reason of the condition DisruptionTarget that Mark sets. Those of Kubernetes name their own authors.
const ReasonEvicted = enforcement.ReasonEvicted

var errOffline = errors.New("there is no API server")

// Client is the API through client-go. It never retries by itself: client-go would wait out up to ten Retry-After within one call
// (rest/with_retry.go, 0.36.3), and the time of each answer counts here.
type Client struct {
	core  rest.Interface
	clock clock.PassiveClock
}

// NewClient returns the API of a cluster by its client of the core group, which must know policy/v1 too.
func NewClient(core rest.Interface, c clock.PassiveClock) *Client {
	return &Client{core: core, clock: c}
}

// Evict makes a policy/v1 Eviction with a UID precondition. Where a pod was recreated under its name and a budget covers it, the
// API server counts the attempt against the budget before it looks at the UID (pkg/registry/core/pod/storage/eviction.go,
// 1.36.3).
func (c *Client) Evict(ctx context.Context, pod Ref, graceSeconds int64) Answer {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: deleteOptions(pod, graceSeconds),
	}
	err := c.core.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		Body(eviction).MaxRetries(0).Do(ctx).Error()
	return c.answer(ctx, pod, "evict", err)
}

// Delete is a DELETE with a UID precondition.
func (c *Client) Delete(ctx context.Context, pod Ref, graceSeconds int64) Answer {
	err := c.core.Delete().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
		Body(deleteOptions(pod, graceSeconds)).MaxRetries(0).Do(ctx).Error()
	return c.answer(ctx, pod, "delete", err)
}

// deleteOptions never ask for a force delete.
func deleteOptions(pod Ref, graceSeconds int64) *metav1.DeleteOptions {
	return &metav1.DeleteOptions{GracePeriodSeconds: new(max(graceSeconds, 1)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
}

// Mark patches the pod's status. A UID in a patch is a precondition: the API server refuses to change it.
func (c *Client) Mark(ctx context.Context, pod Ref, message string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: ReasonEvicted, Message: message,
			LastTransitionTime: metav1.NewTime(c.clock.Now()),
		}}},
	})
	if err != nil {
		return fmt.Errorf("mark pod %s: %w", pod, err)
	}
	err = c.core.Patch(types.StrategicMergePatchType).Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("status").
		VersionedParams(&metav1.PatchOptions{FieldManager: FieldManager}, metav1.ParameterCodec).Body(patch).MaxRetries(0).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("mark pod %s: %w", pod, err)
	}
	return nil
}

func (c *Client) answer(ctx context.Context, pod Ref, what string, err error) Answer {
	if err == nil {
		return Answer{Verdict: Accepted}
	}
	a := Answer{Verdict: verdict(err), Err: fmt.Errorf("%s pod %s: %w", what, pod, err)}
	var status apierrors.APIStatus
	a.Online = errors.As(err, &status)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		a.RetryAfter = time.Duration(seconds) * time.Second
	}
	if apierrors.IsConflict(err) && c.replaced(ctx, pod) {
		a.Verdict = Gone
	}
	return a
}

// replaced tells a conflict of UIDs from one of resource versions, which the Eviction API has too; the answers differ in words
// only.
func (c *Client) replaced(ctx context.Context, pod Ref) bool {
	var now corev1.Pod
	err := c.core.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).Do(ctx).Into(&now)
	return apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID
}

// verdict classifies an error. A request that the server did not expressly refuse, and may have received, may have been accepted: a 500 or
// 504 can come after the write to etcd. What it refuses (401, 403 by rights or an admission policy, 409, 422 and the like) is refused as long as
// nobody changes that; 429 is its priority and fairness, and says when to ask again.
func verdict(err error) Verdict {
	var status apierrors.APIStatus
	var dial *net.OpError
	switch {
	case apierrors.IsNotFound(err):
		return Gone
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) && apierrors.IsTooManyRequests(err):
		return Budget
	case errors.As(err, &status):
		switch code := status.Status().Code; {
		case code == http.StatusTooManyRequests:
			return Busy
		case code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout:
			return Refused
		}
	case errors.As(err, &dial) && dial.Op == "dial":
		return Failed
	}
	return Unknown
}

// String is namespace/name (UID).
func (r Ref) String() string { return fmt.Sprintf("%s (%s)", r.NamespacedName, r.UID) }

// API is the requests to the API server. Each is for one UID, and does not touch another pod of that name.
type API interface {
	// Evict deletes the pod gracefully, unless a disruption budget forbids it.
	Evict(ctx context.Context, pod Ref, graceSeconds int64) Answer
	// Delete deletes the pod gracefully, whatever disruption budgets say.
	Delete(ctx context.Context, pod Ref, graceSeconds int64) Answer
	// Mark sets the pod's condition DisruptionTarget, with a message for a person.
	Mark(ctx context.Context, pod Ref, message string) error
}

// Answer is the result of a request.
type Answer struct {
	Verdict Verdict
	// RetryAfter is what the API server asks for; 0: nothing.
	RetryAfter time.Duration
	// Online: an API server has answered, whatever it said.
	Online bool
	// Err is the answer in words, for all but Accepted.
	Err error
}

// Verdict is the kind of an answer.
type Verdict int

// The verdicts.
const (
	// Accepted: the pod is being deleted.
	Accepted Verdict = iota
	// Gone: there is no such pod, or one with another UID.
	Gone
	// Budget: a disruption budget forbids it.
	Budget
	// Failed: no API server got it.
	Failed
	// Unknown: it may have been accepted.
	Unknown
	// Refused by the API server, in so many words: by rights, an admission policy, or because it can't be done.
	Refused
	// Busy: the API server has no time for it now, and says when to ask again.
	Busy
)

// Offline is an API server that can't be reached, for a node without one.
type Offline struct{}

// Evict fails.
func (Offline) Evict(context.Context, Ref, int64) Answer { return offline() }

// Delete fails.
func (Offline) Delete(context.Context, Ref, int64) Answer { return offline() }

// Mark fails.
func (Offline) Mark(context.Context, Ref, string) error { return errOffline }

func offline() Answer { return Answer{Verdict: Failed, Err: errOffline} }
