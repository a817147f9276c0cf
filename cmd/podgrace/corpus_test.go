package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
)

// everywhere has the constraints and limits of examples/production-web without its match and class, so that the workloads of all namespaces are judged by a margin after preStop and by
// constraints.
const everywhere = `apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: everywhere}
spec:
  topologySpread:
    constraints:
    - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}
    - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}
  gracePeriod: {defaultSeconds: 45, minSeconds: 10, maxSeconds: 300, preStopMarginSeconds: 15}
`

// mark is the comment above a workload of the corpus that deserves a warning: by all policies, or by those that it names.
var mark = regexp.MustCompile(`^# Warned( [a-z]+)?: (.+)$`)

// corpus are the archives of testdata/corpus, one for each repository.
type corpus struct {
	repositories []string
	files        map[string]string // by REPOSITORY/PATH
}

func readCorpus(t *testing.T) corpus {
	t.Helper()
	archives, err := filepath.Glob("testdata/corpus/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	c := corpus{files: map[string]string{}}
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		repository := strings.TrimSuffix(filepath.Base(path), ".txtar")
		c.repositories = append(c.repositories, repository)
		for _, f := range archive.Files {
			c.files[repository+"/"+f.Name] = string(f.Data)
		}
	}
	return c
}

// marked are the texts of the warnings that these policies are to give, by the file and line where a workload begins.
func (c corpus) marked(policies string) map[manifest.Source]string {
	want := map[manifest.Source]string{}
	for name, text := range c.files {
		for i, line := range strings.Split(text, "\n") {
			if m := mark.FindStringSubmatch(line); m != nil && (m[1] == "" || m[1] == " "+policies) {
				want[manifest.Source{File: name, Line: i + 2}] = m[2]
			}
		}
	}
	return want
}

// Of the workloads of well-kept repositories less than 5 % are warned about, and only those that deserve it. None is refused, so that --fail-on warn can be used.
func TestWarningRate(t *testing.T) {
	c := readCorpus(t)
	if len(c.repositories) != 10 {
		t.Fatalf("%d repositories, want 10", len(c.repositories))
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	inFolder(t, c.files)
	inFolder(t, map[string]string{"everywhere.yaml": everywhere})
	shipped := " --policy " + root + "/deploy/policies/first.yaml"
	for _, name := range []string{"production-web", "batch", "stateful"} {
		shipped += fmt.Sprintf(" --policy %[1]s/examples/%[2]s/policy.yaml --state %[1]s/examples/%[2]s/cluster.yaml", root, name)
	}
	for policies, args := range map[string]string{"shipped": shipped, "everywhere": " --policy everywhere.yaml"} {
		t.Run(policies, func(t *testing.T) {
			code, out, complaints := typed(t, "", "review -o json --fail-on warn -f "+strings.Join(c.repositories, " -f ")+args)
			var report struct{ Results []review.Result }
			if err := json.Unmarshal([]byte(out), &report); err != nil || code != 1 {
				t.Fatalf("exit %d, want 1: %v\n%s", code, err, complaints)
			}
			c.judge(t, report.Results, c.marked(policies))
		})
	}
}

// The README's command for one's own manifests judges workloads of a repository that it does not know.
func TestCommandOfTheREADME(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^podgrace (review -f YOUR-MANIFESTS .*)$`).FindStringSubmatch(string(readme))
	if command == nil {
		t.Fatal("the README has no such command")
	}
	c := readCorpus(t)
	t.Chdir(t.TempDir())
	inFolder(t, c.files)
	args := strings.NewReplacer("YOUR-MANIFESTS", "chart", " examples/", " "+root+"/examples/").Replace(command[1])
	code, out, complaints := typed(t, "", args)
	if changed := regexp.MustCompile(`[1-9][0-9]* changed`); code != 0 || !changed.MatchString(out) {
		t.Errorf("exit %d\n%s%s", code, out, complaints)
	}
}

// What the README shows of a review is what the command prints in a terminal of 80 columns.
func TestOutputOfTheREADME(t *testing.T) {
	t.Chdir("../..")
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```console\n\\$ podgrace (review [^\n]*)\n(.*?)^```$").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) == 0 {
		t.Fatal("the README shows no review")
	}
	for _, b := range blocks {
		var out bytes.Buffer
		command(t.Context(), terminal.Terminal{In: strings.NewReader(""), Out: &out, Err: &out, Style: console.Style{Width: 80}}, append([]string{"podgrace"}, strings.Fields(b[1])...))
		for part := range strings.SplitSeq(b[2], "...\n") {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s prints\n%s", b[1], out.String())
			}
		}
	}
}

// judge compares the warnings of a review with those that are wanted.
func (c corpus) judge(t *testing.T, results []review.Result, want map[manifest.Source]string) {
	t.Helper()
	workloads, warned := map[string]map[manifest.Source]bool{}, map[manifest.Source][]string{}
	for i := range results {
		r := &results[i]
		repository, _, _ := strings.Cut(r.Source.File, "/")
		if workloads[repository] == nil {
			workloads[repository] = map[manifest.Source]bool{}
		}
		workloads[repository][r.Source] = true // one of several templates is one workload
		if r.Decision != review.Allowed {
			t.Errorf("%s is refused: %s", r.Resource, r.Message)
		}
		if r.Warned() {
			warned[r.Source] = append(warned[r.Source], r.Warnings...)
		}
		if want[r.Source] == "" && r.Warned() {
			t.Errorf("%s (%s:%d) deserves no warning: %q", r.Resource, r.Source.File, r.Source.Line, r.Warnings)
		}
	}
	for source, text := range want {
		if !slices.ContainsFunc(warned[source], func(w string) bool { return strings.Contains(w, text) }) {
			t.Errorf("%s:%d deserves the warning %q, got %q", source.File, source.Line, text, warned[source])
		}
	}
	all := 0
	for _, repository := range c.repositories {
		n := 0
		for source := range maps.Keys(workloads[repository]) {
			if warned[source] != nil {
				n++
			}
		}
		all += len(workloads[repository])
		t.Logf("%-12s %3d workloads, %d with a warning", repository, len(workloads[repository]), n)
	}
	t.Logf("%-12s %3d workloads, %d with a warning: %.1f %%", "all", all, len(warned), 100*float64(len(warned))/float64(all))
	if all < 150 || len(warned)*20 >= all {
		t.Errorf("%d of %d workloads have a warning, want less than 5 %% of at least 150", len(warned), all)
	}
}
