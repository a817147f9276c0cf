package defaulting

import (
	stdjson "encoding/json"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

const sectionNode = "node"

// applyEnforcement writes the contract annotation, over whatever the user put there.
func applyEnforcement(req policy.Request, e *Effective, _ Facts, out *Result) {
	if !e.node.given() {
		out.unannotate(req.Pod, sectionNode, v1alpha1.AnnotationEnforcement, "no PodPolicy gives node settings to this pod")
		return
	}
	out.annotate(req.Pod, sectionNode, v1alpha1.AnnotationEnforcement, from[string]{encodeEnforcement(e.node.value), e.node.policy})
}

// validateEnforcement compares values. Generations would lag between replicas.
func validateEnforcement(req policy.Request, e *Effective, _ Facts, out *Result) {
	have, present := req.Pod.Annotations[v1alpha1.AnnotationEnforcement]
	switch {
	case !present && e.node.given():
		out.warn(becauseNotMutated, e.node.name(), "annotation %s is missing: the mutating webhook was not called, the node keeps its defaults for this pod instead of what PodPolicy %s says", v1alpha1.AnnotationEnforcement, e.node.name())
	case present && !e.node.given():
		out.deny(becauseEnforcementForged, "", wordsEnforcementUngiven, v1alpha1.AnnotationEnforcement)
	case present && !sameEnforcement(have, e.node.value):
		out.deny(becauseEnforcementForged, e.node.name(), wordsEnforcementOther,
			v1alpha1.AnnotationEnforcement, e.node.name(), encodeEnforcement(e.node.value))
	}
}

func encodeEnforcement(v *v1alpha1.Enforcement) string {
	text, err := stdjson.Marshal(v)
	if err != nil {
		panic(err) // a struct of numbers and strings
	}
	return string(text)
}

// sameEnforcement compares meanings, since a later webhook may have written the JSON again; but strictly: what another
// reader could take for something else, a field twice or in other case, is not the same.
func sameEnforcement(text string, want *v1alpha1.Enforcement) bool {
	var have v1alpha1.Enforcement
	strict, err := json.UnmarshalStrict([]byte(text), &have)
	return err == nil && len(strict) == 0 && equality.Semantic.DeepEqual(&have, want)
}

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
