package suite

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Parts of random suites, each written in a way of its own.
var (
	drawnWhens = []string{
		"when: {object: Deployment shop/web}", "when: {object: Pod shop/cheap}", "when:\n    object: Deployment shop/web\n    operation: delete\n    gracePeriodSeconds: 0\n    user: jane",
		"when: {object: Deployment shop/web, operation: evict, gracePeriodSeconds: 0}", "when: {manifest: {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: nowhere}, spec: {containers: [{name: c}]}}}",
		"when: {object: Deployment shop/web, operation: delete}\n  state:\n  - {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 7}",
	}
	drawnEntries = []string{
		"decision: Allowed", "decision: Denied # c", "'decision': \"Denied\"", "reason: Unsafe", "reason: ''", "message: may still run", "message: >-\n  folded\n  over lines", "message: |\n  literal\n\n  # no comment\n",
		"warnings: []", "warnings: [is now, other] # c", "warnings:\n- is now 20\n# c\n- \"no: such\"", "warnings:\n  - a\n  -\n    b", "unknown: []", "unknown: [x]", "patch: []", "patch:\n- {op: add, path: /spec/priority, value: 5}\n- op: remove\n  path: /a",
		"fields: {spec.priority: 1000, spec.nodeName: n}", "fields:\n  spec.priority: 1000 # c\n  # c\n  spec.nodeName: null\n\n  spec.schedulerName:\n    x", "fields:\n  /spec/terminationGracePeriodSeconds: 20\n  metadata.annotations[podgrace.dev/enforcement]:\n    oom:\n      rank: 3",
		"fields:\n  \"spec.priorityClassName\": 'low'",
	}
)

// drawnCase is a case in YAML, its name first or last.
func drawnCase(t *rapid.T, i int) string {
	name, when := fmt.Sprintf("name: case %d", i), rapid.SampledFrom(drawnWhens).Draw(t, "when")
	then := rapid.SampledFrom([]string{"", "then:\n", "then: {}\n", "then: null # c\n", "then: {decision: Denied, fields: {spec.priority: 2}} # c\n", "then: {decision: Allowed,\n    warnings: [a,\n      b]}\n", "block", "block", "block"}).Draw(t, "then")
	if then == "block" {
		indent := rapid.SampledFrom([]string{"    ", "      "}).Draw(t, "indent")
		then = "then:" + rapid.SampledFrom([]string{"\n", " # c\n", "\n\n" + indent + "# c\n"}).Draw(t, "after then")
		seen := map[string]bool{}
		for _, e := range rapid.SliceOfN(rapid.SampledFrom(drawnEntries), 1, 5).Draw(t, "entries") {
			key := strings.Trim(strings.Fields(e)[0], "':")
			if !seen[key] {
				then += indent + strings.ReplaceAll(strings.TrimSuffix(e, "\n"), "\n", "\n"+indent) + "\n"
			}
			seen[key] = true
		}
	}
	parts := []string{name, when}
	if then != "" {
		parts = append(parts, strings.TrimSuffix(then, "\n"))
	}
	text := "- " + strings.Join(rapid.Permutation(parts).Draw(t, "order"), "\n  ") + "\n"
	return rapid.SampledFrom([]string{"", "\n", "# about the next\n", "  # c\n\n"}).Draw(t, "before") + text
}

func drawnSuite(t *rapid.T) string {
	text := "# first\n" + head + "cases:\n"
	for i := range rapid.IntRange(1, 4).Draw(t, "cases") {
		text += drawnCase(t, i)
	}
	text += rapid.SampledFrom([]string{"", "# last\n", "state:\n- cluster.yaml\n", "---\n" + head + "cases:\n- {name: second, when: {object: Pod shop/cheap}, then: {decision: Allowed}} # c\n"}).Draw(t, "after")
	if rapid.Bool().Draw(t, "no newline at the end") {
		text = strings.TrimSuffix(text, "\n")
	}
	if rapid.Bool().Draw(t, "CRLF") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// comments of a file, which an update keeps, but for those within what it replaces.
func comments(text string) []string {
	var found []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "# first") || strings.HasPrefix(line, "# about") || strings.HasPrefix(line, "# last") {
			found = append(found, line)
		}
	}
	return found
}

// After an update all passes, and another one changes no byte.
func TestUpdateThenPass(t *testing.T) {
	dir := folder(t, nil)
	name := filepath.Join(dir, "suite.yaml")
	fewerChecks(t)
	rapid.Check(t, func(rt *rapid.T) {
		before := drawnSuite(rt)
		if err := os.WriteFile(name, []byte(before), 0o600); err != nil {
			rt.Fatal(err)
		}
		if suites, _ := Load(name); suites == nil {
			rt.Skip("no suite") // a literal block may swallow what follows
		}
		updated := tested(t, Runner{Update: true}, name)
		after, err := os.ReadFile(name)
		if err != nil {
			rt.Fatal(err)
		}
		if s := updated.Summary; s.Errors > 0 || s.Failed > 0 {
			rt.Fatalf("%+v: %s\n%s", s, printed(t, "table", updated, Options{}), before)
		}
		if again := tested(t, Runner{}, name); again.Summary.Passed != updated.Summary.Cases {
			rt.Fatalf("%s\nbefore:\n%s\nafter:\n%s", printed(t, "table", again, Options{}), before, after)
		}
		if diff := cmp.Diff(comments(before), comments(string(after))); diff != "" {
			rt.Fatalf("comments -before +after:\n%s\nbefore:\n%s\nafter:\n%s", diff, before, after)
		}
		if strings.Count(before, "\r\n") > 0 && strings.Count(string(after), "\r\n") != strings.Count(string(after), "\n") {
			rt.Fatalf("line endings are mixed:\n%q", after)
		}
		tested(t, Runner{Update: true}, name)
		if twice, err := os.ReadFile(name); err != nil || string(twice) != string(after) {
			rt.Fatalf("a second update changes the file (%v):\n%s", err, cmp.Diff(string(after), string(twice)))
		}
	})
}

