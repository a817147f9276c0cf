package defaulting

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// applyPriority gives a pod that chose no PriorityClass the policy's.
//
// The in-tree Priority plugin runs before us, so the pod arrives with the globalDefault class, if there is one; and again
// after us, when it refuses a pod whose priority or preemptionPolicy disagrees with its class. So name, value and
// preemptionPolicy change together, to the class's exact values, or not at all.
func applyPriority(req policy.Request, e *Effective, facts Facts, out *Result) {
	class := e.given(req.Pod, facts, out)
	spec := &req.Pod.Spec
	if class == nil {
		return
	}
	why := "the pod named no class"
	if spec.PriorityClassName != "" {
		why = "the pod has " + spec.PriorityClassName + ", the cluster's globalDefault, which counts as none chosen"
	}
	change := func(path string, before, value any, why string) {
		out.change(Change{Section: string(v1alpha1.SectionPriority), Policy: e.class.name(), Path: path, Before: before, Value: value, Why: "PodPolicy " + e.class.name() + ": " + why})
	}
	change("/spec/priorityClassName", given(spec.PriorityClassName), class.Name, why)
	change("/spec/priority", pointed(spec.Priority), class.Value, "the value of "+class.Name)
	switch {
	case class.PreemptionPolicy != nil:
		change("/spec/preemptionPolicy", pointed(spec.PreemptionPolicy), string(*class.PreemptionPolicy), "as "+class.Name+" says")
	case spec.PreemptionPolicy != nil:
		// The value is from the class that the pod had; the new class has none.
		change("/spec/preemptionPolicy", pointed(spec.PreemptionPolicy), nil, class.Name+" says nothing")
	}
}

