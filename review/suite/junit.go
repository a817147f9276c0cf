package suite

import (
	"fmt"
	"io"
	"strings"

	"github.com/podgrace/podgrace/console"
	"github.com/podgrace/podgrace/review/junit"
)

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
		if len(fields) == 0 {
			fields = []string{"everything: it expects nothing"}
		}
		c.Failure = &junit.Problem{Message: "not as expected: " + strings.Join(fields, ", "), Type: "Difference", Text: strings.Join(out, "\n")}
	case Passed, Updated:
	}
	return c
}
