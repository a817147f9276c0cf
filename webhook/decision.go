package webhook

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
)

// Decision is what was decided about a request, and why. Answer alone makes text of it; metrics, Events and the offline review read it as it is.
// The zero value lets the request go without a word.
type Decision struct {
	// Result is what changes, what is warned about and what is refused, whatever the request is about.
	defaulting.Result
	// Pod that was decided about at its creation; nil: the request is about something else, or could not be read.
	Pod *corev1.Pod
	// Removal that was judged; nil: the request is none.
	Removal *Removal
	// Invalid fields of a policy, for which it is refused.
	Invalid field.ErrorList
}

// Removal is a removal that was judged: what was asked, what was known, and what the guard says.
type Removal struct {
	guard.Request
	guard.Facts
	guard.Decision
}

// Handler decides about the requests of one path. The error says why it could not.
type Handler func(context.Context, admission.Request) (Decision, error)

// Handle answers, for admission.Handler.
func (h Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	return Answer(h(ctx, req))
}

// The reasons of what is no decision by a policy.
var (
	becauseMissed      = policy.Reason{Code: "Missed", Short: "The request was not judged", Help: "Try again once Podgrace can read what the decision depends on."}
	becauseMisdirected = policy.Reason{Code: "Misdirected", Short: "The request is none that this path is for", Help: "Check the rules of the webhook configuration."}
	becauseRemark      = policy.Reason{Code: "Remark", Short: "A policy or an exception does not do what it seems to", Help: "See its status."}
	becauseRaised      = policy.Reason{Code: "Raised", Short: "An eviction without a grace period was given one", Help: "Evict or drain without --grace-period=0."}
	becauseInvalid     = policy.Reason{Code: v1alpha1.ReasonInvalidSpec, Short: "A part of the policy can't be read", Help: "Mend the fields that are named."}
)

// warn adds a warning, shortened as the API server wants it.
func (d *Decision) warn(reason policy.Reason, message string) { d.warnBy(reason, "", message) }

// warnBy is warn for what follows from a policy.
func (d *Decision) warnBy(reason policy.Reason, by, message string) {
	d.Warnings = append(d.Warnings, defaulting.Warning{Reason: reason, Policy: by, Message: defaulting.Shorten(message)})
}

// change adds one that follows from no section of a policy.
func (d *Decision) change(path string, value any) {
	d.Changes = append(d.Changes, defaulting.Change{Operation: defaulting.OperationAdd, Path: path, Value: value})
}

// invalid refuses a policy with the fields and what is wrong in each.
func invalid(err error) Decision {
	d := Decision{Invalid: policy.FieldErrors(err)}
	d.Denials = []defaulting.Denial{{Reason: becauseInvalid, Message: err.Error()}}
	return d
}

// decision is what a removal comes to.
func (r *Removal) decision() Decision {
	d := Decision{Removal: r}
	switch r.Verdict {
	case guard.Deny:
		d.Denials = []defaulting.Denial{{Reason: r.Reason, Policy: r.By, Message: r.Message()}}
	case guard.Warn: // in as many as it takes: the API server cuts each that is long
		for _, part := range []string{r.What, r.Ways} {
			for part != "" {
				fits := part
				if len(part) > defaulting.MaxWarning {
					if end := strings.LastIndex(part[:defaulting.MaxWarning], "; "); end > 0 {
						fits = part[:end+len("; ")]
					}
				}
				part = part[len(fits):]
				d.warnBy(r.Reason, r.By, strings.TrimSpace(fits))
			}
		}
	case guard.Allow:
	}
	return d
}
