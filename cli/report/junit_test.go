package report

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/joshdk/go-junit"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/review/reviewtest"
)

// junitSchema is what may stand where, by junit-10.xsd of Jenkins' xunit plugin: attributes, those that must be there with a
// plus, and elements within.
var junitSchema = map[string]struct{ attributes, within []string }{
	"":           {nil, []string{"testsuites"}},
	"testsuites": {[]string{"name", "time", "tests", "failures", "errors"}, []string{"testsuite"}},
	"testsuite":  {[]string{"+name", "+tests", "+failures", "+errors", "group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"}, []string{"testsuite", "properties", "testcase", "system-out", "system-err"}},
	"testcase":   {[]string{"+name", "time", "classname", "group"}, []string{"skipped", "error", "failure", "system-out", "system-err"}},
	"failure":    {[]string{"type", "message"}, nil},
	"error":      {[]string{"type", "message"}, nil},
	"system-out": {nil, nil},
}

func TestJUnitSchema(t *testing.T) {
	for name, r := range samples() {
		t.Run(name, func(t *testing.T) { validJUnit(t, printed(t, FormatJUnit, r, Options{})) })
	}
	rapid.Check(t, func(rt *rapid.T) {
		r := reviewtest.HostileReport().Draw(rt, "report")
		out := printed(t, FormatJUnit, r, Options{})
		validJUnit(rt, out)
		if suites, err := junit.Ingest([]byte(out)); err != nil || len(suites) == 0 && len(r.Results)+len(r.Errors) > 0 {
			rt.Fatalf("a reader reads %d suites: %v", len(suites), err)
		}
	})
}

func validJUnit(t interface {
	Errorf(string, ...any)
	Fatalf(string, ...any)
}, text string) {
	decoder := xml.NewDecoder(strings.NewReader(text))
	path := []string{""}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		switch token := token.(type) {
		case xml.StartElement:
			name := token.Name.Local
			if parent := path[len(path)-1]; !slices.Contains(junitSchema[parent].within, name) {
				t.Errorf("<%s> stands in <%s>", name, parent)
			}
			path = append(path, name)
			var has []string
			for _, a := range token.Attr {
				has = append(has, a.Name.Local)
				if allowed := junitSchema[name].attributes; !slices.Contains(allowed, a.Name.Local) && !slices.Contains(allowed, "+"+a.Name.Local) {
					t.Errorf("<%s> has an attribute %s", name, a.Name.Local)
				}
			}
			for _, a := range junitSchema[name].attributes {
				if needed, must := strings.CutPrefix(a, "+"); must && !slices.Contains(has, needed) {
					t.Errorf("<%s> lacks its attribute %s", name, needed)
				}
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		}
	}
}

// A reader counts as the report does.
func TestJUnitReader(t *testing.T) {
	r := samples()["mixed"]
	suites, err := junit.Ingest([]byte(printed(t, FormatJUnit, r, Options{})))
	if err != nil {
		t.Fatal(err)
	}
	var total junit.Totals
	var names []string
	failed := map[string]string{}
	for _, suite := range suites {
		names = append(names, suite.Name)
		total.Tests += suite.Totals.Tests
		total.Failed += suite.Totals.Failed
		total.Error += suite.Totals.Error
		total.Passed += suite.Totals.Passed
		for _, test := range suite.Tests {
			if test.Status == junit.StatusFailed {
				failed[test.Name] = test.Message
			}
		}
	}
	s := r.Summary
	if want := (junit.Totals{Tests: s.Reviewed + s.Errors, Failed: s.Denied, Error: s.Errors, Passed: s.Allowed}); total != want {
		t.Errorf("read %+v, want %+v", total, want)
	}
	if diff := cmp.Diff([]string{"manifests/workloads.yaml", "manifests/stateful/db.yaml", "manifests/broken.yaml", "manifests/logo.png"}, names); diff != "" {
		t.Error(diff)
	}
	impatient, db := impatient(), forceDeleted()
	if diff := cmp.Diff(map[string]string{"Deployment shop/impatient": refusal(&impatient), "delete Pod shop/db-0 as alice": refusal(&db)}, failed); diff != "" {
		t.Error(diff)
	}
}

func TestJUnitPathsAreRelative(t *testing.T) {
	r := impatient()
	r.Source.File = "/src/a.yaml"
	out := printed(t, FormatJUnit, review.NewReport(1, 0, []review.Result{r}, nil), Options{Dir: "/src"})
	if !strings.Contains(out, `file="a.yaml"`) {
		t.Error(out)
	}
}
