package defaulting

import (
	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

const sectionRemoval = "removal"

// applyProtected records the controller for which a policy protects the pod, over whatever the user put there: the pod may lose it later.
func applyProtected(req policy.Request, e *Effective, _ Facts, out *Result) {
	by := e.records(req)
	if !by.given() {
		out.unannotate(req.Pod, sectionRemoval, v1alpha1.AnnotationProtected, "no PodPolicy protects this pod for its controller")
		return
	}
	out.annotate(req.Pod, sectionRemoval, v1alpha1.AnnotationProtected, by)
}

// validateProtected refuses a record that does not name the pod's controller. A true record that no policy requires is allowed: policies may have
// changed between the two calls, or differ between replicas.
func validateProtected(req policy.Request, e *Effective, _ Facts, out *Result) {
	have, present := req.Pod.Annotations[v1alpha1.AnnotationProtected]
	by := e.records(req)
	switch {
	case present && (have == "" || have != policy.RecordOf(req.Pod)):
		out.deny(becauseProtectionForged, "", wordsProtectedOther, v1alpha1.AnnotationProtected)
	case !present && by.given():
		out.warn(becauseNotMutated, by.name(), "annotation %s is missing: the mutating webhook was not called, so that the pod's controller is not recorded, for which PodPolicy %s protects it", v1alpha1.AnnotationProtected, by.name())
	}
}

// records returns the record of the pod's controller, and the first policy that protects the pod because of it. Policies that only warn, or
// allow, do not change pods.
func (e *Effective) records(req policy.Request) from[string] {
	if e.removal == nil {
		return from[string]{}
	}
	for _, r := range e.removal.policies {
		if policy.ActionOf(r.policy.Spec.Removal) != v1alpha1.RemovalDeny {
			continue
		}
		if record := r.policy.Protect.Record(req.Pod); record != "" {
			return from[string]{record, r.policy}
		}
	}
	return from[string]{}
}
