package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/program/version"
)

// The command lines of this program that people copy: those of deploy/ci, and those in the code blocks of the pages.
var (
	commandLine = regexp.MustCompile(`(?m)(?:^|entry: |run: |- |\$ |go run \./cmd/)\s*((?:kubectl )?podgrace (?:review|test|diff|explain|compile|confirm|doctor) [^\n]*)`)
	eachFlag    = regexp.MustCompile(`(?m)^\s*each (--\S+) `)
	codeBlock   = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```$")
	byShell     = regexp.MustCompile(`\s(?:[|;#&>]|\d?>|\|\|).*$`)
)

// A flag, a value or a subcommand that is renamed fails here, and not in a user's pipeline.
func TestCommandLinesThatAreWrittenDown(t *testing.T) {
	lines := map[string]string{}
	written(t, "../../deploy/ci", func(path, text string) {
		for _, line := range commands(text) {
			// In the action each line of an input becomes a flag.
			for _, flag := range eachFlag.FindAllStringSubmatch(text, -1) {
				line = strings.Replace(line, `"${args[@]}"`, flag[1]+`=x "${args[@]}"`, 1)
			}
			lines[strings.ReplaceAll(line, `"${args[@]}"`, "")] = path
		}
	})
	if len(lines) < 5 {
		t.Errorf("only %d command lines in deploy/ci: %v", len(lines), lines)
	}
	ofCI := len(lines)
	for _, root := range []string{"../../docs", "../../README.md"} {
		written(t, root, func(path, text string) {
			for _, b := range codeBlock.FindAllStringSubmatch(text, -1) {
				for _, line := range commands(b[1]) {
					lines[line] = path
				}
			}
		})
	}
	if len(lines) < ofCI+4 {
		t.Errorf("only %d command lines in the pages", len(lines)-ofCI)
	}
	for line, path := range lines {
		if problem := parsed(line); problem != "" {
			t.Errorf("%s: %s: %s", path, line, problem)
		}
	}
}

// written calls do for each text file.
func written(t *testing.T, root string, do func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{"", ".md", ".yaml", ".yml"}, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		do(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// commands are the command lines of a text, without what the shell takes from them.
func commands(text string) (lines []string) {
	for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
		lines = append(lines, byShell.ReplaceAllString(strings.TrimPrefix(m[1], "kubectl "), ""))
	}
	return lines
}

// parsed says what the program's own parser has against a line; empty: nothing.
func parsed(line string) string {
	root := newRoot(terminal.Terminal{}, "podgrace")
	cmd, rest, err := root.Find(strings.Fields(line)[1:])
	if err != nil {
		return err.Error()
	}
	if cmd == root {
		return "no such subcommand"
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err.Error()
	}
	problem := ""
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := offered(cmd, f.Name)
		for value := range strings.SplitSeq(strings.Trim(f.Value.String(), "[]"), ",") { // those of a list
			value, _, _ = strings.Cut(value, "=") // -o FORMAT=FILE
			if len(values) > 0 && !strings.Contains(value, "$") && !slices.Contains(values, value) {
				problem = "--" + f.Name + " takes " + strings.Join(values, ", ") + ", not " + value
			}
		}
	})
	return problem
}

// offered are the values that the shell completion has for a flag of few values.
func offered(cmd *cobra.Command, flag string) (values []string) {
	if !slices.Contains([]string{"output", "fail-on", "operation", "color"}, flag) {
		return nil
	}
	if complete, ok := cmd.GetFlagCompletionFunc(flag); ok {
		all, _ := complete(cmd, nil, "")
		for _, c := range all {
			values = append(values, strings.SplitN(c, "\t", 2)[0])
		}
	}
	return values
}

func TestCommandLinesThatAreWrong(t *testing.T) {
	for _, line := range []string{
		"podgrace review --filenames x", "podgrace reviews -f x", "podgrace review -f x -o xml", "podgrace test --fail-on deny x", "podgrace review -f x --fail-on error",
	} {
		if parsed(line) == "" {
			t.Errorf("%s is taken", line)
		}
	}
	const text = "  - run: podgrace test policies/\n    podgrace diff --from a --to b -o markdown >impact.md\n$ kubectl podgrace confirm -n shop db-0\n  podgrace review -f x || true\n"
	want := []string{"podgrace test policies/", "podgrace diff --from a --to b -o markdown", "podgrace confirm -n shop db-0", "podgrace review -f x"}
	if got := commands(text); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// remote are the examples that ask a cluster: here there is none to answer.
var remote = regexp.MustCompile(`--context production| -n shop | node/|^fence |^status |^doctor (--fail-on |$)`)

// Each example of the help does what it says, typed at the root of this repository.
func TestExamplesOfTheHelp(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	kubeconfig(t)
	t.Setenv("PATH", installed(t, version.Preview)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Chdir(dir)
	commitAll(t)
	manifests, err := os.ReadFile("examples/stateful/workloads.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("dump.json", manifests, 0o600); err != nil { // YAML is read as well
		t.Fatal(err)
	}
	ran := 0
	for _, cmd := range newRoot(terminal.Terminal{}, "podgrace").Commands() {
		for line := range strings.Lines(cmd.Example) {
			_, args, ok := strings.Cut(byShell.ReplaceAllString(strings.TrimSpace(line), ""), "podgrace ")
			if piped := strings.LastIndex(line, "| podgrace "); piped >= 0 {
				_, args, ok = strings.Cut(strings.TrimSpace(line[piped:]), "podgrace ")
			}
			if !ok || strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			ran++
			example(t, words(args), string(manifests))
		}
	}
	if ran < 14 {
		t.Errorf("only %d examples were run", ran)
	}
}

// example runs one. A finding is no failure of it; bad input, or nothing to say, is.
func example(t *testing.T, args []string, stdin string) {
	t.Helper()
	var out, complaints bytes.Buffer
	code := command(t.Context(), terminal.Terminal{In: strings.NewReader(stdin), Out: &out, Err: &complaints, Asks: true}, append([]string{"podgrace"}, args...))
	if remote.MatchString(strings.Join(args, " ") + " ") {
		if code != 1 || !strings.Contains(complaints.String(), "connection refused") {
			t.Errorf("%q: exit %d, want one that reaches for the cluster: %s", args, code, complaints.String())
		}
		return
	}
	complained := slices.ContainsFunc(strings.Split(strings.TrimSpace(complaints.String()), "\n"), func(line string) bool {
		// Remarks are on the examples' policies, if all are taken together, and on the dump, which has what is in a file.
		return line != "" && !strings.HasPrefix(line, "PodPolicy ") && !strings.HasPrefix(line, "PolicyException ") && !strings.HasPrefix(line, "judged more than once")
	})
	if code == 2 || out.Len() == 0 || complained {
		t.Errorf("%q: exit %d\n%s%s", args, code, out.String(), complaints.String())
	}
}

// words splits a command line as a shell does, as far as the examples need it.
func words(line string) []string {
	var all []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}
