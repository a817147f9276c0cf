package webhook

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// ValidatePolicies decides about /validate-policies. It refuses a policy of which a part can't be read, which the schema does not see, as
// policyfile does with one from a file; and it warns about what the policy's status would say of it later.
func (e *Engine) ValidatePolicies(ctx context.Context, req admission.Request) (Decision, error) {
	if req.Kind.Group != v1alpha1.GroupVersion.Group || req.SubResource != "" || len(req.Object.Raw) == 0 {
		return Decision{}, misdirected("policies that are created or changed", req)
	}
	switch req.Kind.Kind {
	case "PodPolicy":
		var p v1alpha1.PodPolicy
		if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &p); err != nil {
			return Decision{}, fmt.Errorf("decode the PodPolicy: %w", err)
		}
		unread := policy.UnreadFields(&p)
		p.ManagedFields = nil // what is not read is no fault of who writes the rest
		compiled, err := policy.Compile(&p)
		if err != nil {
			return invalid(err), nil
		}
		d := e.remarks(ctx, compiled)
		d.warnUnread(unread)
		return d, nil
	case "PolicyException":
		return e.validateException(req)
	case "NodePolicy":
		var p v1alpha1.NodePolicy
		if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &p); err != nil {
			return Decision{}, fmt.Errorf("decode the NodePolicy: %w", err)
		}
		if err := policy.CheckNodePolicy(&p); err != nil {
			return invalid(err), nil
		}
		var d Decision
		d.warnUnread(enforcement.UnreadFields(&p))
		for _, remark := range enforcement.ThresholdRemarks(&p.Spec, 0) {
			d.warn(becauseRemark, remark)
		}
		return d, nil
	}
	return Decision{}, misdirected("policies", req)
}

// warnUnread tells who writes a policy of fields that were written and are not read.
func (d *Decision) warnUnread(fields []string) {
	if len(fields) > 0 {
		d.warn(becauseRemark, fmt.Sprintf("written, and not read: %s. Is the CustomResourceDefinition older than the policy, or this webhook? (docs/versions.md)", strings.Join(fields, ", ")))
	}
}

// validateException refuses an exception that can't be read, and tells who asks for it what it would do, and that it takes a grant.
func (e *Engine) validateException(req admission.Request) (Decision, error) {
	var x v1alpha1.PolicyException
	if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &x); err != nil {
		return Decision{}, fmt.Errorf("decode the PolicyException: %w", err)
	}
	unread := policy.UnreadFieldsOf(&x)
	x.ManagedFields = nil // what is not read is no fault of who writes the rest
	compiled, err := policy.CompileException(&x)
	if err != nil {
		return invalid(err), nil
	}
	var d Decision
	d.warnUnread(unread)
	if !e.Ready() {
		return d, nil
	}
	// What is not granted yet would hide the rest.
	compiled.GrantedBy, compiled.Voided = cmp.Or(compiled.GrantedBy, "nobody yet"), nil
	if reason, message := compiled.State(e.Policies.Policies(), e.Now()); reason != v1alpha1.ReasonInForce {
		d.warn(becauseRemark, message)
	}
	d.warn(becauseRemark, fmt.Sprintf("it lifts nothing before it is granted by who has the verb %s on PodPolicy %s: kubectl podgrace grant -n %s %s. Each change of its spec voids that",
		v1alpha1.VerbExcept, x.Spec.Policy, req.Namespace, x.Name))
	return d, nil
}

// maxRemarks is how many remarks a policy's author gets at once: one may be about each other policy.
const maxRemarks = 5

// remarks are what the status would say of a policy that can be applied, as warnings. Before the informers have synced only what follows
// from the policy itself is known.
func (e *Engine) remarks(ctx context.Context, pol *policy.Policy) (d Decision) {
	all, problems := policy.Policies{pol}, []policy.Problem(nil)
	if e.Ready() {
		others := slices.DeleteFunc(slices.Clone(e.Policies.Policies()), func(p *policy.Policy) bool { return p.Name == pol.Name })
		all = policy.Sort(append(others, pol))
		if facts, err := e.Lookup.Facts(ctx, defaulting.Needs{}, "", nil); err == nil {
			problems = pol.Problems(facts.PriorityClasses)
		}
	}
	for _, p := range problems {
		d.warn(becauseRemark, p.Message)
	}
	for _, remark := range pol.Remarks(all, e.Exempt) {
		d.warn(becauseRemark, remark)
	}
	if n := len(d.Warnings) - maxRemarks; n > 0 {
		d.Warnings = d.Warnings[:maxRemarks]
		d.warn(becauseRemark, fmt.Sprintf("%d more in its status: kubectl get podpolicies %s -o yaml", n, pol.Name))
	}
	return d
}
