package defaulting

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/policy"
)

// Policies may select by the class that the pod has when it is created, which other policies may give. So they are put together in two steps:
// For takes the others, which say what class the pod gets and which it may have; Settled, which knows the class, adds these. They say
// nothing about classes themselves (Compile), so that there is no third step, and a second call, whose pod has the class already, comes
// to the same.

// candidate is a policy that matches a pod, but for the class that it may select by.
type candidate struct {
	policy *policy.Policy
	how    policy.Matching
	why    error // it is uncertain
}

// Settled is what the policies ask for a pod whose class is known: the one that it has. Apply and Validate do it by themselves.
func (e *Effective) Settled(req policy.Request, facts Facts) *Effective {
	if e.open == nil {
		return e
	}
	return e.open.together(req.Pod, func(c candidate) candidate { return c.ranked(&req.Pod.Spec, facts) })
}

// settledAfter is Settled for the class that Apply gives the pod.
func (e *Effective) settledAfter(req policy.Request, facts Facts) *Effective {
	if e.open == nil {
		return e
	}
	pod := *req.Pod
	if class := e.given(req.Pod, facts, &Result{}); class != nil {
		pod.Spec.PriorityClassName, pod.Spec.Priority = class.Name, &class.Value
	}
	req.Pod = &pod
	return e.Settled(req, facts)
}

// ranked is the candidate for a pod with the class of this spec.
func (c candidate) ranked(spec *corev1.PodSpec, facts Facts) candidate {
	no := candidate{policy: c.policy, how: policy.MatchNo}
	m := c.policy.Spec.Match
	if c.how == policy.MatchUnread || !c.policy.SelectsByPriority() {
		return c
	}
	if len(m.PriorityClassNames) > 0 && !slices.Contains(m.PriorityClassNames, spec.PriorityClassName) {
		return no
	}
	if m.Priority == nil {
		return c
	}
	value, known := priorityOf(spec, facts)
	switch {
	case !known:
		return candidate{c.policy, policy.MatchUncertain, fmt.Errorf("the value of PriorityClass %q is not known here", spec.PriorityClassName)}
	case m.Priority.Min != nil && value < *m.Priority.Min, m.Priority.Max != nil && value > *m.Priority.Max:
		return no
	}
	return c
}

// priorityOf is the value by which the scheduler ranks the pod. Offline the class may be unknown, from which the API server writes it.
func priorityOf(spec *corev1.PodSpec, facts Facts) (value int32, known bool) {
	if spec.Priority != nil || spec.PriorityClassName == "" {
		return ptr.Deref(spec.Priority, 0), true
	}
	if class, ok := facts.PriorityClasses[spec.PriorityClassName]; ok {
		return class.Value, true
	}
	return 0, false
}