// fewerChecks is a quarter of what rapid would do: each makes several engines, which compile their rules.
func fewerChecks(t *testing.T) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	n, err := strconv.Atoi(before)
	if err != nil {
		t.Fatal(err)
	}
	set := func(value string) {
		if err := checks.Value.Set(value); err != nil {
			t.Error(err)
		}
	}
	set(strconv.Itoa(max(n/4, 1)))
	t.Cleanup(func() { set(before) })
}

// A suite that passes is not written, and what can't be updated in place is left as it is.
func TestUpdateLeaves(t *testing.T) {
	for name, tc := range map[string]struct{ cases, says string }{
		"passing":           {"cases:\n- name:  a\n  when:   {object: Deployment shop/web}\n  then: { decision:   Allowed }\n", ""},
		"an error":          {"cases:\n- name:  a\n  when:   {object: Deployment shop/nowhere}\n", "nowhere among"},
		"cases in flow":     {"cases: [{name: a, when: {object: Deployment shop/web}, then: {decision: Denied}}]\n", "can't be updated in place"},
		"an alias":          {"cases:\n- &a {name: a, when: {object: Deployment shop/web}, then: {decision: Allowed}}\n- {<<: *a, name: b}\n- {name: c, when: {object: Deployment shop/web}, then: &t {decision: Denied}}\n- {name: d, when: {object: Pod shop/cheap}, then: *t}\n", "can't be updated in place"},
		"a lone anchor":     {"cases:\n- name: a\n  when: {object: Deployment shop/web}\n  then: &t\n    decision: Allowed\n", ""},
		"a used anchor":     {"cases:\n- name: a\n  when: {object: Deployment shop/web}\n  then:\n    reason: &r Unsafe\n- name: b\n  when: {object: Deployment shop/web, operation: delete, gracePeriodSeconds: 0}\n  then:\n    reason: *r\n", "can't be updated in place"},
		"a rare key":        {"cases:\n- name: a\n  when: {object: Pod shop/cheap}\n  then:\n    ? fields\n    : spec.priority: 3\n", "can't be updated in place"},
		"in a list":         {"", "can't be updated in place"},
		"a line of its own": {"cases:\n- name: a\u2028b\n  when: {object: Deployment shop/web}\n  then: {decision: Allowed}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := head + tc.cases
			if name == "in a list" {
				text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: podgrace.dev/v1alpha1\n  kind: PolicySuite\n  cases:\n  - {name: a, when: {object: Deployment shop/web}, then: {decision: Denied}}\n"
			}
			dir := folder(t, map[string]string{"suite.yaml": text})
			report := tested(t, Runner{Update: true}, dir)
			if out := printed(t, "table", report, Options{}); !strings.Contains(out, tc.says) || tc.says == "" && report.Summary.Passed != report.Summary.Cases {
				t.Errorf("want %q:\n%s", tc.says, out)
			}
			got, err := os.ReadFile(filepath.Join(dir, "suite.yaml"))
			if err != nil || string(got) != text {
				t.Errorf("%v\n%s", err, cmp.Diff(text, string(got)))
			}
		})
	}
}

// A file that somebody else writes meanwhile is not overwritten; a link stays one, and the file's mode is kept.
func TestUpdateWrites(t *testing.T) {
	const failing = head + "cases:\n- name: a\n  when: {object: Deployment shop/web}\n  then: {decision: Denied}\n"
	dir := folder(t, map[string]string{"real/suite.txt": failing})
	link := filepath.Join(dir, "suite.yaml")
	if err := os.Symlink("real/suite.txt", link); err != nil {
		t.Fatal(err)
	}
	suites, wrong := Load(link)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	if err := os.WriteFile(link, []byte(failing+"# new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := (&Runner{Update: true}).Run(t.Context(), suites)
	if err != nil || len(report.Errors) != 1 || !strings.Contains(report.Errors[0].Message, "changed meanwhile") {
		t.Fatal(err, report.Errors)
	}
	tested(t, Runner{Update: true}, link)
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "real/suite.txt"))
	if want := strings.Replace(failing, "Denied", "Allowed", 1) + "# new\n"; err != nil || string(text) != want {
		t.Errorf("%v\n%s", err, cmp.Diff(want, string(text)))
	}
	if info, err = os.Stat(link); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
}

// A message with a time that goes on is written so that it still holds later.
func TestUpdateOfWhatGoesOn(t *testing.T) {
	if got := messageNode("silent since 10:00:00 UTC, 7790h55m56s ago): x").Value; got != "silent since 10:00:00 UTC, ... ago): x" {
		t.Error(got)
	}
}
