package load

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
)

// PolicyFiles are the files of a flag that names policies.
type PolicyFiles struct {
	flag  string
	paths []string
	// known are those that are not read by their paths: of commits, stdin, and pipes, which can be read only once.
	known map[string][]policyfile.File
}

// ReadPolicyFiles reads the paths that are of commits or can be read only once.
func ReadPolicyFiles(flag string, paths []string, stdin io.Reader) (*PolicyFiles, error) {
	known, err := gitFiles(flag, paths)
	if err != nil {
		return nil, terminal.UsageError{Err: err}
	}
	for _, path := range paths {
		if !readOnce(path) || known[path] != nil {
			continue
		}
		text, err := readPipe(path, stdin)
		if err != nil {
			return nil, terminal.UsageError{Err: fmt.Errorf("%s %s: %s", flag, path, manifest.Reason(err))}
		}
		known[path] = []policyfile.File{{Name: path, Text: text}}
	}
	return &PolicyFiles{flag, paths, known}, nil
}

// readPipe reads stdin or a pipe; a byte more than is read of a file shows that there is too much.
func readPipe(path string, stdin io.Reader) ([]byte, error) {
	if path == manifest.Stdin {
		if stdin == nil {
			return nil, nil
		}
		return io.ReadAll(io.LimitReader(stdin, maxPolicyFile+1))
	}
	pipe, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer pipe.Close()
	return io.ReadAll(io.LimitReader(pipe, maxPolicyFile+1))
}

// Require returns the PodPolicies. The error is that of a path that can't be read or has none: what is judged without
// them would mislead. What is wrong within a file is among the others.
func (f *PolicyFiles) Require() ([]*v1alpha1.PodPolicy, []*manifest.Error, error) {
	policies, err := policyfile.RequireWith(f.known, f.paths...)
	return policies, manifest.Errors(err), WrongPath(f.flag, err)
}

// Load is Require for paths that may have no PodPolicy.
func (f *PolicyFiles) Load() ([]*v1alpha1.PodPolicy, []*manifest.Error, error) {
	policies, err := policyfile.LoadWith(f.known, f.paths...)
	return policies, manifest.Errors(err), WrongPath(f.flag, err)
}

// Exceptions returns those beside the policies: what can't be read at all was said of the policies.
func (f *PolicyFiles) Exceptions() ([]*v1alpha1.PolicyException, []*manifest.Error) {
	exceptions, err := policyfile.LoadExceptions(f.known, f.paths...)
	return exceptions, slices.DeleteFunc(manifest.Errors(err), func(e *manifest.Error) bool { return e.Line == 0 })
}

// NodePolicies returns those beside the policies. What can't be read of them was said of the files.
func (f *PolicyFiles) NodePolicies() []*v1alpha1.NodePolicy {
	policies, _ := policyfile.LoadNodePolicies(f.known, f.paths...)
	return policies
}

// WrongPath is what is wrong with the paths of a flag as a whole, if anything is.
func WrongPath(flag string, err error) error {
	var errs []error
	for _, e := range manifest.Errors(err) {
		switch {
		case e.Whole:
			errs = append(errs, fmt.Errorf("%s %s: %s", flag, e.File, e.Message))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return terminal.UsageError{Err: errors.Join(errs...)}
}
