package report

import (
	"io"
	"strings"

	"github.com/podgrace/podgrace/cli/junit"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
)

// writeJUnit has a suite for each file and a test case for each result: a denied one has failed. What is wrong in the input is
// a test case in error.
func writeJUnit(w io.Writer, r *review.Report, o Options) error {
	suites := &junit.Suites{Name: "podgrace review"}
	for i := range r.Results {
		result := &r.Results[i]
		file := fileOf(result.Source, o)
		suites.Add(file, file, junitCaseOf(result))
	}
	for _, e := range r.Errors {
		text := where(e.File, e.Line) + "\n" + visibleLines(e.Message)
		file := fileOf(errorSource(e), o)
		suites.Add(file, file, junit.Case{Name: junit.InputName(e.Line), Error: &junit.Problem{Message: console.OneLine(e.Message), Type: "InputError", Text: text}})
	}
	if remarks := Remarks(r); len(remarks) > 0 {
		for i := range remarks {
			remarks[i] = console.AtStart(remarks[i])
		}
		suites.Say("remarks", strings.Join(remarks, "\n")+"\n")
	}
	return suites.Write(w)
}

// fileOf is the name of a suite, and of its file.
func fileOf(at manifest.Source, o Options) string {
	if at.File == "-" {
		return where(at.File, 0)
	}
	return console.Visible(relative(at.File, o.Dir))
}

func junitCaseOf(r *review.Result) junit.Case {
	c := junit.Case{Name: subject(r)}
	if r.Decision == review.Denied {
		text := where(r.Source.File, r.Source.Line) + "\n" + visibleLines(r.Message)
		c.Failure = &junit.Problem{Message: refusal(r), Type: console.Visible(r.Reason), Text: text}
	}
	var out []string
	for _, warning := range warnings(r) {
		out = append(out, "warning: "+console.OneLine(warning))
	}
	for _, phrase := range r.Unknown {
		out = append(out, "not known: "+console.OneLine(phrase))
	}
	for _, e := range changes(r) {
		out = append(out, console.AtStart(e.String()))
	}
	if len(out) > 0 {
		c.SystemOut = &junit.Output{Text: where(r.Source.File, r.Source.Line) + "\n" + strings.Join(out, "\n") + "\n"}
	}
	return c
}

// visibleLines keeps the lines of a text; none of them is a command to a CI system that prints it.
func visibleLines(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		out = append(out, console.AtStart(console.Visible(strings.TrimRight(line, "\r\n"))))
	}
	return strings.Join(out, "\n")
}
