package report

import (
	"encoding/xml"
	"io"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/review"
)

// The XML is what Jenkins' xunit plugin admits (junit-10.xsd), the strictest of the usual readers: no attribute for file and line
// of a test case, so that these are in its text.
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
	SystemOut *junitOutput  `xml:"system-out,omitempty"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",cdata"`
}

type junitOutput struct {
	Text string `xml:",cdata"`
}

// writeJUnit has a suite for each file and a test case for each result: a denied one has failed. What is wrong in the input is
// a test case in error.
func writeJUnit(w io.Writer, r *review.Report, o Options) error {
	suites := &junitSuites{Name: "podgrace review"}
	files := map[string]*junitSuite{}
	for i := range r.Results {
		result := &r.Results[i]
		suites.add(files, result.Source, o, junitCaseOf(result))
	}
	for _, e := range r.Errors {
		text := where(e.File, e.Line) + "\n" + visibleLines(e.Message)
		suites.add(files, errorSource(e), o, junitCase{Name: inputCase(e.Line), Error: &junitProblem{oneLine(e.Message), "InputError", text}})
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(suites); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func inputCase(line int) string {
	if line == 0 {
		return "input"
	}
	return "input, line " + strconv.Itoa(line)
}

func (s *junitSuites) add(files map[string]*junitSuite, at review.Source, o Options, c junitCase) {
	file := where(at.File, 0)
	if at.File != "-" {
		file = visible(relative(at.File, o.Dir))
	}
	suite := files[file]
	if suite == nil {
		suite = &junitSuite{Name: file, File: file}
		files[file] = suite
		s.Suites = append(s.Suites, suite)
	}
	c.ClassName = file
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

func junitCaseOf(r *review.Result) junitCase {
	c := junitCase{Name: subject(r)}
	if r.Decision == review.Denied {
		text := where(r.Source.File, r.Source.Line) + "\n" + visibleLines(r.Message)
		c.Failure = &junitProblem{refusal(r), visible(r.Reason), text}
	}
	var out []string
	for _, warning := range r.Warnings {
		out = append(out, "warning: "+oneLine(warning))
	}
	for _, phrase := range r.Unknown {
		out = append(out, "not known: "+oneLine(phrase))
	}
	for _, e := range changes(r) {
		out = append(out, atStart(e.String()))
	}
	if len(out) > 0 {
		c.SystemOut = &junitOutput{where(r.Source.File, r.Source.Line) + "\n" + strings.Join(out, "\n") + "\n"}
	}
	return c
}

// visibleLines keeps the lines of a text; none of them is a command to a CI system that prints it.
func visibleLines(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		out = append(out, atStart(visible(strings.TrimRight(line, "\r\n"))))
	}
	return strings.Join(out, "\n")
}
