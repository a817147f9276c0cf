package review

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
)

// UnknownFields says which fields of manifests the API does not have, as kubectl does with its strict validation: a typo would be
// dropped without a word. What is of a kind that no decision reads, an AdmissionReview, or an object that a cluster has stored
// already, perhaps of a later version, is passed over.
func (s *State) UnknownFields(documents []*manifest.Document) []*manifest.Error {
	var errs []*manifest.Error
	for _, d := range documents {
		o, err := s.empty(d.APIVersion, d.Kind)
		if err != nil || o == nil || policyfile.IsPolicy(d) {
			continue // which is checked where it is loaded
		}
		strict, err := json.UnmarshalStrict(d.JSON, o)
		if err != nil || stored(o) {
			continue // what can't be decoded is told by the review
		}
		for _, e := range strict {
			wrong := d.Wrong(fmt.Errorf("%s %s: %w", d.Kind, d.Name, e))
			if of, is := errors.AsType[json.FieldError](e); is {
				wrong.Field = of.FieldPath()
			}
			errs = append(errs, wrong)
		}
	}
	return errs
}

// stored says whether an object came out of a cluster.
func stored(o metav1.Object) bool { return o.GetUID() != "" || o.GetResourceVersion() != "" }
