package terminate

import (
	"context"
	"time"
)

// API is what is asked of the API server. Each request is for one UID, and touches no other pod of that name.
type API interface {
	// Evict asks for a graceful end that disruption budgets may forbid.
	Evict(ctx context.Context, pod Ref, graceSeconds int64) Answer
	// Delete ends the pod gracefully, whatever budgets say.
	Delete(ctx context.Context, pod Ref, graceSeconds int64) Answer
	// Mark sets the pod's condition DisruptionTarget, with a message for a person.
	Mark(ctx context.Context, pod Ref, message string) error
}

// Answer is what became of a request.
type Answer struct {
	Verdict Verdict
	// RetryAfter is what the API server asks for; 0: nothing.
	RetryAfter time.Duration
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
	// Failed: certainly not accepted.
	Failed
	// Unknown: it may have been accepted.
	Unknown
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
