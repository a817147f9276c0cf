package review

import (
	"bytes"
	"fmt"
	"os"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policyfile"
	"github.com/podgrace/podgrace/review/input"
)

// stdin is the file of what came from standard input, and never that of a file of this name.
const stdin = "-"

// LoadPolicies reads the PodPolicies of files and folders, and those among documents. What is wrong is in the errors, and
// the others are returned all the same. The same policy may be in both. NodePolicies and PolicyExceptions are only checked.
func LoadPolicies(paths []string, documents []*input.Document) ([]*v1alpha1.PodPolicy, []*input.Error) {
	policies, err := policyfile.Require(paths...)
	policies, errs := AddPolicies(policies, documents)
	return policies, unique(append(PolicyErrors(err), errs...))
}

// AddPolicies adds the PodPolicies among documents, as LoadPolicies does.
func AddPolicies(policies []*v1alpha1.PodPolicy, documents []*input.Document) ([]*v1alpha1.PodPolicy, []*input.Error) {
	var errs []*input.Error
	whole, alone := map[string]bool{}, map[string]bool{} // files whose policies are read all at once, and one by one
	for _, d := range documents {
		file := d.Kind + " " + d.File
		if !isPolicy(d) || whole[file] {
			continue
		}
		var found []*v1alpha1.PodPolicy
		var wrong []*input.Error
		if !alone[file] {
			found, wrong, whole[file] = policiesOfFile(d)
		}
		if !whole[file] {
			alone[file] = true
			// Empty lines put the errors at the document.
			found, wrong = parsePolicies(d, append(bytes.Repeat([]byte("\n"), max(d.Line-1, 0)), d.JSON...))
		}
		errs = append(errs, wrong...)
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

func isPolicy(d *input.Document) bool {
	return d.Kind == "PodPolicy" || d.Kind == "NodePolicy" || d.Kind == "PolicyException"
}

// maxReread in bytes is how large a file of policies may be. A cluster's dump is larger.
const maxReread = 4 << 20

// policiesOfFile reads a document's file again, by its own text, so that errors name the line of a field. False: it can't be, as
// standard input and other pipes can't and what was rendered, or is no YAML as a whole.
func policiesOfFile(d *input.Document) ([]*v1alpha1.PodPolicy, []*input.Error, bool) {
	info, err := os.Stat(d.File)
	if d.File == stdin || d.Rendered || err != nil || !info.Mode().IsRegular() || info.Size() > maxReread {
		return nil, nil, false
	}
	text, err := os.ReadFile(d.File)
	if err != nil {
		return nil, nil, false
	}
	found, wrong := parsePolicies(d, text)
	return found, wrong, !slices.ContainsFunc(wrong, func(e *input.Error) bool { return e.Line == 0 })
}

// parsePolicies reads the policies of the document's kind. NodePolicies are checked, and not returned; so are exceptions, which the state has.
func parsePolicies(d *input.Document, text []byte) ([]*v1alpha1.PodPolicy, []*input.Error) {
	if d.Kind == "NodePolicy" {
		_, err := policyfile.ParseNodePolicies(d.File, text)
		return nil, PolicyErrors(err)
	}
	if d.Kind == "PolicyException" {
		_, err := policyfile.ParseExceptions(d.File, text)
		return nil, PolicyErrors(err)
	}
	found, err := policyfile.Parse(d.File, text)
	return found, PolicyErrors(err)
}

// PolicyErrors are errors of package policyfile, as those of other input are.
func PolicyErrors(err error) []*input.Error {
	var errs []*input.Error
	for _, e := range policyfile.Errors(err) {
		errs = append(errs, &input.Error{File: e.File, Line: e.Line, Message: e.Message})
	}
	return unique(errs)
}

// unique leaves out what was said before: a file is read for two kinds of policies, and perhaps for two reasons.
func unique(errs []*input.Error) []*input.Error {
	var kept []*input.Error
	for _, e := range errs {
		if !slices.ContainsFunc(kept, func(k *input.Error) bool { return *k == *e }) {
			kept = append(kept, e)
		}
	}
	return kept
}
