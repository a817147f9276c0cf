package defaulting

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"

	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
var ownFields = regexp.MustCompile(`\b(?:priorityClassName|preemptionPolicy|terminationGracePeriodSeconds|topologySpreadConstraints)\b|\bspec\.\??priority\b|podgrace\.dev/enforcement`)

// withoutOwnFields returns the pod as conditions see it: without what Podgrace writes, however an expression may come to
// read it, so that the answer is the same before and after. The copy is shallow.
func withoutOwnFields(pod *corev1.Pod) *corev1.Pod {
	seen := *pod
	seen.Spec.PriorityClassName, seen.Spec.Priority, seen.Spec.PreemptionPolicy = "", nil, nil
	seen.Spec.TerminationGracePeriodSeconds, seen.Spec.TopologySpreadConstraints = nil, nil
	if _, ok := pod.Annotations[v1alpha1.AnnotationEnforcement]; ok {
		seen.Annotations = maps.Clone(pod.Annotations)
		delete(seen.Annotations, v1alpha1.AnnotationEnforcement)
	}
	return &seen
}

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
			errs = append(errs, field.Invalid(path.Index(i).Child("expression"), list[i].Expression, fmt.Sprintf("%s is written by Podgrace: a condition on it would no longer match after it was applied, and the pod would be judged anew", m)))
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

// match evaluates all conditions. One that is false decides; else one that failed makes the answer uncertain.
func (c *conditions) match(req Request) (matching, error) {
	if c.namespace && req.Namespace.Unknown {
		return matchUncertain, fmt.Errorf("%w: the namespace could not be looked up", errUncertain)
	}
	results, err := c.evaluate(req)
	if err != nil {
		return matchUncertain, fmt.Errorf("%w: %w", errUncertain, err)
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
			failed = fmt.Errorf("%w: %s: %s", errUncertain, c.names[i], cause)
		case r.Error == nil && r.EvalResult != types.True:
			return matchNo, nil
		}
	}
	if failed != nil {
		return matchUncertain, failed
	}
	return matchYes, nil
}

func (c *conditions) evaluate(req Request) ([]plugincel.EvaluationResult, error) {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	review := &admissionv1.AdmissionRequest{
		Kind:      metav1.GroupVersionKind{Version: kind.Version, Kind: kind.Kind},
		Resource:  metav1.GroupVersionResource{Version: pods.Version, Resource: pods.Resource},
		Name:      req.Pod.Name,
		Namespace: req.Namespace.Name,
		Operation: admissionv1.Create,
		UserInfo:  req.User,
		DryRun:    new(req.DryRun),
	}
	pod := withoutOwnFields(req.Pod)
	pod.SetGroupVersionKind(kind) // expressions may read object.kind
	attributes := admission.NewAttributesRecord(pod, nil, kind, req.Namespace.Name, req.Pod.Name, pods, "", admission.Create, nil, req.DryRun, nil)
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: kind, VersionedObject: pod}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: req.Namespace.Name, Labels: req.Namespace.Labels}}
	results, _, err := c.evaluator.ForInput(context.Background(), versioned, review, plugincel.OptionalVariableBindings{}, namespace, apiservercel.RuntimeCELCostBudgetMatchConditions)
	return results, err
}
