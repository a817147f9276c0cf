package suite

import (
	"fmt"
	"io"
	"strings"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/junit"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
)

// Status is what came of a case.
type Status string

// The statuses. Errored is a case that could not be judged, or that expects nothing: its Error says why.
const (
	Passed  Status = "Passed"
	Failed  Status = "Failed"
	Errored Status = "Error"
)

// Outcome is what came of one case.
type Outcome struct {
	Suite       string          `json:"suite"`
	Case        string          `json:"case"`
	Source      manifest.Source `json:"source"`
	Status      Status          `json:"status"`
	Differences []Difference    `json:"differences,omitempty"`
	Error       string          `json:"error,omitempty"`
	// Result is what happened; nil if the case could not be judged.
	Result *review.Result `json:"result,omitempty"`

	suite *Suite
	of    *Case
}

// Summary counts. Errors are cases that could not be judged, and whatever else is wrong with the input.
type Summary struct {
	Suites int `json:"suites"`
	Cases  int `json:"cases"`
	Passed int `json:"passed"`
	Failed int `json:"failed"`
	Errors int `json:"errors"`
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
		case Errored:
			r.Summary.Errors++
		}
	}
}

// Options of a print.
type Options struct {
	Style console.Style
	// Verbose: the table says what happened in each case.
	Verbose bool
}

type printer struct {
	name  string
	print func(io.Writer, *Report, Options) error
}

// printers in the order in which a person is offered them.
var printers = []printer{
	{"table", writeTable},
	{"junit", func(w io.Writer, r *Report, _ Options) error { return writeJUnit(w, r) }},
	{"json", func(w io.Writer, r *Report, _ Options) error { return console.EncodeJSON(w, r) }},
}

// Formats are the names of all formats, the default first.
func Formats() []string {
	var names []string
	for _, p := range printers {
		names = append(names, p.name)
	}
	return names
}

// Write prints the report in one of Formats.
func Write(w io.Writer, format string, r *Report, o Options) error {
	for _, p := range printers {
		if p.name == format {
			if err := p.print(w, r, o); err != nil {
				return fmt.Errorf("print the report as %s: %w", format, err)
			}
			return nil
		}
	}
	return fmt.Errorf("unknown format %q: it is one of %s", format, strings.Join(Formats(), ", "))
}

// writeJUnit has a suite for each suite. What is wrong with the input is a test case in error, in a suite of the file's name.
func writeJUnit(w io.Writer, r *Report) error {
	all := &junit.Suites{Name: "podgrace test"}
	for _, o := range r.Cases {
		all.Add(shown(o.Suite), shown(o.Source.File), junitOf(o))
	}
	for _, e := range r.Errors {
		file := shown(e.File)
		all.Add(file, file, junit.Case{Name: junit.InputName(e.Line), Error: &junit.Problem{Message: shown(console.Fold(e.Message)), Type: "InputError", Text: shown(e.Error())}})
	}
	return all.Write(w)
}

func junitOf(o *Outcome) junit.Case {
	c := junit.Case{Name: shown(o.Case)}
	where := shown(fmt.Sprintf("%s:%d", o.Source.File, o.Source.Line))
	switch o.Status {
	case Errored:
		c.Error = &junit.Problem{Message: shown(console.Fold(o.Error)), Type: "Error", Text: where + "\n" + shown(console.Fold(o.Error))}
	case Failed:
		out := []string{where}
		var fields []string
		for _, d := range o.Differences {
			out = append(out, d.lines()...)
			name := d.Field
			if d.Path != "" {
				name = d.Path
			}
			fields = append(fields, shown(name))
		}
		c.Failure = &junit.Problem{Message: "not as expected: " + strings.Join(fields, ", "), Type: "Difference", Text: strings.Join(out, "\n")}
	case Passed:
	}
	return c
}

// shown is a text of others in a line of its own.
func shown(text string) string { return console.AtStart(console.Visible(text)) }

// maxLine of a value, in characters. JSON has all of it.
const maxLine = 400

func clip(text string) string { return console.Clip(text, maxLine) }
