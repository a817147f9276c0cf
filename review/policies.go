package review

import (
	"errors"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policyfile"
	"github.com/podgrace/podgrace/review/input"
)

// stdin is the path that stands for standard input, and the file of what came from there.
const stdin = "-"

// LoadPolicies reads the PodPolicies of files and folders, and those among documents. What is wrong is in the errors, and
// the others are returned all the same. The same policy may be in both.
func LoadPolicies(paths []string, documents []*input.Document) ([]*v1alpha1.PodPolicy, []*input.Error) {
	policies, err := policyfile.Load(paths...)
	errs := inputErrors(err)
	var read []string
	for _, d := range documents {
		if d.Kind != "PodPolicy" || slices.Contains(read, d.File) {
			continue
		}
		found, err := policiesOf(d)
		if d.File != stdin {
			read = append(read, d.File) // all of the file's
		}
		errs = append(errs, inputErrors(err)...)
		for _, p := range found {
			twice := slices.IndexFunc(policies, func(q *v1alpha1.PodPolicy) bool { return q.Name == p.Name })
			switch {
			case twice < 0:
				policies = append(policies, p)
			case !apiequality.Semantic.DeepEqual(policies[twice].Spec, p.Spec):
				errs = append(errs, &input.Error{File: d.File, Line: d.Line, Message: fmt.Sprintf("PodPolicy %s is there twice, and not the same", p.Name)})
			}
		}
	}
	return policies, unique(errs)
}

// policiesOf reads a file's policies again, by its own text, so that errors name the line of a field.
func policiesOf(d *input.Document) ([]*v1alpha1.PodPolicy, error) {
	if d.File == stdin {
		return policyfile.Parse(d.File, d.JSON)
	}
	return policyfile.Load(d.File)
}

// inputErrors takes joined errors apart.
func inputErrors(err error) []*input.Error {
	if err == nil {
		return nil
	}
	if joined, is := err.(interface{ Unwrap() []error }); is {
		var errs []*input.Error
		for _, e := range joined.Unwrap() {
			errs = append(errs, inputErrors(e)...)
		}
		return errs
	}
	if at, is := errors.AsType[*policyfile.Error](err); is {
		return []*input.Error{{File: at.File, Line: at.Line, Message: at.Message}}
	}
	return []*input.Error{{Message: err.Error()}}
}

// unique leaves out what was said before: a file may have been read for two reasons.
func unique(errs []*input.Error) []*input.Error {
	var kept []*input.Error
	for _, e := range errs {
		if !slices.ContainsFunc(kept, func(k *input.Error) bool { return *k == *e }) {
			kept = append(kept, e)
		}
	}
	return kept
}