// given is a text, or nil where it is empty.
func given(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// pointed is a value, or nil where there is none.
func pointed[T any](value *T) any {
	if value == nil {
		return nil
	}
	return *value
}

// given is the class that the pod gets in place of what it has; nil: it keeps that.
func (e *Effective) given(pod *corev1.Pod, facts Facts, out *Result) *schedulingv1.PriorityClass {
	if !e.class.given() || e.skip[v1alpha1.SectionPriority] || choseClass(pod, facts) {
		return nil
	}
	class := givable(e, facts, out)
	if class == nil || class.Name == pod.Spec.PriorityClassName {
		return nil
	}
	return class
}

// choseClass reports whether the pod's class is the user's choice, and not the globalDefault.
func choseClass(pod *corev1.Pod, facts Facts) bool {
	name := pod.Spec.PriorityClassName
	return name != "" && (facts.GlobalDefault == nil || name != facts.GlobalDefault.Name)
}

// givable returns the policy's class; nil: it can't be given (it does not exist, for instance), and the pod stays as it is.
func givable(e *Effective, facts Facts, out *Result) *schedulingv1.PriorityClass {
	name := e.class.value
	class, ok := facts.PriorityClasses[name]
	switch {
	case facts.PriorityClasses == nil, !ok && facts.Partial:
		out.warn(becauseClassUnknown, e.class.name(), "PodPolicy %s gives PriorityClass %q, but whether the cluster has it is not known here: the pod keeps the priority it has", e.class.name(), name)
	case !ok:
		out.warn(becauseNoSuchClass, e.class.name(), "PodPolicy %s: PriorityClass %q does not exist: the pod keeps the priority it has", e.class.name(), name)
	case class.Value > policy.HighestUserPriority:
		out.warn(becauseSystemClass, e.class.name(), "PodPolicy %s: PriorityClass %q has a value reserved for the system (%d): the pod keeps the priority it has", e.class.name(), name, class.Value)
	case !e.allowed.permits(name):
		out.warn(becausePriorityClassNotAllowed, e.class.name(), "PodPolicy %s would give PriorityClass %q, but %s it: the pod keeps the priority it has", e.class.name(), name, policiesDo(e.allowed.policies, "does not allow", "do not allow"))
	default:
		return class
	}
	return nil
}

// validatePriority refuses a class that is not allowed, and a value or preemptionPolicy that is not the class's: after
// the second pass of the in-tree plugin nobody else checks them.
func validatePriority(req policy.Request, e *Effective, facts Facts, out *Result) {
	spec := &req.Pod.Spec
	if !e.allowed.permits(spec.PriorityClassName) {
		out.deny(becausePriorityClassNotAllowed, e.allowed.first(), WordsClass, spec.PriorityClassName, allowing(e.allowed.policies), list(e.allowed.names), hintDefault(req.Pod, facts))
	}
	if spec.PriorityClassName == "" {
		return
	}
	class, ok := facts.PriorityClasses[spec.PriorityClassName]
	if !ok && facts.Partial {
		out.warn(becauseClassUnknown, "", "PriorityClass %q is not known here: the pod's priority was not compared with it", spec.PriorityClassName)
		return
	}
	if !ok {
		out.warn(becauseNoSuchClass, "", "PriorityClass %q was not found when the pod was checked: it may just have been made or deleted, its value was not compared", spec.PriorityClassName)
		return
	}
	if ptr.Deref(spec.Priority, 0) != class.Value {
		out.deny(becausePriorityMismatch, "", wordsPriority,
			ptr.Deref(spec.Priority, 0), class.Name, class.Value)
	}
	if class.PreemptionPolicy != nil && ptr.Deref(spec.PreemptionPolicy, "") != *class.PreemptionPolicy {
		out.deny(becausePreemptionPolicyMismatch, "", wordsPreemptionPolicy,
			ptr.Deref(spec.PreemptionPolicy, ""), class.Name, *class.PreemptionPolicy)
	}
}

func hintDefault(pod *corev1.Pod, facts Facts) string {
	if choseClass(pod, facts) || pod.Spec.PriorityClassName == "" {
		return ""
	}
	return WordsDefault
}

// allowing names the policies that allow classes, for messages.
func allowing(policies []string) string {
	if len(policies) == 1 {
		return fmt.Sprintf(WordsOneAllows, policies[0])
	}
	return fmt.Sprintf(WordsAllAllow, strings.Join(policies, WordsAnd))
}

// policiesDo is a subject and its verb, for messages.
func policiesDo(names []string, one, many string) string {
	if len(names) == 1 {
		return "PodPolicy " + names[0] + " " + one
	}
	return "PodPolicies " + strings.Join(names, WordsAnd) + " " + many
}

// list names what is allowed, for messages.
func list(names []string) string {
	if len(names) == 0 {
		return WordsNothing
	}
	sorted := slices.Sorted(slices.Values(names))
	return strings.Join(sorted, ", ")
}

// A PodGroup has a class of its own, by which the scheduler preempts for its pods, and by which they are preempted, in place of theirs (feature
// gate WorkloadAwarePreemption; pkg/scheduler/framework/preemption/types.go, 1.36.3). So allowedClassNames holds for it as well. It has no
// labels, owners or images of its pods, so that only policies count that are for all pods of the namespace.

// ValidatePodGroup judges the class of a PodGroup that is created; the in-tree Priority plugin has filled in the globalDefault.
func ValidatePodGroup(ps policy.Policies, class string, ns policy.Namespace, exempt policy.Exempt) Result {
	var out Result
	if exempt.Has(ns.Name) {
		return out
	}
	e, strict := &Effective{}, &Effective{}
	// The labels of its pods are unknown, so that only exceptions for all pods count.
	excepting := &lifting{exceptions: slices.DeleteFunc(slices.Clone(ns.Exceptions), func(x *policy.Exception) bool { return !x.Spec.AllPods })}
	for _, p := range ps {
		if p.ForAllOf(ns) {
			out.Policies = append(out.Policies, p.Name)
			e.addLimits(p, excepting)
			strict.addLimits(p, &lifting{})
		}
	}
	if !e.allowed.permits(class) {
		out.deny(becausePriorityClassNotAllowed, e.allowed.first(), wordsPodGroupClass,
			class, strings.Join(e.allowed.policies, " and "), list(e.allowed.names))
	} else if !strict.allowed.permits(class) {
		out.Exceptions = slices.DeleteFunc(excepting.lifted, func(l Lifted) bool { return !slices.Contains(l.Limits, v1alpha1.LiftAllowedClassNames) })
		for _, l := range out.Exceptions {
			out.warn(becauseExcepted, l.Exception.Spec.Policy, "%s", l)
		}
	}
	return out
}

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
