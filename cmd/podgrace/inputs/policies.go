package inputs

import (
	"errors"
	"fmt"
	"slices"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cmd/podgrace/cli"
	"github.com/podgrace/podgrace/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
)

// LoadExceptions reads the exceptions that are beside the policies of a flag, which were read before: what can't be read at all was said of them.
func LoadExceptions(flag string, paths []string) ([]*v1alpha1.PolicyException, []*manifest.Error) {
	known, err := gitFiles(flag, paths)
	if err != nil {
		return nil, nil
	}
	exceptions, err := policyfile.LoadExceptions(known, paths...)
	return exceptions, slices.DeleteFunc(manifest.Errors(err), func(e *manifest.Error) bool { return e.Line == 0 })
}

// loadNodePolicies reads the NodePolicies beside the policies of a flag. What can't be read of them was said of the files.
func loadNodePolicies(flag string, paths []string) []*v1alpha1.NodePolicy {
	known, err := gitFiles(flag, paths)
	if err != nil {
		return nil
	}
	policies, _ := policyfile.LoadNodePolicies(known, paths...)
	return policies
}

// RequirePolicies reads the policies of a flag. The error is that of a path that can't be read or has none: what is judged without
// them would mislead. What is wrong within a file is among the others.
func RequirePolicies(flag string, paths []string) ([]*v1alpha1.PodPolicy, []*manifest.Error, error) {
	known, err := gitFiles(flag, paths)
	if err != nil {
		return nil, nil, cli.UsageError{Err: err}
	}
	policies, err := policyfile.RequireWith(known, paths...)
	wrong := manifest.Errors(err)
	return policies, wrong, WrongPath(flag, err)
}

// WrongPath is what is wrong with the paths of a flag as a whole, if anything is.
func WrongPath(flag string, err error) error {
	var errs []error
	for _, e := range manifest.Errors(err) {
		switch {
		case e.Whole && e.File == "-":
			errs = append(errs, fmt.Errorf("%s -: policies are read from files and folders, not from stdin", flag))
		case e.Whole:
			errs = append(errs, fmt.Errorf("%s %s: %s", flag, e.File, e.Message))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return cli.UsageError{Err: errors.Join(errs...)}
}
