package defaulting

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/page"
	"github.com/podgrace/podgrace/policy"
)

// Operation is what a Change does, in the words of JSON patch (RFC 6902).
type Operation string

// The operations of a Change. OperationAdd also replaces a field that is there.
const (
	OperationAdd    Operation = "add"
	OperationRemove Operation = "remove"
)

// Change is one field of the pod that is to be changed.
type Change struct {
	// Section of the policy that the change follows from: priority, topologySpread, gracePeriod, node or removal.
	Section string
	// Operation to do at Path.
	Operation Operation
	// Path is the JSON pointer (RFC 6901) of the field in the pod.
	Path string
	// Value to put there, as encoding/json marshals it; nil for OperationRemove.
	Value any
	// Why, for a person: the policy and the reason.
	Why string
}

// Warning is a remark for the person who creates the pod, by the rules of the API server's warnings: one line, at most
// 256 bytes.
type Warning string

// Denial says why a pod is refused.
type Denial struct {
	// Reason is the rule that decided.
	Reason policy.Reason
	// Message for the person: what is wrong, by which policy, and what to do instead.
	Message string
}

// Result is what was decided about one pod.
type Result struct {
	Changes  []Change
	Warnings []Warning
	Denials  []Denial
	// Unjudged is why it was not checked whether hard constraints are feasible; empty: it was, or there are none.
	Unjudged Unjudged
	// Policies that hold for the pod, the heaviest first.
	Policies []string
	// Exceptions that made a difference: without them the pod would be refused, or changed otherwise.
	Exceptions []Lifted
}

func (r *Result) change(section string, op Operation, path string, value any, why string, args ...any) {
	r.Changes = append(r.Changes, Change{Section: section, Operation: op, Path: path, Value: value, Why: fmt.Sprintf(why, args...)})
}

func (r *Result) warn(format string, args ...any) {
	w := Shorten(fmt.Sprintf(format, args...))
	if !slices.Contains(r.Warnings, w) {
		r.Warnings = append(r.Warnings, w)
	}
}

func (r *Result) deny(reason policy.Reason, format string, args ...any) {
	r.Denials = append(r.Denials, Denial{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// MaxWarning is the length in bytes over which the API server truncates a warning
// (apiserver/pkg/admission/plugin/webhook: AdmissionResponse.warnings).
const MaxWarning = 256

// Shorten makes a warning that the API server neither truncates nor drops: it drops one that has a control character or is
// not UTF-8 (apimachinery/pkg/util/net/http.go NewWarningHeader, 0.36.3). Characters that reverse or hide text are
// replaced.
func Shorten(s string) Warning {
	s = page.Printable(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")))
	if len(s) <= MaxWarning {
		return Warning(s)
	}
	const dots = "..."
	return Warning(strings.ToValidUTF8(s[:MaxWarning-len(dots)], "") + dots)
}

// rule is one part of the decision. Rules read the pod as it was received and change different fields, so that their
// order matters only for the order of what they say.
type rule struct {
	apply    decide
	validate decide
}

type decide func(policy.Request, *Effective, Facts, *Result)

var rules = slices.Concat(limiting[:1], []rule{{applyTopologySpread, nil}}, limiting[1:], []rule{
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
		result.warn("%s", w)
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

// isMirror says whether the pod is the API server's image of a static pod. The annotation alone can be forged, so the
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
		case "/spec/topologySpreadConstraints":
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
