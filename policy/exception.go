package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/api/written"
)

// An exception lifts limits of one policy for pods of its own namespace, once it was granted and until its end. It is a fact beside the policies: who
// decides about a pod is given those that are in force in its namespace (Namespace.Exceptions), so that no rule here has a clock. A limit that is
// lifted counts as if the policy did not have it; a zeroGrace as Warn. What a policy protects from removal, and its defaults, nothing lifts.

// Exception is a PolicyException made ready to decide with.
type Exception struct {
	Namespace, Name string
	// Spec is shared with the object it was compiled from: read only.
	Spec *v1alpha1.PolicyExceptionSpec
	// Until is when it ends.
	Until time.Time
	// GrantedBy is who granted this very spec; empty: nobody did.
	GrantedBy string
	// Voided is the grant of an earlier spec, which holds no more; nil: there is none.
	Voided *v1alpha1.Grant

	pods labels.Selector
}

// Exceptions are in the order of their names.
type Exceptions []*Exception

// SortExceptions orders exceptions as Exceptions must be.
func SortExceptions(all []*Exception) Exceptions {
	slices.SortFunc(all, func(a, b *Exception) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return all
}

// UnreadFieldsOf are fields of a PolicyException that were written and are not read (written.Unread).
func UnreadFieldsOf(x *v1alpha1.PolicyException) []string {
	return written.Unread(x.ManagedFields, v1alpha1.GroupVersion.String(), &x.Spec)
}

// CompileException makes an exception ready. The error says what can't be read of it, for which the schema would refuse it, or which was written and is not read: who granted it may have
// granted less than is left of it. It then lifts nothing.
func CompileException(x *v1alpha1.PolicyException) (*Exception, error) {
	c := &Exception{Namespace: x.Namespace, Name: x.Name, Spec: &x.Spec}
	var errs field.ErrorList
	spec := field.NewPath("spec")
	var err error
	if c.Until, err = time.Parse(time.RFC3339, x.Spec.Until); err != nil {
		errs = append(errs, field.Invalid(spec.Child("until"), x.Spec.Until, "it must be a time in UTC such as 2026-12-31T00:00:00Z"))
	}
	if c.pods = compileSelector(x.Spec.PodSelector, spec.Child("podSelector"), &errs); c.pods == nil {
		c.pods = labels.Everything()
	}
	if x.Spec.AllPods == (x.Spec.PodSelector != nil) {
		errs = append(errs, field.Invalid(spec.Child("podSelector"), x.Spec.PodSelector, "say for which pods: either a podSelector or allPods: true"))
	}
	var notRead error
	if unread := UnreadFieldsOf(x); len(unread) > 0 {
		notRead = errors.New(written.Say(unread, "exception"))
	}
	if err := together(errs, notRead); err != nil {
		return nil, fmt.Errorf("PolicyException %s/%s: %w", x.Namespace, x.Name, err)
	}
	switch g := x.Status.Grant; {
	case g == nil || g.By == "":
	case g.Generation == x.Generation && g.UID == x.UID:
		c.GrantedBy = g.By
	default:
		c.Voided = g
	}
	return c, nil
}

// Ended reports whether it has ended by a time.
func (x *Exception) Ended(now time.Time) bool { return !now.Before(x.Until) }

// InForce returns the exceptions that were granted and have not ended. With the zero time, which stands for an unknown one, none is in force.
func (xs Exceptions) InForce(now time.Time) Exceptions {
	if now.IsZero() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(xs), func(x *Exception) bool { return x.GrantedBy == "" || x.Ended(now) })
}

// NextEnd is when the next of them ends; false: all have ended.
func (xs Exceptions) NextEnd(now time.Time) (next time.Time, ok bool) {
	for _, x := range xs {
		if !x.Ended(now) && (!ok || x.Until.Before(next)) {
			next, ok = x.Until, true
		}
	}
	return next, ok
}

// Lifts reports whether it lifts a limit of a policy for a pod of its namespace with these labels.
func (x *Exception) Lifts(policy string, limit v1alpha1.LiftedLimit, pod map[string]string) bool {
	return x.Spec.Policy == policy && slices.Contains(x.Spec.Limits, limit) && x.pods.Matches(labels.Set(pod))
}

// Key is NAMESPACE/NAME.
func (x *Exception) Key() string { return x.Namespace + "/" + x.Name }

