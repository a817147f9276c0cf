package schema

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/cli/report"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/review/reviewtest"
	"github.com/podgrace/podgrace/deploy/schema"
)

// sarif is OASIS' schema of SARIF 2.1.0 (errata 01).
func sarif(t *testing.T) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	compiled, err := compiler.Compile("testdata/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// openReport is the schema of a Report, from the CustomResourceDefinition of github.com/openreports/reports-api at 769d97879794 (config/crd/openreports.io_reports.yaml,
// Apache-2.0).
func openReport(t *testing.T) *jsonschema.Schema {
	t.Helper()
	crd, err := os.ReadFile("testdata/openreports.io_reports.yaml")
	if err != nil {
		t.Fatal(err)
	}
	of, kind, err := schema.OfCRD(crd)
	if err != nil || kind != "Report" {
		t.Fatalf("%s: %v", kind, err)
	}
	raw, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("report.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("report.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// Every report that the tests of package report know, and any with hostile texts, is one that GitHub and others take.
func TestSARIF(t *testing.T) {
	compiled := sarif(t)
	everyReport(t, report.FormatSARIF, func(t testing.TB, text []byte) {
		t.Helper()
		if err := valid(t, compiled, text); err != nil {
			t.Error(err)
		}
	})
	if valid(t, compiled, []byte(`{"version": "2.1.0"}`)) == nil {
		t.Error("the schema takes anything")
	}
}

// So is one that the API server of who collects them takes. A ClusterReport has a Report's fields.
func TestOpenReports(t *testing.T) {
	compiled := openReport(t)
	everyReport(t, report.FormatOpenReports, func(t testing.TB, text []byte) {
		t.Helper()
		var list struct{ Items []map[string]any }
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			if item["kind"] == "ClusterReport" {
				item["kind"] = "Report"
			}
			if err := compiled.Validate(item); err != nil {
				t.Error(err)
			}
		}
	})
	if compiled.Validate(map[string]any{"apiVersion": "openreports.io/v1alpha1", "kind": "Report", "metadata": map[string]any{}, "result": "x"}) == nil {
		t.Error("the schema takes anything")
	}
}

// everyReport calls check with the goldens of package report in a format, and with hostile reports.
func everyReport(t *testing.T, format report.Format, check func(testing.TB, []byte)) {
	t.Helper()
	goldens, err := filepath.Glob("../../cli/report/testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range goldens {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			if f.Name == string(format) {
				found++
				t.Run(filepath.Base(path), func(t *testing.T) { check(t, f.Data) })
			}
		}
	}
	if found < 5 {
		t.Errorf("%d goldens have %s", found, format)
	}
	rapid.Check(t, func(rt *rapid.T) { check(t, printed(rt, format, reviewtest.HostileReport().Draw(rt, "report"))) })
}

func printed(t rapid.TB, format report.Format, r *review.Report) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := report.Write(&out, format, r, report.Options{Version: "v1"}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
