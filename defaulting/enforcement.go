package defaulting

import (
	stdjson "encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

const (
	sectionNode     = "node"
	annotationsPath = "/metadata/annotations"
)

// enforcementPath is the JSON pointer of the contract annotation; a slash in a key is written ~1 (RFC 6901).
var enforcementPath = annotationsPath + "/" + strings.ReplaceAll(v1alpha1.AnnotationEnforcement, "/", "~1")

// applyEnforcement writes the contract annotation, over whatever the user put there.
func applyEnforcement(req Request, e *Effective, _ Facts, out *Result) {
	have, present := req.Pod.Annotations[v1alpha1.AnnotationEnforcement]
	if !e.node.given() {
		if present {
			out.change(sectionNode, OperationRemove, enforcementPath, nil, "no PodPolicy gives node settings to this pod")
			out.warn("annotation %s is written by Podgrace only: it was removed", v1alpha1.AnnotationEnforcement)
		}
		return
	}
	want := encodeEnforcement(e.node.value)
	if have == want {
		return
	}
	if present {
		out.warn("annotation %s is written by Podgrace only: it was replaced", v1alpha1.AnnotationEnforcement)
	}
	if len(req.Pod.Annotations) == 0 {
		out.change(sectionNode, OperationAdd, annotationsPath, map[string]string{v1alpha1.AnnotationEnforcement: want}, "PodPolicy %s", e.node.name())
		return
	}
	out.change(sectionNode, OperationAdd, enforcementPath, want, "PodPolicy %s", e.node.name())
}

// validateEnforcement compares values. Generations would lag between replicas.
func validateEnforcement(req Request, e *Effective, _ Facts, out *Result) {
	have, present := req.Pod.Annotations[v1alpha1.AnnotationEnforcement]
	switch {
	case !present && e.node.given():
		out.warn("annotation %s is missing: the mutating webhook was not called, the node keeps its defaults for this pod instead of what PodPolicy %s says", v1alpha1.AnnotationEnforcement, e.node.name())
	case present && !e.node.given():
		out.deny("EnforcementForged", "annotation %s is written by Podgrace only, and no PodPolicy gives node settings to this pod. Remove the annotation; if a policy was being changed this moment, try again", v1alpha1.AnnotationEnforcement)
	case present && !sameEnforcement(have, e.node.value):
		out.deny("EnforcementForged", "annotation %s does not hold what PodPolicy %s gives (%s). Remove it and create the pod again; if the policy was being changed this moment, try again",
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

// sameEnforcement compares meanings, since a later webhook may have written the JSON anew; but strictly: what another
// reader could take for something else, a field twice or in other case, is not the same.
func sameEnforcement(text string, want *v1alpha1.Enforcement) bool {
	var have v1alpha1.Enforcement
	strict, err := json.UnmarshalStrict([]byte(text), &have)
	return err == nil && len(strict) == 0 && equality.Semantic.DeepEqual(&have, want)
}
