package defaulting

import (
	"slices"
	"strings"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// A PodGroup has a class of its own, by which the scheduler preempts for its pods, and by which they are preempted, in place of theirs (feature
// gate WorkloadAwarePreemption; pkg/scheduler/framework/preemption/types.go, 1.36.3). So allowedClassNames holds for it as well. It has no
// labels, owners or images of its pods, so that only policies count that are for all pods of the namespace.

// ValidatePodGroup judges the class of a PodGroup that is created; the in-tree Priority plugin has filled in the globalDefault.
func ValidatePodGroup(ps policy.Policies, class string, ns policy.Namespace, ownNamespace string) Result {
	var out Result
	if policy.Exempt(ns.Name, ownNamespace) {
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
		out.deny(becausePriorityClassNotAllowed, "PriorityClass %q is not allowed here: PodPolicy %s allows %s. A PodGroup's class counts in place of its pods'. Name one of these in its priorityClassName, or ask the owner of the policy",
			class, strings.Join(e.allowed.policies, " and "), list(e.allowed.names))
	} else if !strict.allowed.permits(class) {
		out.Exceptions = slices.DeleteFunc(excepting.lifted, func(l Lifted) bool { return !slices.Contains(l.Limits, v1alpha1.LiftAllowedClassNames) })
		for _, l := range out.Exceptions {
			out.warn(becauseExcepted, "%s", l)
		}
	}
	return out
}
