package limits

import (
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
)

// CEL has no clock, and a leader that would take an exception out at its end may be away. But the API server writes the time into a pod that is
// created before it validates it, whatever its creator had put there (k8s.io/apiserver/pkg/registry/generic/registry/store.go Store.Create and Update,
// pkg/registry/rest/meta.go FillObjectMetaSystemFields, 0.36.3). So an exception ends by itself at its second, with nobody there. What is granted,
// voided or deleted while no leader is there has to wait for one, as an edit of a policy has.

// created is when the pod is: it is absent only where nobody creates it, as in a review of manifests.
var created = admissionregistrationv1.Variable{Name: "created", Expression: "timestamp(object.metadata.?creationTimestamp.orValue('0001-01-01T00:00:00Z'))"}

// except makes the variables that say for which pods exceptions lift limits of the i-th policy.
func (s *subject) except(i int, exceptions defaulting.Exceptions) {
	if s.why != "" {
		return
	}
	of := map[v1alpha1.LiftedLimit][]string{}
	for _, x := range exceptions {
		if x.Spec.Policy != s.Name {
			continue
		}
		parts := []string{"request.namespace == " + text(x.Namespace)}
		requirements, why := selectors(x.Spec.PodSelector, "variables.labels")
		if why != "" {
			continue // which CompileException does not let pass
		}
		parts = append(append(parts, requirements...), "variables.created < timestamp("+text(x.Until.UTC().Format(time.RFC3339))+")")
		for _, limit := range x.Spec.Limits {
			of[limit] = append(of[limit], all(parts))
		}
	}
	for j, limit := range lifted {
		if conditions := of[limit]; len(conditions) > 0 {
			v := admissionregistrationv1.Variable{Name: fmt.Sprintf("lifted%d_%d", i, j), Expression: either(conditions)}
			s.variables = append(s.variables, v)
			s.lifted[limit] = "variables." + v.Name
		}
	}
}

// lifted are the limits of which an exception may lift any.
var lifted = []v1alpha1.LiftedLimit{v1alpha1.LiftAllowedClassNames, v1alpha1.LiftMinSeconds, v1alpha1.LiftMaxSeconds, v1alpha1.LiftPreStopMarginSeconds, v1alpha1.LiftZeroGrace}
