package defaulting

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/policy"
)

// reservedPrefix is that of the two PriorityClasses of the system; there can be no other one (pkg/apis/scheduling/validation/validation.go ValidatePriorityClass, 1.36.3).
const reservedPrefix = "system-"

// ResolvePriority does to a pod what the in-tree Priority plugin does before any webhook sees it
// (plugin/pkg/admission/priority/admission.go admitPod, 1.36.3). The error is the plugin's refusal. A pod whose class is unknown
// (Facts.Partial) stays as it is, unless there can't be one of its name.
func ResolvePriority(pod *corev1.Pod, facts Facts) error {
	class := facts.GlobalDefault
	if name := pod.Spec.PriorityClassName; name != "" {
		var known bool
		if class, known = facts.PriorityClasses[name]; !known {
			if facts.Partial && !strings.HasPrefix(name, reservedPrefix) {
				return nil
			}
			return fmt.Errorf("no PriorityClass with name %s was found", name)
		}
	}
	value, preemption, by := int32(0), ptr.To(corev1.PreemptLowerPriority), "without a PriorityClass"
	if class != nil {
		pod.Spec.PriorityClassName, value, preemption, by = class.Name, class.Value, class.PreemptionPolicy, "by PriorityClass "+class.Name
	}
	if have := pod.Spec.Priority; have != nil && *have != value {
		return fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; it is %d %s", *have, value, by)
	}
	pod.Spec.Priority = new(value)
	if preemption == nil {
		return nil
	}
	if have := pod.Spec.PreemptionPolicy; have != nil && *have != *preemption {
		return fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; it is %s %s", *have, *preemption, by)
	}
	pod.Spec.PreemptionPolicy = new(*preemption)
	return nil
}

// Foresee returns, as warnings, what will be decided about a pod that a controller would create: that its class does not exist, and what Apply and
// Validate would say. It works on a copy of the pod, to which the Priority plugin's changes are made first.
func (e *Effective) Foresee(req policy.Request, facts Facts) Result {
	var out Result
	if e.Excluded {
		return out
	}
	facts.Told = true
	pod := req.Pod.DeepCopy()
	if err := ResolvePriority(pod, facts); err != nil {
		out.warn(PriorityRefused, "", "its pods will be refused: %v", err)
		return out
	}
	req.Pod = pod
	applied := e.Apply(req, facts)
	out.Warnings = applied.Warnings
	denials := applied.Denials
	if len(denials) == 0 {
		req.Pod = Patch(pod, applied.Changes)
		denials = e.Validate(req, facts).Denials
	}
	if len(denials) == 0 && len(pod.Spec.TopologySpreadConstraints)+len(affinityTerms(pod)) > 0 {
		validateTopologySpread(req, e, facts, &out)
	}
	for _, d := range denials {
		out.warn(d.Reason, d.Policy, "its pods will be refused: %s", d.Message)
	}
	return out
}
