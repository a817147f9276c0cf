package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/cli/review"
)

// One review, in several formats: each file is what -o alone would have printed.
func TestReviewInSeveralFormats(t *testing.T) {
	inTree(t)
	code, out, complaints := typed(t, "", "review -f denied -o text -o json=report.json -o sarif=report.sarif -o html=-x.html"+whole)
	if code != 1 || complaints != "" || !strings.HasPrefix(out, "DENIED") {
		t.Errorf("exit %d, %q, %q", code, out, complaints)
	}
	for format, file := range map[string]string{"json": "report.json", "sarif": "report.sarif"} {
		written, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, alone, _ := typed(t, "", "review -f denied -o "+format+whole); alone != string(written) {
			t.Errorf("%s is not what is printed:\n%s\n%s", file, written, alone)
		}
	}
	var r review.Report
	if text, err := os.ReadFile("report.json"); err != nil || json.Unmarshal(text, &r) != nil || r.Summary.Denied != 1 {
		t.Errorf("%v: %+v", err, r.Summary)
	}
	if page, err := os.ReadFile("-x.html"); err != nil || !strings.Contains(string(page), "<html") {
		t.Errorf("%v: %s", err, page)
	}
	// Without one for stdout there is nothing on it.
	if code, out, _ := typed(t, "", "review -f denied -o junit=report.xml"+whole); code != 1 || out != "" {
		t.Errorf("exit %d, %q", code, out)
	}
	for args, want := range map[string]string{
		"-o text -o json":                "two formats would be printed on stdout",
		"-o text -o json=-":              "two formats would be printed on stdout",
		"-o sarif=a -o junit=a":          "two formats would be written into a",
		"-o sarif=":                      "sarif= has an empty path; is a variable not set?",
		"-o xml=a":                       "unknown format",
		"-o text -o junit=nowhere/a":     "write the report as junit: open nowhere/a",
		"--fail-on never --fail-on deny": "--fail-on never stands alone",
		"--fail-on=":                     "--fail-on is empty",
	} {
		if code, _, complaints := typed(t, "", "review -f denied "+args+whole); code == 0 || !strings.Contains(complaints, want) {
			t.Errorf("%s: exit %d, %q", args, code, complaints)
		}
	}
}

func TestFailOnUnknown(t *testing.T) {
	inTree(t)
	const known = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: other}}"
	for args, want := range map[string]int{
		"review -f deploy --policy policies":                                       0,
		"review -f deploy --policy policies --fail-on unknown":                     1,
		"review -f deploy --policy policies --fail-on warn,unknown":                1,
		"review -f deploy --policy policies --fail-on unknown --state -":           0,
		"review -f denied --fail-on unknown --state cluster --policy policies":     1, // what is refused always counts
		"review -f deploy --policy policies --fail-on deny --fail-on unknown":      1,
		"review -f deploy/calm.yaml --policy policies --fail-on unknown --state -": 0,
	} {
		if code, out, complaints := typed(t, known, args); code != want {
			t.Errorf("%s: exit %d\n%s%s", args, code, out, complaints)
		}
	}
}
