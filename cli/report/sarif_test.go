package report

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/guard"
)

func sarifOf(t *testing.T, r *review.Report, o Options) sarifRun {
	t.Helper()
	var log sarifLog
	if err := json.Unmarshal([]byte(printed(t, FormatSARIF, r, o)), &log); err != nil {
		t.Fatal(err)
	}
	return log.Runs[0]
}

func fingerprints(t *testing.T, r *review.Report) []string {
	t.Helper()
	var all []string
	for _, result := range sarifOf(t, r, Options{}).Results {
		all = append(all, result.Fingerprints["podgrace/v1"])
	}
	return all
}

func TestFingerprints(t *testing.T) {
	before := samples()["mixed"]
	before.Results = append(before.Results, impatient()) // alike but for the line
	first := fingerprints(t, before)
	if sorted := slices.Sorted(slices.Values(first)); len(slices.Compact(sorted)) != len(first) {
		t.Errorf("two findings have one fingerprint: %q", first)
	}
	moved := samples()["mixed"]
	moved.Results = append(moved.Results, impatient())
	for i := range moved.Results {
		moved.Results[i].Source.Line += 100
		for j, w := range moved.Results[i].Warnings { // a time in it is another
			moved.Results[i].Warnings[j] = regexp.MustCompile(`[0-9]+`).ReplaceAllString(w, "77")
		}
	}
	if diff := cmp.Diff(first, fingerprints(t, moved)); diff != "" {
		t.Errorf("lines and times moved, and so did fingerprints:\n%s", diff)
	}
	elsewhere := samples()["mixed"]
	elsewhere.Results[0].Source.File = "other.yaml"
	if fingerprints(t, elsewhere)[0] == first[0] {
		t.Error("the same object in another file has the same fingerprint")
	}
}

func TestSARIFPaths(t *testing.T) {
	for file, want := range map[string]string{
		"a/b.yaml":          "a/b.yaml",
		"./a/../b.yaml":     "b.yaml",
		"/src/a b#1.yaml":   "a%20b%231.yaml",
		"/elsewhere/a.yaml": "file:///elsewhere/a.yaml",
		"../a.yaml":         "../a.yaml",
		"c:d.yaml":          "./c:d.yaml",
		"-":                 "stdin",
	} {
		r := impatient()
		r.Source.File = file
		at := sarifOf(t, review.NewReport(1, 0, []review.Result{r}, nil), Options{Dir: "/src"}).Results[0].Locations[0]
		if got := at.Physical.Artifact.URI; got != want {
			t.Errorf("%s: got %s, want %s", file, got, want)
		}
	}
}

func TestSARIFLevels(t *testing.T) {
	run := sarifOf(t, samples()["mixed"], Options{})
	counts := map[string]int{}
	for _, r := range run.Results {
		counts[r.Level]++
		if rule := run.Tool.Driver.Rules[r.RuleIndex]; rule.ID != r.RuleID {
			t.Errorf("a result of %s has the index of %s", r.RuleID, rule.ID)
		}
	}
	if diff := cmp.Diff(map[string]int{"error": 2, "warning": 2, "note": 2}, counts); diff != "" {
		t.Error(diff)
	}
	if run.Invocations[0].Successful || len(run.Invocations[0].Notifications) != 2 {
		t.Errorf("errors in the input are not told: %+v", run.Invocations)
	}
}

// Every reason of a refusal or warning has its help, and no code has two meanings.
func TestRulesAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range slices.Concat(defaulting.Refusals(), guard.Refusals(), scheduling.Reasons()) {
		if r.Code == "" || r.Short == "" || r.Help == "" || seen[r.Code] {
			t.Errorf("%+v", r)
		}
		seen[r.Code] = true
	}
	if len(rules) != len(seen)+4 {
		t.Errorf("%d rules, %d reasons", len(rules), len(seen))
	}
}

// A pod that merely changes is no alert: policies are there to change pods.
func TestSARIFHasNoAlertForAChange(t *testing.T) {
	run := sarifOf(t, review.NewReport(1, 0, []review.Result{frontend()}, nil), Options{})
	if len(run.Results) > 0 || len(run.Tool.Driver.Rules) > 0 {
		t.Errorf("%+v", run)
	}
	if run = sarifOf(t, review.NewReport(1, 0, []review.Result{checkout()}, nil), Options{}); len(run.Results) != 1 || run.Results[0].RuleID != ruleWarning {
		t.Errorf("%+v", run.Results)
	}
}
