package suite

import (
	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/manifest"
	"github.com/podgrace/podgrace/review"
)

// Status is what came of a case.
type Status string

// The statuses. Errored is a case that could not be judged: its Error says why.
const (
	Passed  Status = "Passed"
	Failed  Status = "Failed"
	Updated Status = "Updated"
	Errored Status = "Error"
)

// Outcome is what came of one case.
type Outcome struct {
	Suite       string        `json:"suite"`
	Case        string        `json:"case"`
	Source      review.Source `json:"source"`
	Status      Status        `json:"status"`
	Differences []Difference  `json:"differences,omitempty"`
	Error       string        `json:"error,omitempty"`
	// Result is what happened; nil with an Error.
	Result *review.Result `json:"result,omitempty"`

	suite *Suite
	of    *Case
}

// Summary counts. Errors are cases that could not be judged, and whatever else is wrong with the input.
type Summary struct {
	Suites  int `json:"suites"`
	Cases   int `json:"cases"`
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Updated int `json:"updated"`
	Errors  int `json:"errors"`
}

// Report is the outcome of a test: cases in the order of the suites and in their own.
type Report struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Summary    Summary           `json:"summary"`
	Cases      []*Outcome        `json:"cases"`
	Errors     []*manifest.Error `json:"errors,omitempty"`
}

func newReport() *Report {
	return &Report{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TestReport", Cases: []*Outcome{}}
}

// AddErrors puts what was wrong before the run in front of what is.
func (r *Report) AddErrors(errs ...*manifest.Error) {
	r.Errors = append(errs, r.Errors...)
	r.count()
}

// count counts all but the suites.
func (r *Report) count() {
	r.Summary = Summary{Suites: r.Summary.Suites, Cases: len(r.Cases), Errors: len(r.Errors)}
	for _, o := range r.Cases {
		switch o.Status {
		case Passed:
			r.Summary.Passed++
		case Failed:
			r.Summary.Failed++
		case Updated:
			r.Summary.Updated++
		case Errored:
			r.Summary.Errors++
		}
	}
}
