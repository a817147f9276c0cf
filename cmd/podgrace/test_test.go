package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/cli/terminal"
)

// policyFolder has a policy that protects all pods, a pod, and a suite.
func policyFolder(t *testing.T, cases string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"policy.yaml": "apiVersion: podgrace.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: all}\nspec:\n  removal: {protect: All, allowedActors: [\"system:serviceaccount:ops:repair\"]}\n",
		"pod.yaml":    "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec:\n  containers: [{name: c}]\n",
		"suite.yaml":  "apiVersion: podgrace.dev/v1alpha1\nkind: PolicySuite\nmetadata: {name: all}\ncases:\n" + cases,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTest(t *testing.T) {
	const (
		passes  = "- name: refused\n  when: {object: Pod shop/web, operation: delete, gracePeriodSeconds: 0, user: jane}\n  then: {decision: Denied}\n- name: an actor\n  when: {object: Pod shop/web, operation: delete, gracePeriodSeconds: 0, user: \"system:serviceaccount:ops:repair\"}\n  then: {decision: Allowed}\n"
		fails   = "- name: fails\n  when: {object: Pod shop/web}\n  then: {decision: Denied}\n"
		nowhere = "- name: nowhere\n  when: {object: Pod shop/nowhere}\n  then: {decision: Denied}\n"
	)
	for name, tc := range map[string]struct {
		cases, args string
		code        int
		says        string
	}{
		"passes":           {passes, "", 0, "2 cases in 1 suite: 2 passed\n"},
		"fails":            {passes + fails, "", 1, "all    fails     FAIL"},
		"bad input":        {passes + fails + nowhere, "", 2, "Pod shop/nowhere is nowhere"},
		"typo":             {"- nmae: x\n", "", 2, `unknown field "nmae"`},
		"run":              {passes + fails, "--run all/refused|actor", 0, "2 cases in 1 suite: 2 passed\n"},
		"run of nothing":   {passes, "--run nobody", 2, "no case matches --run nobody"},
		"run of no regexp": {passes, "--run (", 2, "--run: "},
		"fails, verbose":   {passes + fails, "-v", 1, "      then:\n"},
		"verbose":          {passes, "-v", 0, "Denied (Unsafe): pod shop/web may still run"},
		"junit":            {fails, "-o junit", 1, `<failure message="not as expected: decision"`},
		"json":             {passes, "-o json", 0, `"kind": "TestReport"`},
		"no such format":   {passes, "-o xml", 2, "-o xml: it is one of table, junit, json"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			args := append([]string{"podgrace", "test", policyFolder(t, tc.cases)}, strings.Fields(tc.args)...)
			if code := command(t.Context(), terminal.Terminal{Out: &out, Err: &out}, args); code != tc.code || !strings.Contains(out.String(), tc.says) {
				t.Errorf("exit %d, want %d and %q in:\n%s", code, tc.code, tc.says, out.String())
			}
		})
	}
}

func TestTestOfNothing(t *testing.T) {
	for args, says := range map[string]string{"": "where are the suites?", "/nowhere": "error: /nowhere: no such file or directory\n", "--help": "PolicySuite"} {
		var out bytes.Buffer
		code := command(t.Context(), terminal.Terminal{Out: &out, Err: &out}, append([]string{"podgrace", "test"}, strings.Fields(args)...))
		if want := map[bool]int{true: 0, false: 2}[args == "--help"]; code != want || !strings.Contains(out.String(), says) {
			t.Errorf("test %s: exit %d, want %d and %q in:\n%s", args, code, want, says, out.String())
		}
	}
}

func TestTestOfAnEmptyPath(t *testing.T) {
	var out bytes.Buffer
	if code := command(t.Context(), terminal.Terminal{Out: &out, Err: &out}, []string{"podgrace", "test", ""}); code != 2 || out.String() != "podgrace: a PATH is empty; is a variable not set?\n" {
		t.Errorf("exit %d: %s", code, out.String())
	}
}

// A terminal that is too narrow for the explanations of flags gets them wrapped.
func TestHelpKeepsToTheWidth(t *testing.T) {
	for _, width := range []int{0, 80} {
		var out bytes.Buffer
		tty := terminal.Terminal{Out: &out, Err: &out}
		tty.Style.Width = width
		if code := command(t.Context(), tty, []string{"podgrace", "review", "--help"}); code != 0 {
			t.Errorf("exit %d", code)
		}
		_, flags, _ := strings.Cut(out.String(), "\nFlags:\n")
		widest := 0
		for line := range strings.Lines(flags) {
			widest = max(widest, len(strings.TrimRight(line, "\n")))
		}
		if (widest <= 80) != (width == 80) {
			t.Errorf("at width %d the widest line has %d columns", width, widest)
		}
	}
}

// Of several suites the table has a line each, and what failed is told whole.
func TestTestOfSeveralSuites(t *testing.T) {
	dir := t.TempDir()
	for name, cases := range map[string]string{
		"a": "- name: passes\n  when: {object: Pod shop/web}\n  then: {decision: Allowed}\n- name: fails\n  when: {object: Pod shop/web}\n  then: {decision: Denied}\n",
		"b": "- name: passes too\n  when: {object: Pod shop/web}\n  then: {decision: Allowed}\n",
	} {
		if err := os.Rename(policyFolder(t, cases), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	rename := func(name string) {
		file := filepath.Join(dir, name, "suite.yaml")
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, bytes.Replace(text, []byte("{name: all}"), []byte("{name: suite-"+name+"}"), 1), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rename("a")
	rename("b")
	for verbose, want := range map[string][]string{
		"":   {"SUITE    CASES  RESULT\nsuite-a      2  1 FAIL\nsuite-b      1  ok\n", "suite-a: fails (", "- Denied", "3 cases in 2 suites: 2 passed, 1 failed"},
		"-v": {"SUITE    CASE        RESULT\n", "suite-b  passes too  ok\n"},
	} {
		var out bytes.Buffer
		code := command(t.Context(), terminal.Terminal{Out: &out, Err: &out}, append([]string{"podgrace", "test", dir}, strings.Fields(verbose)...))
		for _, says := range want {
			if code != 1 || !strings.Contains(out.String(), says) {
				t.Errorf("%q: exit %d, without %q:\n%s", verbose, code, says, out.String())
			}
		}
	}
}
