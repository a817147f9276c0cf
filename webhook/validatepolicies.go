package webhook

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
)

// ValidatePolicies answers /validate-policies. It refuses a policy of which a part can't be read, which the schema does not see, as
// policyfile does with one from a file; and it warns about what the policy's status would say of it later.
func (e *Engine) ValidatePolicies(ctx context.Context, req admission.Request) admission.Response {
	if req.Kind.Group != v1alpha1.GroupVersion.Group || req.SubResource != "" || len(req.Object.Raw) == 0 {
		return badRequest("this path is for policies that are created or changed, the request is for %s: check the rules of the webhook configuration", gvk(req))
	}
	switch req.Kind.Kind {
	case "PodPolicy":
		var p v1alpha1.PodPolicy
		if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &p); err != nil {
			return badRequest("decode the PodPolicy: %w", err)
		}
		compiled, err := policy.Compile(&p)
		if err != nil {
			return invalid(err)
		}
		return admission.Allowed("").WithWarnings(e.remarks(ctx, compiled)...)
	case "PolicyException":
		return e.validateException(req)
	case "NodePolicy":
		var p v1alpha1.NodePolicy
		if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &p); err != nil {
			return badRequest("decode the NodePolicy: %w", err)
		}
		if err := policy.CheckNodePolicy(&p); err != nil {
			return invalid(err)
		}
		return admission.Allowed("")
	}
	return badRequest("this path is for policies, the request is for %s: check the rules of the webhook configuration", gvk(req))
}

// validateException refuses an exception that can't be read, and tells who asks for it what it would do, and that it takes a grant.
func (e *Engine) validateException(req admission.Request) admission.Response {
	var x v1alpha1.PolicyException
	if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &x); err != nil {
		return badRequest("decode the PolicyException: %w", err)
	}
	compiled, err := policy.CompileException(&x)
	if err != nil {
		return invalid(err)
	}
	if !e.Ready() {
		return admission.Allowed("")
	}
	// What is not granted yet would hide the rest.
	compiled.GrantedBy, compiled.Voided = cmp.Or(compiled.GrantedBy, "nobody yet"), nil
	var warnings []string
	if reason, message := compiled.State(e.Policies.Policies(), e.Now()); reason != v1alpha1.ReasonInForce {
		warnings = append(warnings, string(defaulting.Shorten(message)))
	}
	warnings = append(warnings, string(defaulting.Shorten(fmt.Sprintf("it lifts nothing before it is granted by who has the verb %s on PodPolicy %s: kubectl podgrace grant -n %s %s. Each change of its spec voids that",
		v1alpha1.VerbExcept, x.Spec.Policy, req.Namespace, x.Name))))
	return admission.Allowed("").WithWarnings(warnings...)
}

// invalid refuses with the fields and what is wrong in each.
func invalid(err error) admission.Response {
	response := admission.Denied(err.Error())
	response.Result.Code, response.Result.Reason = http.StatusUnprocessableEntity, metav1.StatusReason(v1alpha1.ReasonInvalidSpec)
	response.AuditAnnotations = map[string]string{"denied": v1alpha1.ReasonInvalidSpec}
	response.Result.Details = &metav1.StatusDetails{}
	for _, cause := range policy.FieldErrors(err) {
		response.Result.Details.Causes = append(response.Result.Details.Causes, metav1.StatusCause{Type: metav1.CauseType(cause.Type), Field: cause.Field, Message: cause.ErrorBody()})
	}
	return response
}

// maxRemarks is how many remarks a policy's author gets at once: one may be about each other policy.
const maxRemarks = 5

// remarks are what the status would say of a policy that can be applied, as warnings. Before the informers have synced only what follows
// from the policy itself is known.
func (e *Engine) remarks(ctx context.Context, pol *policy.Policy) []string {
	all, problems := policy.Policies{pol}, []policy.Problem(nil)
	if e.Ready() {
		others := slices.DeleteFunc(slices.Clone(e.Policies.Policies()), func(p *policy.Policy) bool { return p.Name == pol.Name })
		all = policy.Sort(append(others, pol))
		if facts, err := e.Lookup.Facts(ctx, defaulting.Needs{}, "", nil); err == nil {
			problems = pol.Problems(facts.PriorityClasses)
		}
	}
	var warnings []string
	for _, p := range problems {
		warnings = append(warnings, string(defaulting.Shorten(p.Message)))
	}
	for _, remark := range pol.Remarks(all) {
		warnings = append(warnings, string(defaulting.Shorten(remark)))
	}
	if n := len(warnings) - maxRemarks; n > 0 {
		warnings = append(warnings[:maxRemarks], fmt.Sprintf("%d more in its status: kubectl get podpolicies %s -o yaml", n, pol.Name))
	}
	return warnings
}
