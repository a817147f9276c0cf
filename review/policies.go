package review

import (
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
)

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
