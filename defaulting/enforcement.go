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
