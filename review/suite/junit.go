package suite

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// The XML is what Jenkins' xunit plugin admits (junit-10.xsd), the strictest of the usual readers.
type junitSuites struct {
	XMLName  xml.Name      `xml:"testsuites"`
	Name     string        `xml:"name,attr"`
	Tests    int           `xml:"tests,attr"`
	Failures int           `xml:"failures,attr"`
	Errors   int           `xml:"errors,attr"`
	Suites   []*junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	File     string      `xml:"file,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	ClassName string        `xml:"classname,attr"`
	Error     *junitProblem `xml:"error,omitempty"`
	Failure   *junitProblem `xml:"failure,omitempty"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",cdata"`
}

// writeJUnit has a suite for each suite. What is wrong with the input is a test case in error, in a suite of the file's name.
func writeJUnit(w io.Writer, r *Report) error {
	all := &junitSuites{Name: "podgrace test"}
	for _, o := range r.Cases {
		all.add(o.Suite, o.Source.File, junitOf(o))
	}
	for _, e := range r.Errors {
		name := "input"
		if e.Line > 0 {
			name = fmt.Sprintf("input, line %d", e.Line)
		}
		all.add(e.File, e.File, junitCase{Name: name, Error: &junitProblem{shown(oneLine(e.Message)), "InputError", shown(e.Error())}})
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (s *junitSuites) add(name, file string, c junitCase) {
	name, file = shown(name), shown(file)
	var suite *junitSuite
	for _, known := range s.Suites {
		if known.Name == name && known.File == file {
			suite = known
		}
	}
	if suite == nil {
		suite = &junitSuite{Name: name, File: file}
		s.Suites = append(s.Suites, suite)
	}
	c.ClassName = name
	suite.Cases = append(suite.Cases, c)
	suite.Tests++
	s.Tests++
	if c.Failure != nil {
		suite.Failures++
		s.Failures++
	}
	if c.Error != nil {
		suite.Errors++
		s.Errors++
	}
}

func junitOf(o *Outcome) junitCase {
	c := junitCase{Name: shown(o.Case)}
	where := shown(fmt.Sprintf("%s:%d", o.Source.File, o.Source.Line))
	switch o.Status {
	case Errored:
		c.Error = &junitProblem{shown(oneLine(o.Error)), "Error", where + "\n" + shown(oneLine(o.Error))}
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
		c.Failure = &junitProblem{"not as expected: " + strings.Join(fields, ", "), "Difference", strings.Join(out, "\n")}
	case Passed, Updated:
	}
	return c
}
