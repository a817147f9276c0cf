package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// conditions are a policy's match conditions, compiled by the API server's own code, so that an expression means here
// what it means in a webhook configuration: the same variables, functions and cost limits.
type conditions struct {
	names []string
	// namespace says that an expression reads the namespace.
	namespace bool
	evaluator plugincel.ConditionEvaluator
}

// ownFields are what Podgrace writes into pods. A condition on one would make applying twice differ from once.
var ownFields = regexp.MustCompile(`\b(?:priorityClassName|preemptionPolicy|terminationGracePeriodSeconds|topologySpreadConstraints)\b|\bspec\.\??priority\b|podgrace\.dev/(?:enforcement|protected)\b`)

// withoutOwnFields returns the pod as conditions see it: without what Podgrace writes, however an expression may come to
// read it, so that the answer is the same before and after. The copy is shallow.
func withoutOwnFields(pod *corev1.Pod) *corev1.Pod {
	seen := *pod
	seen.Spec.PriorityClassName, seen.Spec.Priority, seen.Spec.PreemptionPolicy = "", nil, nil
	seen.Spec.TerminationGracePeriodSeconds, seen.Spec.TopologySpreadConstraints = nil, nil
	_, enforced := pod.Annotations[v1alpha1.AnnotationEnforcement]
	_, recorded := pod.Annotations[v1alpha1.AnnotationProtected]
	if enforced || recorded {
		seen.Annotations = maps.Clone(pod.Annotations)
		delete(seen.Annotations, v1alpha1.AnnotationEnforcement)
		delete(seen.Annotations, v1alpha1.AnnotationProtected)
	}
	return &seen
}

// errUncertain is wrapped where a match condition could not be evaluated for a pod.
var errUncertain = errors.New("a match condition could not be evaluated")

