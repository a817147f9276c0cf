package apiserver

import (
	"context"
	"strings"

	"github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
)

// verdict is what one validation says.
type verdict struct {
	refused bool
	// failed: the expression could not be evaluated, which refuses where the policy fails closed.
	failed  bool
	reason  metav1.StatusReason
	message string
}

// evaluate does what the API server does for one policy and one parameter
// (k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go Validate, 0.36.3).
func (v *validator) evaluate(ctx context.Context, spec *admissionregistrationv1.ValidatingAdmissionPolicySpec, versioned *admission.VersionedAttributes,
	param runtime.Object, namespace *corev1.Namespace, rights *recorder,
) []verdict {
	closed := *spec.FailurePolicy == admissionregistrationv1.Fail
	failed := func(err error) verdict { return verdict{refused: closed, failed: true, message: err.Error()} }
	if v.matcher != nil {
		switch result := v.matcher.Match(ctx, versioned, param, rights); {
		case result.Error != nil:
			return []verdict{failed(result.Error)}
		case !result.Matches:
			return nil
		}
	}
	request := plugincel.CreateAdmissionRequest(versioned.Attributes, metav1.GroupVersionResource(versioned.GetResource()), metav1.GroupVersionKind(versioned.VersionedKind))
	results, budget, err := v.validations.ForInput(ctx, versioned, request, plugincel.OptionalVariableBindings{VersionedParams: param, Authorizer: rights},
		plugincel.CreateNamespaceObject(namespace), apiservercel.RuntimeCELCostBudget)
	if err != nil {
		return []verdict{failed(err)}
	}
	messages, _, err := v.messages.ForInput(ctx, versioned, request, plugincel.OptionalVariableBindings{VersionedParams: param}, plugincel.CreateNamespaceObject(namespace), budget)
	verdicts := make([]verdict, len(results))
	for i, result := range results {
		switch {
		case result.Error != nil:
			verdicts[i] = failed(result.Error)
		case err != nil:
			verdicts[i] = failed(err)
		case result.EvalResult != types.True:
			verdicts[i] = refusal(&spec.Validations[i], messages[i])
		}
	}
	return verdicts
}

// refusal has the evaluated message, or the fixed one where that failed or can't be shown in a line.
func refusal(v *admissionregistrationv1.Validation, evaluated plugincel.EvaluationResult) verdict {
	d := verdict{refused: true, reason: metav1.StatusReasonInvalid}
	if v.Reason != nil {
		d.reason = *v.Reason
	}
	if evaluated.Error == nil && evaluated.EvalResult != nil {
		text, _ := evaluated.EvalResult.Value().(string)
		if text = strings.TrimSpace(text); len(text) <= apiservercel.MaxEvaluatedMessageExpressionSizeBytes && !strings.Contains(text, "\n") {
			d.message = text
		}
	}
	if d.message == "" {
		d.message = strings.TrimSpace(v.Message)
	}
	if d.message == "" {
		d.message = "failed expression: " + strings.TrimSpace(v.Expression)
	}
	return d
}
