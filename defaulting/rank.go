package defaulting

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/policy"
)

// Policies may select by the PriorityClass that the pod has when it is created, and other policies may give it that class. So they are combined in two steps:
// For takes the policies that do not select by priority, which decide about the class; Settled knows the class and adds the others. These can't have a
// priority section (Compile), so that two steps are enough, and a reinvocation, whose pod has the class already, has the same result.

// candidate is a policy that matches a pod, if the pod has a class that the policy selects.
type candidate struct {
	policy *policy.Policy
	how    policy.Matching
	why    error // why how is MatchUncertain
}

// Settled is what the policies require of a pod with the class that it has now. Apply and Validate call it themselves.
func (e *Effective) Settled(req policy.Request, facts Facts) *Effective {
	if e.open == nil {
		return e
	}
	return e.open.together(req.Pod, func(c candidate) candidate { return c.ranked(&req.Pod.Spec, facts) })
}

// settledAfter is Settled for the pod with the class that Apply gives it.
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

// priorityOf is the pod's priority. Offline the API server has not set it yet, and its class may be unknown.
func priorityOf(spec *corev1.PodSpec, facts Facts) (value int32, known bool) {
	if spec.Priority != nil || spec.PriorityClassName == "" {
		return ptr.Deref(spec.Priority, 0), true
	}
	if class, ok := facts.PriorityClasses[spec.PriorityClassName]; ok {
		return class.Value, true
	}
	return 0, false
}
