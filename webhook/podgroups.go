package webhook

import (
	"context"
	"fmt"

	schedulingv1 "k8s.io/api/scheduling/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/defaulting"
)

// podGroup are the fields that are read of a PodGroup or a Workload, alike in all API versions so far; each version of Kubernetes had another.
type podGroup struct {
	Spec struct {
		PriorityClassName string `json:"priorityClassName"`
		PodGroupTemplates []struct {
			Name              string `json:"name"`
			PriorityClassName string `json:"priorityClassName"`
		} `json:"podGroupTemplates"`
	} `json:"spec"`
}

// ValidatePodGroups decides about /validate-pod-groups. It refuses a PodGroup whose class its pods may not have, and warns who applies a Workload that
// would make such a one.
func (e *Engine) ValidatePodGroups(ctx context.Context, req admission.Request) (d Decision, err error) {
	if req.Kind.Group != schedulingv1.GroupName || req.Kind.Kind != "PodGroup" && req.Kind.Kind != "Workload" || req.SubResource != "" {
		return d, misdirected("PodGroups and Workloads", req)
	}
	var group podGroup
	if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &group); err != nil {
		return d, fmt.Errorf("decode the %s: %w", req.Kind.Kind, err)
	}
	if !e.Ready() {
		return e.missed(PathValidatePodGroups, "the class of this "+req.Kind.Kind+" was not checked", errNotReady), nil
	}
	namespace, policies := e.Lookup.Namespace(ctx, req.Namespace), e.Policies.Policies()
	if req.Kind.Kind == "PodGroup" {
		d.Result = defaulting.ValidatePodGroup(policies, group.Spec.PriorityClassName, namespace, e.Exempt)
		e.Metrics.decided(req, d.Result)
		e.Metrics.except(req, d.Result)
		return d, nil
	}
	for _, template := range group.Spec.PodGroupTemplates {
		for _, denial := range defaulting.ValidatePodGroup(policies, template.PriorityClassName, namespace, e.Exempt).Denials {
			if len(d.Warnings) < maxRemarks {
				d.warnBy(denial.Reason, denial.Policy, fmt.Sprintf("its PodGroups of template %s will be refused: %s", template.Name, denial.Message))
			}
		}
	}
	return d, nil
}
