package apiserver

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
)

// baseEnvironment is made when the first expression is compiled: it takes some MiB. It is the one that an API server of this
// version has by default.
var baseEnvironment = sync.OnceValue(func() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
})

// conditionCompiler is for webhooks (k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go NewWebhook, 0.36.3).
var conditionCompiler = sync.OnceValue(func() plugincel.ConditionCompiler {
	return plugincel.NewConditionCompiler(baseEnvironment())
})

// expression is one of CEL, with the name of a variable or none.
type expression struct {
	name, text string
	results    []*cel.Type
}

// GetName is for variables.
func (e *expression) GetName() string { return e.name }

// GetExpression is for the compiler.
func (e *expression) GetExpression() string { return e.text }

// ReturnTypes are those that are allowed.
func (e *expression) ReturnTypes() []*cel.Type { return e.results }

// compileConditions is nil where there are none.
func compileConditions(compiler plugincel.ConditionCompiler, conditions []admissionregistrationv1.MatchCondition, options plugincel.OptionalVariableDeclarations,
	failure *admissionregistrationv1.FailurePolicyType, kind, operation, name string,
) (matchconditions.Matcher, error) {
	if len(conditions) == 0 {
		return nil, nil
	}
	accessors := make([]plugincel.ExpressionAccessor, len(conditions))
	for i := range conditions {
		accessors[i] = (*matchconditions.MatchCondition)(&conditions[i])
	}
	evaluator := compiler.CompileCondition(accessors, options, environment.StoredExpressions)
	for _, err := range evaluator.CompilationErrors() {
		return nil, fmt.Errorf("%s: match conditions: %w", name, err)
	}
	return matchconditions.NewMatcher(evaluator, failure, kind, operation, name), nil
}

// validator is a compiled ValidatingAdmissionPolicy.
type validator struct {
	matcher matchconditions.Matcher
	// validations and, at the same places, their messages.
	validations, messages plugincel.ConditionEvaluator
}

// compile makes of a policy what the API server makes of it (k8s.io/apiserver/pkg/admission/plugin/policy/validating/plugin.go
// compilePolicy, 0.36.3; that package brings gRPC and tracing with it).
func compile(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (*validator, error) {
	spec := &policy.Spec
	full := plugincel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil, HasAuthorizer: true}
	compiler, err := plugincel.NewCompositedCompiler(baseEnvironment())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", policy.Name, err)
	}
	for _, v := range spec.Variables {
		e := &expression{name: v.Name, text: v.Expression, results: []*cel.Type{cel.AnyType, cel.DynType}}
		if result := compiler.CompileAndStoreVariable(e, full, environment.StoredExpressions); result.Error != nil {
			return nil, fmt.Errorf("%s: variable %s: %w", policy.Name, v.Name, result.Error)
		}
	}
	v := &validator{}
	if v.matcher, err = compileConditions(compiler, spec.MatchConditions, full, spec.FailurePolicy, "policy", "validate", policy.Name); err != nil {
		return nil, err
	}
	validations, messages := validationsOf(spec.Validations)
	v.validations = compiler.CompileCondition(validations, full, environment.StoredExpressions)
	v.messages = compiler.CompileCondition(messages, plugincel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil}, environment.StoredExpressions)
	for _, err := range append(v.validations.CompilationErrors(), v.messages.CompilationErrors()...) {
		return nil, fmt.Errorf("%s: validations: %w", policy.Name, err)
	}
	return v, nil
}

// validationsOf has nil for a message that is none.
func validationsOf(list []admissionregistrationv1.Validation) (validations, messages []plugincel.ExpressionAccessor) {
	messages = make([]plugincel.ExpressionAccessor, len(list))
	for i, v := range list {
		validations = append(validations, &expression{text: v.Expression, results: []*cel.Type{cel.BoolType}})
		if v.MessageExpression != "" {
			messages[i] = &expression{text: v.MessageExpression, results: []*cel.Type{cel.StringType}}
		}
	}
	return validations, messages
}
