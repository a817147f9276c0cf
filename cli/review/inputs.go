package review

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
)

// Inputs are documents that were read, in their order, and what could not be.
type Inputs struct {
	Files     int
	Documents []*manifest.Document
	LeftOut   []input.LeftOut
	Errors    []*manifest.Error
	// Listed are the kinds of which there was a typed list.
	Listed []manifest.Listed
	// Refused are errors of kubectl about what was read nevertheless.
	Refused []*manifest.Error
}

// Read reads all documents of the paths.
func Read(r *input.Reader, paths ...string) Inputs {
	var documents []*manifest.Document
	in := ReadEach(r, func(d *manifest.Document) { documents = append(documents, d) }, paths...)
	in.Documents = documents
	return in
}

// ReadEach is Read for who takes the documents one by one: the inputs have none.
func ReadEach(r *input.Reader, each func(*manifest.Document), paths ...string) Inputs {
	var in Inputs
	before, left, refused := r.Files, len(r.LeftOut), len(r.Refused)
	for d, err := range r.Read(paths...) {
		if err != nil {
			in.Errors = append(in.Errors, err)
		} else {
			each(d)
		}
	}
	in.Files, in.LeftOut = r.Files-before, r.LeftOut[left:]
	in.Listed, in.Refused = r.Listed, r.Refused[refused:]
	return in
}

// SetAside takes out of errors those about objects that can't be read before a variable is filled in, and that no decision needs.
func SetAside(errs []*manifest.Error) (wrong []*manifest.Error, left []input.LeftOut) {
	for _, e := range manifest.Unique(errs) {
		if e.Variable == "" {
			wrong = append(wrong, e)
		} else {
			left = append(left, input.LeftOut{Path: e.File, As: input.Variable, Why: e.Variable})
		}
	}
	return wrong, left
}

// LoadPolicies reads the PodPolicies of files and folders, and those among documents. What is wrong is in the errors, and
// the others are returned all the same. The same policy may be in both. NodePolicies and PolicyExceptions are only checked.
func LoadPolicies(paths []string, documents []*manifest.Document) ([]*v1alpha1.PodPolicy, []*manifest.Error) {
	policies, err := policyfile.Require(paths...)
	policies, errs := AddPolicies(policies, documents)
	return policies, manifest.Unique(append(manifest.Errors(err), errs...))
}

// AddPolicies adds the PodPolicies among documents, as LoadPolicies does.
func AddPolicies(policies []*v1alpha1.PodPolicy, documents []*manifest.Document) ([]*v1alpha1.PodPolicy, []*manifest.Error) {
	var errs []*manifest.Error
	for _, d := range documents {
		p, wrong := policyfile.Check(d)
		errs = append(errs, wrong...)
		if p == nil {
			continue
		}
		twice := slices.IndexFunc(policies, func(q *v1alpha1.PodPolicy) bool { return q.Name == p.Name })
		switch {
		case twice < 0:
			policies = append(policies, p)
		case !apiequality.Semantic.DeepEqual(policies[twice].Spec, p.Spec):
			errs = append(errs, &manifest.Error{File: d.File, Line: d.Line, Message: fmt.Sprintf("PodPolicy %s is there twice, and not the same", p.Name)})
		}
	}
	return policies, manifest.Locate(errs)
}

// UnknownFields says which fields of manifests the API does not have, as kubectl does with its strict validation: a typo would be
// dropped without a word. What is of a kind that no decision reads, an AdmissionReview, or an object that a cluster has stored
// already, perhaps of a later version, is passed over.
func (s *State) UnknownFields(ctx context.Context, documents []*manifest.Document) ([]*manifest.Error, error) {
	wrong := make([][]*manifest.Error, len(documents))
	err := Each(ctx, len(documents), nil, func(i int) bool {
		wrong[i] = s.unknownFields(documents[i])
		return true
	})
	return slices.Concat(wrong...), err
}

func (s *State) unknownFields(d *manifest.Document) []*manifest.Error {
	o, err := s.empty(d.APIVersion, d.Kind)
	if err != nil || o == nil || policyfile.IsPolicy(d) {
		return nil // which is checked where it is loaded
	}
	strict, err := json.UnmarshalStrict(d.JSON, o)
	if err != nil || stored(o) {
		return nil // what can't be decoded is told by the review
	}
	var errs []*manifest.Error
	for _, e := range strict {
		wrong := d.Wrong(fmt.Errorf("%s %s: %w", d.Kind, d.Name, e))
		if of, ok := errors.AsType[json.FieldError](e); ok {
			wrong.Field = of.FieldPath()
		}
		errs = append(errs, wrong)
	}
	return errs
}

// stored reports whether an object came out of a cluster.
func stored(o metav1.Object) bool { return o.GetUID() != "" || o.GetResourceVersion() != "" }
