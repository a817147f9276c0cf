package junit_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/cli/junit"
)

// Cases of one name and file are one suite, and everything is counted.
func TestWrite(t *testing.T) {
	s := &junit.Suites{Name: "all"}
	s.Add("a", "a.yaml", junit.Case{Name: "one"})
	s.Add("b", "a.yaml", junit.Case{Name: "two", Failure: &junit.Problem{Message: "m", Type: "T", Text: "<x>"}})
	s.Add("a", "a.yaml", junit.Case{Name: junit.InputName(3), Error: &junit.Problem{Message: "e", Type: "InputError"}, SystemOut: &junit.Output{Text: "o"}})
	var out strings.Builder
	if err := s.Write(&out); err != nil {
		t.Fatal(err)
	}
	want := `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="all" tests="3" failures="1" errors="1">
  <testsuite name="a" tests="2" failures="0" errors="1" file="a.yaml">
    <testcase name="one" classname="a"></testcase>
    <testcase name="input, line 3" classname="a">
      <error message="e" type="InputError"></error>
      <system-out><![CDATA[o]]></system-out>
    </testcase>
  </testsuite>
  <testsuite name="b" tests="1" failures="1" errors="0" file="a.yaml">
    <testcase name="two" classname="b">
      <failure message="m" type="T"><![CDATA[<x>]]></failure>
    </testcase>
  </testsuite>
</testsuites>
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
