package defaulting

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// Lifted is an exception that lifts limits for a pod.
type Lifted struct {
	Exception *policy.Exception
	// Limits of the policy that it lifts.
	Limits []v1alpha1.LiftedLimit
}

// String is the warning for the pod's creator. The most important comes first, as long warnings are truncated.
func (l Lifted) String() string {
	x := l.Exception
	return fmt.Sprintf("PolicyException %s holds for this pod until %s: it lifts %s of PodPolicy %s (owner: %s)", x.Name, x.Spec.Until, join(l.Limits), x.Spec.Policy, x.Spec.Owner)
}

// AuditOf is the text for the audit log about all exceptions that made a difference.
func AuditOf(lifted []Lifted) string {
	words := make([]string, len(lifted))
	for i, l := range lifted {
		words[i] = l.Audit()
	}
	return strings.Join(words, "; ")
}

// Audit is the text for the audit log.
func (l Lifted) Audit() string {
	x := l.Exception
	return fmt.Sprintf("%s until %s, granted by %s, owner %s: %s of PodPolicy %s", x.Key(), x.Spec.Until, x.GrantedBy, x.Spec.Owner, join(l.Limits), x.Spec.Policy)
}

func join(limits []v1alpha1.LiftedLimit) string {
	names := make([]string, len(limits))
	for i, l := range limits {
		names[i] = string(l)
	}
	return strings.Join(names, ", ")
}

// lifting finds the exceptions that lift a policy's limits for a pod, and notes them.
type lifting struct {
	exceptions policy.Exceptions
	pod        map[string]string
	lifted     []Lifted
}

// lifts reports whether a limit of a policy that has it is lifted. All exceptions that lift it are noted: any of them may end first.
func (l *lifting) lifts(p *policy.Policy, limit v1alpha1.LiftedLimit) bool {
	found := false
	for _, x := range l.exceptions {
		if x.Lifts(p.Name, limit, l.pod) {
			found = true
			l.note(x, limit)
		}
	}
	return found
}

func (l *lifting) note(x *policy.Exception, limit v1alpha1.LiftedLimit) {
	i := slices.IndexFunc(l.lifted, func(have Lifted) bool { return have.Exception == x })
	if i < 0 {
		i = len(l.lifted)
		l.lifted = append(l.lifted, Lifted{Exception: x})
	}
	l.lifted[i].Limits = append(l.lifted[i].Limits, limit)
}

// letThrough reports the exceptions if they make a difference to the pod. Mostly the pod is admitted as it is; in rare cases a maximum holds because the minimum that
// overrode it is lifted.
func (e *Effective) letThrough(req policy.Request, facts Facts, step func(rule) decide, out *Result) {
	if e.strict == nil {
		return
	}
	var with, without Result
	e.judge(limiting, req, facts, step, &with)
	e.strict.judge(limiting, req, facts, step, &without)
	same := slices.EqualFunc(with.Denials, without.Denials, func(a, b Denial) bool { return a.Reason == b.Reason }) &&
		slices.EqualFunc(with.Changes, without.Changes, func(a, b Change) bool { return a.Path == b.Path && a.Value == b.Value })
	if same {
		return
	}
	out.Exceptions = e.lifted
	for _, l := range e.lifted[:min(len(e.lifted), maxNamed)] {
		out.warn(becauseExcepted, l.Exception.Spec.Policy, "%s", l)
	}
}
