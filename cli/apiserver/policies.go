package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"github.com/podgrace/podgrace/deploy"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// Policies are Podgrace's ValidatingAdmissionPolicies as shipped, with their bindings. They may be used by several goroutines at
// once.
type Policies struct {
	policies []admissionPolicy
	rights   rights
}

type admissionPolicy struct {
	selection
	*admissionregistrationv1.ValidatingAdmissionPolicy
	binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	// validator is compiled when the first request gets as far.
	validator func() (*validator, error)
	// readsNamespace: an expression reads the namespace's labels.
	readsNamespace bool
}

// Denial is a refusal by the API server itself.
type Denial struct {
	// Policy is the name of the ValidatingAdmissionPolicy, or of the webhook that can't be called.
	Policy string
	Reason metav1.StatusReason
	// Message without the API server's words before it.
	Message string
	// Unknown: not all that the decision depends on is known, and this is the safe side.
	Unknown bool
}

// NewPolicies reads the policies. podPolicies are those in force.
func NewPolicies(podPolicies policy.Policies, exempt policy.Exempt) (*Policies, error) {
	return readPolicies(deploy.AdmissionPolicies, rights{podPolicies, exempt}, func(p *admissionregistrationv1.ValidatingAdmissionPolicy) { controllers.RenderExempt(p, exempt) })
}

// ReadPolicies reads other policies, and their bindings, from YAML documents. No PodPolicy is in force.
func ReadPolicies(text []byte) (*Policies, error) {
	return readPolicies(text, rights{}, func(*admissionregistrationv1.ValidatingAdmissionPolicy) {})
}

func readPolicies(text []byte, given rights, change func(*admissionregistrationv1.ValidatingAdmissionPolicy)) (*Policies, error) {
	objects, err := manifests("admission policies", text)
	if err != nil {
		return nil, err
	}
	bindings := map[string]*admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	for _, o := range objects {
		if b, ok := o.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding); ok {
			bindings[b.Spec.PolicyName] = b
		}
	}
	all := &Policies{rights: given}
	for _, o := range objects {
		definition, ok := o.(*admissionregistrationv1.ValidatingAdmissionPolicy)
		if !ok {
			continue
		}
		change(definition)
		p, err := newPolicy(definition, bindings[definition.Name])
		if err != nil {
			return nil, fmt.Errorf("admission policy %s: %w", definition.Name, err)
		}
		all.policies = append(all.policies, p)
	}
	return all, nil
}

func newPolicy(definition *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) (admissionPolicy, error) {
	if err := modelled(definition, binding); err != nil {
		return admissionPolicy{}, err
	}
	defaultPolicy(definition)
	match := definition.Spec.MatchConstraints
	rules := make([]admissionregistrationv1.RuleWithOperations, len(match.ResourceRules))
	for i, r := range match.ResourceRules {
		rules[i] = r.RuleWithOperations
	}
	selection, err := newSelection(rules, match.NamespaceSelector, match.ObjectSelector, *match.MatchPolicy)
	if err != nil {
		return admissionPolicy{}, err
	}
	return admissionPolicy{
		selection: selection, ValidatingAdmissionPolicy: definition, binding: binding, readsNamespace: readsNamespace(&definition.Spec),
		validator: sync.OnceValues(func() (*validator, error) { return compile(definition) }),
	}, nil
}

// modelled refuses what is not evaluated here, so that the policies as shipped can't come to mean something else offline.
func modelled(definition *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) error {
	switch {
	case binding == nil:
		return fmt.Errorf("it has no binding")
	case binding.Spec.MatchResources != nil:
		return fmt.Errorf("matchResources of a binding are not known here")
	case len(binding.Spec.ValidationActions) != 1 || binding.Spec.ValidationActions[0] != admissionregistrationv1.Deny:
		return fmt.Errorf("validationActions other than Deny are not known here")
	case definition.Spec.ParamKind != nil && !everyParam(binding.Spec.ParamRef):
		return fmt.Errorf("a paramRef other than to all, or none, is not known here")
	case definition.Spec.MatchConstraints != nil && len(definition.Spec.MatchConstraints.ExcludeResourceRules) > 0:
		return fmt.Errorf("excludeResourceRules are not known here")
	}
	if definition.Spec.MatchConstraints != nil {
		for _, r := range definition.Spec.MatchConstraints.ResourceRules {
			if len(r.ResourceNames) > 0 {
				return fmt.Errorf("resourceNames are not known here")
			}
		}
	}
	return nil
}