// limitsOf are the limits on pods that a policy has.
func limitsOf(s *v1alpha1.PodPolicySpec) (all []v1alpha1.LiftedLimit) {
	if p := s.Priority; p != nil && len(p.AllowedClassNames) > 0 {
		all = append(all, v1alpha1.LiftAllowedClassNames)
	}
	if g := s.GracePeriod; g != nil {
		for _, l := range []struct {
			value *int64
			limit v1alpha1.LiftedLimit
		}{{g.MinSeconds, v1alpha1.LiftMinSeconds}, {g.MaxSeconds, v1alpha1.LiftMaxSeconds}, {g.PreStopMarginSeconds, v1alpha1.LiftPreStopMarginSeconds}} {
			if l.value != nil {
				all = append(all, l.limit)
			}
		}
	}
	if s.Removal != nil && ZeroGraceOf(s.Removal) != v1alpha1.ZeroGraceWarn {
		all = append(all, v1alpha1.LiftZeroGrace)
	}
	return all
}

// HasLimit reports whether a policy has a limit that an exception could lift.
func HasLimit(s *v1alpha1.PodPolicySpec, limit v1alpha1.LiftedLimit) bool {
	return slices.Contains(limitsOf(s), limit)
}

// LimitInWords describes the value of a policy's limit that an exception would lift.
func LimitInWords(s *v1alpha1.PodPolicySpec, limit v1alpha1.LiftedLimit) string {
	if !HasLimit(s, limit) {
		return "the policy has no such limit"
	}
	switch limit {
	case v1alpha1.LiftAllowedClassNames:
		return "allowed are " + strings.Join(s.Priority.AllowedClassNames, ", ")
	case v1alpha1.LiftMinSeconds:
		return "at least " + seconds(*s.GracePeriod.MinSeconds)
	case v1alpha1.LiftMaxSeconds:
		return "at most " + seconds(*s.GracePeriod.MaxSeconds)
	case v1alpha1.LiftPreStopMarginSeconds:
		return seconds(*s.GracePeriod.PreStopMarginSeconds) + " left after preStop"
	case v1alpha1.LiftZeroGrace:
		return string(ZeroGraceOf(s.Removal)) + " a grace period of 0; with the exception it stays, with a warning"
	}
	return ""
}

// State is the condition InForce of an exception in a cluster: a reason, and a message for a person. It lifts limits only where the reason is ReasonInForce.
func (x *Exception) State(policies Policies, now time.Time) (reason, message string) {
	i := slices.IndexFunc(policies, func(p *Policy) bool { return p.Name == x.Spec.Policy })
	switch {
	case x.Ended(now):
		return v1alpha1.ReasonEnded, "it ended at " + x.Spec.Until + ": the limits hold again for pods that are created"
	case x.Voided != nil:
		return v1alpha1.ReasonChanged, fmt.Sprintf("it lifts nothing: %s granted generation %d of it, and its spec was changed since. It has to be granted again (kubectl podgrace grant -n %s %s)", x.Voided.By, x.Voided.Generation, x.Namespace, x.Name)
	case x.GrantedBy == "":
		return v1alpha1.ReasonNotGranted, fmt.Sprintf("it lifts nothing: it was not granted yet. Who has the verb %s on PodPolicy %s can do so (kubectl podgrace grant -n %s %s)", v1alpha1.VerbExcept, x.Spec.Policy, x.Namespace, x.Name)
	case i < 0:
		return v1alpha1.ReasonUnknownPolicy, "it lifts nothing: there is no PodPolicy " + x.Spec.Policy
	}
	var idle []string
	for _, l := range x.Spec.Limits {
		if !HasLimit(policies[i].Spec, l) {
			idle = append(idle, string(l))
		}
	}
	switch len(idle) {
	case 0:
		return v1alpha1.ReasonInForce, "granted by " + x.GrantedBy + ", in force until " + x.Spec.Until
	case len(x.Spec.Limits):
		return v1alpha1.ReasonNothingToLift, fmt.Sprintf("it lifts nothing: PodPolicy %s has no %s", x.Spec.Policy, strings.Join(idle, ", "))
	}
	return v1alpha1.ReasonInForce, fmt.Sprintf("granted by %s, in force until %s; PodPolicy %s has no %s", x.GrantedBy, x.Spec.Until, x.Spec.Policy, strings.Join(idle, ", "))
}

func seconds(n int64) string { return strconv.FormatInt(n, 10) + " s" }
