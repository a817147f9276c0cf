package report

import (
	"encoding/json"
	"strings"
	"testing"
)

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