func everyParam(ref *admissionregistrationv1.ParamRef) bool {
	return ref != nil && ref.Name == "" && ref.Namespace == "" && ref.Selector != nil && len(ref.Selector.MatchLabels)+len(ref.Selector.MatchExpressions) == 0 &&
		ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionregistrationv1.AllowAction
}

func readsNamespace(spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) bool {
	for _, v := range spec.Variables {
		if strings.Contains(v.Expression, plugincel.NamespaceVarName) {
			return true
		}
	}
	for _, v := range spec.Validations {
		if strings.Contains(v.Expression+v.MessageExpression, plugincel.NamespaceVarName) {
			return true
		}
	}
	return false
}

// Validate returns all refusals of a request, of which the API server gives the user the first, and what they depend on and the
// request does not say, a phrase each.
func (p *Policies) Validate(ctx context.Context, r Request) ([]Denial, []string, error) {
	var denials []Denial
	var unknown phrases
	evaluation := &evaluation{Request: &r}
	for i := range p.policies {
		vap := &p.policies[i]
		matches, sure := vap.matches(&r, evaluation.plain())
		if !matches {
			continue
		}
		found, err := vap.judge(ctx, evaluation, p.rights, &unknown)
		if err != nil {
			return nil, nil, fmt.Errorf("admission policy %s: %w", vap.Name, err)
		}
		if len(found) > 0 && !sure {
			unknown.add(namespaceUnknown(&r))
			for i := range found {
				found[i].Unknown = true
			}
		}
		denials = append(denials, found...)
	}
	return denials, unknown, nil
}

// judge evaluates the policy once for each of its parameters.
func (p *admissionPolicy) judge(ctx context.Context, e *evaluation, given rights, unknown *phrases) ([]Denial, error) {
	versioned, err := e.versioned()
	if err != nil {
		return nil, err
	}
	validator, err := p.validator()
	if err != nil {
		return nil, err
	}
	params, err := p.params(e.Request)
	if err != nil {
		return nil, err
	}
	var denials []Denial
	for _, param := range params {
		rights := given.recorder(e.Request)
		namespace, sure := p.namespaceFor(e.Request, param)
		for _, v := range validator.evaluate(ctx, &p.Spec, versioned, param, namespace, rights) {
			switch {
			case v.failed && !sure:
				unknown.add(namespaceUnknown(e.Request))
				denials = append(denials, Denial{Policy: p.Name, Reason: metav1.StatusReasonForbidden, Message: unsure(namespaceUnknown(e.Request), param), Unknown: true})
			case v.refused:
				unknown.add(rights.unknown...)
				denials = append(denials, Denial{Policy: p.Name, Reason: cmp.Or(v.reason, metav1.StatusReasonInvalid), Message: v.message, Unknown: len(rights.unknown) > 0})
			}
		}
	}
	return denials, nil
}

func unsure(what string, param runtime.Object) string {
	by := ""
	if named, ok := param.(metav1.Object); ok && named.GetName() != "" {
		by = " (" + param.GetObjectKind().GroupVersionKind().Kind + " " + named.GetName() + ")"
	}
	return what + " are not known, and decide whether this is refused" + by
}

// namespaceFor is the namespace as the expressions see it. Of an unknown one they see nothing, so that one that reads it
// fails, but where the parameter selects namespaces by their names alone.
func (p *admissionPolicy) namespaceFor(r *Request, param runtime.Object) (namespace *corev1.Namespace, sure bool) {
	switch {
	case r.AdmissionRequest.Namespace == "":
		return nil, true
	case r.Namespace != nil || !p.readsNamespace || selectsByName(param):
		return r.namespace(), true
	}
	return nil, false
}
