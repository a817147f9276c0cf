package junit

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
)

// Suites is a whole document.
type Suites struct {
	XMLName  xml.Name `xml:"testsuites"`
	Name     string   `xml:"name,attr"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Errors   int      `xml:"errors,attr"`
	Suites   []*Suite `xml:"testsuite"`

	known map[[2]string]*Suite // by name and file
}

// Suite is what was tested of one file.
type Suite struct {
	Name     string `xml:"name,attr"`
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Errors   int    `xml:"errors,attr"`
	File     string `xml:"file,attr"`
	Cases    []Case `xml:"testcase"`
	// Output is what is said beside the cases.
	Output *Output `xml:"system-out,omitempty"`
}

// Case is one test. ClassName is its suite's name.
type Case struct {
	Name      string   `xml:"name,attr"`
	ClassName string   `xml:"classname,attr"`
	Error     *Problem `xml:"error,omitempty"`
	Failure   *Problem `xml:"failure,omitempty"`
	SystemOut *Output  `xml:"system-out,omitempty"`
}

// Problem is why a test case failed.
type Problem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",cdata"`
}

// Output of a test case.
type Output struct {
	Text string `xml:",cdata"`
}

// InputName is the name of a test case in error for what is wrong at a line of an input; line 0 is not known.
func InputName(line int) string {
	if line == 0 {
		return "input"
	}
	return "input, line " + strconv.Itoa(line)
}

// Add adds a test case to the suite of that name and file, and counts it.
func (s *Suites) Add(name, file string, c Case) {
	key := [2]string{name, file}
	suite := s.known[key]
	if suite == nil {
		suite = &Suite{Name: name, File: file}
		if s.known == nil {
			s.known = map[[2]string]*Suite{}
		}
		s.known[key] = suite
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

// Say adds a suite without a test, for what is about none.
func (s *Suites) Say(name, text string) {
	s.Suites = append(s.Suites, &Suite{Name: name, Output: &Output{Text: text}})
}

// Write writes the document.
func (s *Suites) Write(w io.Writer) error {
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("write JUnit XML: %w", err)
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(s); err != nil {
		return fmt.Errorf("write JUnit XML: %w", err)
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return fmt.Errorf("write JUnit XML: %w", err)
	}
	return nil
}
