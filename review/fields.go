package review

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/review/input"
)

// UnknownFields says which fields of manifests the API does not have, as kubectl does with its strict validation: a typo would be
// dropped without a word. What is of a kind that no decision reads, an AdmissionReview, or an object that a cluster has stored
// already, perhaps of a later version, is passed over.
func (s *State) UnknownFields(documents []*input.Document) []*input.Error {
	var errs []*input.Error
	for _, d := range documents {
		o, err := s.empty(d.APIVersion, d.Kind)
		if err != nil || o == nil || d.Kind == "PodPolicy" || d.Kind == "NodePolicy" {
			continue // policies are checked where they are loaded
		}
		strict, err := json.UnmarshalStrict(d.JSON, o)
		if err != nil || stored(o) {
			continue // what can't be decoded is told by the review
		}
		for _, e := range strict {
			errs = append(errs, &input.Error{File: d.File, Line: d.Line, Message: fmt.Sprintf("%s %s: %v", d.Kind, d.Name, e)})
		}
	}
	return errs
}

// stored says whether an object came out of a cluster.
func stored(o metav1.Object) bool { return o.GetUID() != "" || o.GetResourceVersion() != "" }
