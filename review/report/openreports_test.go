package report

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/deploy/schema"
	"github.com/podgrace/podgrace/review"
)

// reportSchema is that of a Report, from the CustomResourceDefinition of github.com/openreports/reports-api at 769d97879794
// (config/crd/openreports.io_reports.yaml, Apache-2.0).
func reportSchema(t *testing.T) *jsonschema.Schema {
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

// Every report is one that the API server of who collects them takes. A ClusterReport has a Report's fields.
func TestOpenReportsSchema(t *testing.T) {
	compiled := reportSchema(t)
	check := func(t testing.TB, r *review.Report) {
		t.Helper()
		var list struct{ Items []map[string]any }
		if err := json.Unmarshal([]byte(printed(t, FormatOpenReports, r, Options{})), &list); err != nil {
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
	}
	for name, r := range samples() {
		t.Run(name, func(t *testing.T) { check(t, r) })
	}
	rapid.Check(t, func(rt *rapid.T) { check(t, hostileReport().Draw(rt, "report")) })
	if compiled.Validate(map[string]any{"apiVersion": "openreports.io/v1alpha1", "kind": "Report", "metadata": map[string]any{}, "result": "x"}) == nil {
		t.Error("the schema takes anything")
	}
}

// The summary counts the results, each object has one at least, and the predecessor's report differs in its names only.
func TestOpenReports(t *testing.T) {
	r := samples()["mixed"]
	out := printed(t, FormatOpenReports, r, Options{})
	var list struct{ Items []clusterReport }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	objects := map[string]bool{}
	for _, report := range list.Items {
		s := report.Summary
		if s.Pass+s.Fail+s.Warn+s.Error+s.Skip != len(report.Results) {
			t.Errorf("%s: %+v of %d", report.Metadata.Namespace, s, len(report.Results))
		}
		for _, result := range report.Results {
			for _, o := range result.Resources {
				if o.Namespace != report.Metadata.Namespace {
					t.Errorf("%s is in the report of %s", o.Namespace, report.Metadata.Namespace)
				}
				objects[o.Kind+o.Namespace+o.Name] = true
			}
		}
	}
	if len(objects) != len(r.Results) {
		t.Errorf("%d objects of %d", len(objects), len(r.Results))
	}
	older := strings.NewReplacer("wgpolicyk8s.io/v1alpha2", "openreports.io/v1alpha1", `"ClusterPolicyReport"`, `"ClusterReport"`, `"PolicyReport"`, `"Report"`)
	if older.Replace(printed(t, FormatPolicyReport, r, Options{})) != out {
		t.Error("a PolicyReport is not a Report by another name")
	}
}
