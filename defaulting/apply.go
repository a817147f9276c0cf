package defaulting

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/policy"
)

// rule is one part of the decision. Rules read the pod as it was received and change different fields, so that their
// order matters only for the order of what they say.
type rule struct {
	apply    decide
	validate decide
}

type decide func(policy.Request, *Effective, Facts, *Result)

var rules = slices.Concat(limiting[:1], []rule{{applyTopologySpread, validateTopologySpread}}, limiting[1:], []rule{
	{applyEnforcement, validateEnforcement},
	{applyProtected, validateProtected},
})

// limiting are the rules that enforce limits. Values of their changes are comparable.
var limiting = []rule{
	{applyPriority, validatePriority},
	{applyGracePeriod, validateGracePeriod},
}

// Apply decides what to change in a pod that is being created. A pod that the kubelet mirrors is left alone.
func (e *Effective) Apply(req policy.Request, facts Facts) Result {
	return e.settledAfter(req, facts).run(req, facts, func(r rule) decide { return r.apply })
}

// Validate judges the final pod: what Apply would have to change is refused or warned about, because then the mutating
// webhook was not called or somebody changed the pod after it.
func (e *Effective) Validate(req policy.Request, facts Facts) Result {
	return e.Settled(req, facts).run(req, facts, func(r rule) decide { return r.validate })
}

func (e *Effective) run(req policy.Request, facts Facts, step func(rule) decide) Result {
	result := Result{Policies: e.Policies}
	if e.Excluded {
		return result
	}
	for _, w := range e.warnings {
		result.warn(w.Reason, w.Policy, "%s", w.Message)
	}
	e.judge(rules, req, facts, step, &result)
	e.letThrough(req, facts, step, &result)
	return result
}

func (e *Effective) judge(rules []rule, req policy.Request, facts Facts, step func(rule) decide, out *Result) {
	for _, r := range rules {
		if f := step(r); f != nil {
			f(req, e, facts, out)
		}
	}
}

// isMirror reports whether the pod is the API server's image of a static pod. The annotation alone can be forged, so the
// requester must be a kubelet as well; NodeRestriction keeps kubelets to mirror pods of their own node.
func isMirror(req policy.Request) bool {
	_, annotated := req.Pod.Annotations[corev1.MirrorPodAnnotationKey]
	return annotated && slices.Contains(req.User.Groups, nodesGroup)
}

// nodesGroup is the group of every kubelet (k8s.io/apiserver/pkg/authentication/user.NodesGroup).
const nodesGroup = "system:nodes"

// controllerOf returns the pod's controller, or nil.
func controllerOf(pod *corev1.Pod) *metav1.OwnerReference { return metav1.GetControllerOfNoCopy(pod) }

// Patch returns a copy of the pod with the changes of Apply made, as the JSON patch would make them.
func Patch(pod *corev1.Pod, changes []Change) *corev1.Pod {
	pod = pod.DeepCopy()
	for _, c := range changes {
		switch c.Path {
		case "/spec/priorityClassName":
			pod.Spec.PriorityClassName = c.Value.(string)
		case "/spec/priority":
			pod.Spec.Priority = new(c.Value.(int32))
		case "/spec/preemptionPolicy":
			pod.Spec.PreemptionPolicy = nil
			if c.Operation == OperationAdd {
				pod.Spec.PreemptionPolicy = new(corev1.PreemptionPolicy(c.Value.(string)))
			}
		case SpreadPath:
			pod.Spec.TopologySpreadConstraints = c.Value.([]corev1.TopologySpreadConstraint)
		case gracePath:
			pod.Spec.TerminationGracePeriodSeconds = new(c.Value.(int64))
		default:
			if probe, ok := ProbeOf(c.Path); ok {
				patchProbe(pod, probe, c.Value.(int64))
				continue
			}
			patchAnnotations(pod, c)
		}
	}
	return pod
}