// compiler is built when the first policy with match conditions is: its environment takes some MiB.
var compiler = sync.OnceValue(func() plugincel.ConditionCompiler {
	return plugincel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

func compileConditions(list []admissionregistrationv1.MatchCondition, path *field.Path) (*conditions, field.ErrorList) {
	var errs field.ErrorList
	c := &conditions{}
	accessors := make([]plugincel.ExpressionAccessor, 0, len(list))
	for i := range list {
		if m := ownFields.FindString(list[i].Expression); m != "" {
			errs = append(errs, field.Invalid(path.Index(i).Child("expression"), list[i].Expression, fmt.Sprintf("%s is written by Podgrace: a condition on it would no longer match after it was applied, and the pod would be judged again", m)))
		}
		c.namespace = c.namespace || strings.Contains(list[i].Expression, plugincel.NamespaceVarName)
		expression := matchconditions.MatchCondition(list[i])
		accessors = append(accessors, &expression)
		c.names = append(c.names, list[i].Name)
	}
	// One at a time, because the errors of a whole compilation don't say which expression they are about.
	for i, a := range accessors {
		for _, err := range compiler().CompileCondition([]plugincel.ExpressionAccessor{a}, plugincel.OptionalVariableDeclarations{}, environment.StoredExpressions).CompilationErrors() {
			errs = append(errs, field.Invalid(path.Index(i).Child("expression"), list[i].Expression, err.Error()))
		}
	}
	c.evaluator = compiler().CompileCondition(accessors, plugincel.OptionalVariableDeclarations{}, environment.StoredExpressions)
	return c, errs
}

// What the conditions of all policies together may take for one pod. One can be written so that every policy's cost as much as one
// policy's may; and cel-go counts the cost of going through a list in a time that grows with the square of its length
// (interpreter/runtimecost.go refValStack.drop, 0.30.0), so that the cost alone bounds no time: 110,000 tolerations take minutes.
const (
	maxCost = 4 * apiservercel.RuntimeCELCostBudgetMatchConditions
	maxTime = time.Second
)

// Evaluation is that of one pod against policies, one after the other (Policy.Match). What match conditions see of the pod is made when the first policy with
// conditions is evaluated, and all conditions have one budget of cost and time together. Done ends it.
type Evaluation struct {
	Request
	attributes *admission.VersionedAttributes
	review     *admissionv1.AdmissionRequest
	namespace  *corev1.Namespace
	cost       int64           // what is left of maxCost
	ctx        context.Context // ends after maxTime
	stop       context.CancelFunc
}

// NewEvaluation begins the evaluation of a pod.
func NewEvaluation(req Request) *Evaluation { return &Evaluation{Request: req} }

// errTooLong is one of two bounds, of cost and of time: which of them is met first depends on how busy the machine is.
var errTooLong = errors.New("it takes longer than the match conditions of a pod may")

func (e *Evaluation) tooLong(err error) bool {
	return err != nil && (e.ctx != nil && e.ctx.Err() != nil || strings.Contains(err.Error(), "cost limit exceeded") || strings.Contains(err.Error(), "running out of cost budget"))
}

// Done releases what the evaluation of conditions took.
func (e *Evaluation) Done() {
	if e.stop != nil {
		e.stop()
	}
}

// match evaluates all conditions. One that is false decides; else one that failed makes the answer uncertain.
func (c *conditions) match(e *Evaluation) (Matching, error) {
	if c.namespace && e.Namespace.Unknown {
		return MatchUncertain, fmt.Errorf("%w: the namespace could not be looked up", errUncertain)
	}
	results, err := c.evaluate(e)
	if e.tooLong(err) {
		err = errTooLong
	}
	if err != nil {
		return MatchUncertain, fmt.Errorf("%w: %w", errUncertain, err)
	}
	var failed error
	for i, r := range results {
		switch {
		case r.Error != nil && failed == nil:
			// The API server's words repeat the whole expression before the cause.
			cause := r.Error.Error()
			if _, after, found := strings.Cut(cause, "' resulted in error: "); found {
				cause = after
			}
			if e.tooLong(r.Error) {
				cause = errTooLong.Error()
			}
			failed = fmt.Errorf("%w: %s: %s", errUncertain, c.names[i], cause)
		case r.Error == nil && r.EvalResult != types.True:
			return MatchNo, nil
		}
	}
	if failed != nil {
		return MatchUncertain, failed
	}
	return MatchYes, nil
}

func (c *conditions) evaluate(e *Evaluation) ([]plugincel.EvaluationResult, error) {
	if err := e.prepare(); err != nil {
		return nil, err
	}
	budget := min(e.cost, apiservercel.RuntimeCELCostBudgetMatchConditions)
	if budget == 0 || e.ctx.Err() != nil {
		return nil, errTooLong
	}
	results, left, err := c.evaluator.ForInput(e.ctx, e.attributes, e.review, plugincel.OptionalVariableBindings{}, e.namespace, budget)
	e.cost -= budget - max(left, 0) // -1 where it failed, as by costing too much
	return results, err
}

// prepare makes the variables of expressions, once: what a large pod costs most is its conversion.
func (e *Evaluation) prepare() error {
	if e.attributes != nil {
		return nil
	}
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	seen := withoutOwnFields(e.Pod)
	seen.SetGroupVersionKind(kind) // expressions may read object.kind
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(seen)
	if err != nil {
		return fmt.Errorf("convert the pod: %w", err)
	}
	pod := &unstructured.Unstructured{Object: content}
	e.review = &admissionv1.AdmissionRequest{
		Kind:      metav1.GroupVersionKind{Version: kind.Version, Kind: kind.Kind},
		Resource:  metav1.GroupVersionResource{Version: pods.Version, Resource: pods.Resource},
		Name:      e.Pod.Name,
		Namespace: e.Namespace.Name,
		Operation: admissionv1.Create,
		UserInfo:  e.User,
		DryRun:    new(e.DryRun),
	}
	attributes := admission.NewAttributesRecord(pod, nil, kind, e.Namespace.Name, e.Pod.Name, pods, "", admission.Create, nil, e.DryRun, nil)
	e.attributes = &admission.VersionedAttributes{Attributes: attributes, VersionedKind: kind, VersionedObject: pod}
	e.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace.Name, Labels: e.Namespace.Labels}}
	e.cost = maxCost
	e.ctx, e.stop = context.WithTimeout(context.Background(), maxTime)
	return nil
}
