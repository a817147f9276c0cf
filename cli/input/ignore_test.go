package input

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// writeTree writes files into a folder, by their paths.
func writeTree(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// readFolder returns the kinds of the documents, the errors, and what was left out.
func readFolder(t testing.TB, r *Reader, paths ...string) (kinds []string, left []LeftOut) {
	t.Helper()
	for d, err := range r.Read(paths...) {
		if err != nil {
			kinds = append(kinds, err.Error())
			continue
		}
		kinds = append(kinds, d.File+" "+d.Kind)
	}
	return kinds, r.LeftOut
}

func TestPatterns(t *testing.T) {
	for _, tc := range []struct {
		patterns, path string
		folder, want   bool
	}{
		{"a.yaml", "a.yaml", false, true},
		{"a.yaml", "x/y/a.yaml", false, true},
		{"/a.yaml", "x/a.yaml", false, false},
		{"/a.yaml", "a.yaml", false, true},
		{"x/a.yaml", "y/x/a.yaml", false, false},
		{"x/a.yaml", "x/a.yaml", false, true},
		{"testdata/", "x/testdata", true, true},
		{"testdata/", "x/testdata", false, false},
		{"*.yaml", "x/a.yaml", false, true},
		{"x/*.yaml", "x/y/a.yaml", false, false},
		{"x/**/a.yaml", "x/a.yaml", false, true},
		{"x/**/a.yaml", "x/y/z/a.yaml", false, true},
		{"**/a.yaml", "a.yaml", false, true},
		{"x/**", "x", true, false},
		{"x/**", "x/y", true, true},
		{"/**", "x/y", false, true},
		{"a\n!/**", "x/a", false, false},
		{"a?.yaml", "ab.yaml", false, true},
		{"a?.yaml", "a/.yaml", false, false},
		{"a[b-d].yaml", "ac.yaml", false, true},
		{"a[!b-d].yaml", "ac.yaml", false, false},
		{"a[^b-d].yaml", "ae.yaml", false, true},
		{"a[!b]c", "a/c", false, false},
		{"[]]", "]", false, true},
		{`a\*.yaml`, "a*.yaml", false, true},
		{`a\*.yaml`, "ab.yaml", false, false},
		{"# a\n\\#a", "#a", false, true},
		{"a.b", "aXb", false, false},
		{"*.yaml\n!keep.yaml", "x/keep.yaml", false, false},
		{"*.yaml\n!keep.yaml\nkeep.yaml", "keep.yaml", false, true},
		{`\!a`, "!a", false, true},
		{"a  \r", "a", false, true},
		{`a\ `, "a ", false, true},
		{"\ufeffa", "a", false, true},
	} {
		patterns, err := parsePatterns(".", strings.NewReader(tc.patterns))
		if err != nil {
			t.Errorf("%q: %v", tc.patterns, err)
			continue
		}
		if got := excludes(tc.path, tc.folder, patterns); got != tc.want {
			t.Errorf("%q excludes %q (folder: %t): %t", tc.patterns, tc.path, tc.folder, got)
		}
	}
	for _, bad := range []string{"[a", `a\`, "/", "!", "[z-a]", "a\n[b"} {
		if err := ValidatePatterns(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestPatternsAreGits holds patterns against git's own reading.
func TestPatternsAreGits(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git on the PATH")
	}
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	paths := []string{"a", "b", "a.b", "ab", "aa", "a/a", "a/b", "b/a", "a/a/a", "a/b/a", "b/a/b", "a/a.b", "b/b/b/a", "b.a/a"}
	rapid.Check(t, func(rt *rapid.T) {
		word := rapid.StringOfN(rapid.SampledFrom([]rune("aab*?./!b[]^-")), 1, 7, -1)
		text := strings.Join(rapid.SliceOfN(word, 1, 3).Draw(rt, "patterns"), "\n")
		patterns, err := parsePatterns(".", strings.NewReader(text))
		if err != nil {
			rt.Skip("git passes over what is no pattern; here it is an error")
		}
		if strings.Contains(text, "//") || strings.Contains(text, "./") || strings.Contains(text, "***") {
			rt.Skip("of no use")
		}
		writeTree(t, dir, map[string]string{".git/info/exclude": text + "\n"})
		git := exec.Command("git", "-C", dir, "check-ignore", "--no-index", "--stdin")
		git.Stdin = strings.NewReader(strings.Join(paths, "\n") + "\n")
		out, err := git.Output()
		if exit := new(exec.ExitError); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) { // 1: nothing is ignored
			rt.Fatalf("git check-ignore: %v", err)
		}
		var want, got []string
		for line := range strings.Lines(string(out)) {
			want = append(want, strings.TrimSuffix(line, "\n"))
		}
		for _, path := range paths {
			if walkExcludes(path, patterns) {
				got = append(got, path)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("%q (-git +us):\n%s", text, diff)
		}
	})
}

// walkExcludes asks for each folder above a path, as the walk does.
func walkExcludes(path string, patterns ignored) bool {
	for i, c := range path {
		if c == '/' && excludes(path[:i], true, patterns) {
			return true
		}
	}
	return excludes(path, false, patterns)
}

func TestExcludedPathsAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	object := func(kind string) string { return "apiVersion: v1\nkind: " + kind + "\n" }
	writeTree(t, dir, map[string]string{
		".podgraceignore":               "# of all\nskipped/\n",
		"deploy/a.yaml":                 object("A"),
		"deploy/b-values.yaml":          object("B"),
		"deploy/skipped/c.yaml":         object("C"),
		"deploy/team/.podgraceignore":   "/*.yaml\n!kept.yaml\n",
		"deploy/team/d.yaml":            object("D"),
		"deploy/team/kept.yaml":         object("E"),
		"deploy/team/sub/f.yaml":        object("F"),
		"deploy/zz/d.yaml":              object("G"),
		"deploy/zz/testdata/broken.yml": "{{ . }}",
		"deploy/zz/README.md":           "not asked about",
	})
	t.Chdir(dir)
	want := []string{"deploy/a.yaml A", "deploy/team/kept.yaml E", "deploy/team/sub/f.yaml F", "deploy/zz/d.yaml G"}
	left := []LeftOut{{Path: "deploy/b-values.yaml", As: Excluded}, {Path: "deploy/skipped", As: Excluded}, {Path: "deploy/team/d.yaml", As: Excluded}, {Path: "deploy/zz/testdata", As: Excluded}}
	for _, path := range []string{"deploy", ".", "./deploy/"} {
		kinds, got := readFolder(t, &Reader{Exclude: []string{"testdata/", "*-values.yaml"}}, path)
		if diff := cmp.Diff(want, kinds) + cmp.Diff(left, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	// Of an absolute path, patterns are about what is below it; and the working directory's file does not count elsewhere.
	kinds, _ := readFolder(t, &Reader{Exclude: []string{"/team/", "zz"}}, filepath.Join(dir, "deploy"))
	if len(kinds) != 3 {
		t.Errorf("below an absolute path: %q", kinds)
	}
	// The caller has the last word, also about a file that is named; an ignore file has none about that.
	if kinds, _ := readFolder(t, &Reader{Exclude: []string{"!d.yaml"}}, "deploy/team"); len(kinds) != 3 {
		t.Errorf("taken back: %q", kinds)
	}
	if kinds, _ := readFolder(t, &Reader{}, "deploy/team/d.yaml"); len(kinds) != 1 {
		t.Errorf("named: %q", kinds)
	}
	if kinds, left := readFolder(t, &Reader{Exclude: []string{"d.yaml"}}, "deploy/team/d.yaml"); len(kinds) != 0 || len(left) != 1 {
		t.Errorf("named and excluded: %q, %v", kinds, left)
	}
	writeTree(t, dir, map[string]string{".podgraceignore": "[a\n"})
	if kinds, _ := readFolder(t, &Reader{}, "."); len(kinds) == 0 || kinds[0] != `.podgraceignore: line 1: "[a" is no pattern` {
		t.Errorf("a broken file: %q", kinds)
	}
}

func TestFilesWithoutAManifestAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"a.yaml":        "apiVersion: v1\nkind: A\n",
		"ci.yaml":       "on: [push]\n---\njobs: {}\n",
		"list.json":     "[1, 2]",
		"package.json":  `{"name": "x", "version": "1"}`,
		"empty.yaml":    "# nothing\n",
		"half.yaml":     "a: b\n---\napiVersion: v1\nkind: B\n---\nc: d\n",
		"lost.yaml":     "metadata: {name: lost}\nspec: {}\n",
		"no-kind.yaml":  "apiVersion: v1\n",
		"template.yaml": "a: b\n---\n{{- if .Values.x }}\n",
		"broken.yaml":   "apiVersion: v1\nkind: A\n  metadata: {name: a}\n",
		"other.yaml":    "a: [\n",
	})
	t.Chdir(dir)
	kinds, left := readFolder(t, &Reader{}, ".")
	want := []string{
		"a.yaml A", "half.yaml:1: no apiVersion and no kind: not an object of Kubernetes", "half.yaml B", "half.yaml:6: no apiVersion and no kind: not an object of Kubernetes",
		"lost.yaml:1: no apiVersion and no kind: not an object of Kubernetes",
	}
	want = slices.Insert(want, 1, "broken.yaml:3: YAML: mapping values are not allowed in this context (wrong indentation, or a text with a colon that needs quotes?)")
	foreign := []LeftOut{
		{Path: "ci.yaml", As: Foreign}, {Path: "list.json", As: Foreign}, {Path: "no-kind.yaml", As: Foreign}, {Path: "other.yaml", As: Foreign},
		{Path: "package.json", As: Foreign}, {Path: "template.yaml", As: Template},
	}
	if diff := cmp.Diff(want, kinds) + cmp.Diff(foreign, left); diff != "" {
		t.Error(diff)
	}
	// What is named is to be reviewed.
	if kinds, left := readFolder(t, &Reader{}, "ci.yaml", "list.json"); len(kinds) != 3 || len(left) != 0 {
		t.Errorf("named: %q", kinds)
	}
	many := strings.Repeat("a: b\n---\n", 20+5) + "apiVersion: v1\nkind: A\n"
	writeTree(t, dir, map[string]string{"half.yaml": many})
	var got []string
	for _, k := range first(readFolder(t, &Reader{}, ".")) {
		if strings.HasPrefix(k, "half") {
			got = append(got, k)
		}
	}
	if len(got) != 20+2 || got[20] != "half.yaml A" || got[21] != "half.yaml: and 5 more errors in this file" {
		t.Errorf("many: %d, %q", len(got), got)
	}
}

func first[A, B any](a A, _ B) A { return a }

// FuzzPattern: a line is a pattern, none, or wrong, and never two of these.
func FuzzPattern(f *testing.F) {
	for _, line := range []string{"*.yaml", "!/a/**/b/", `\ `, "[!a-z]", "[]", "[z-a]", "**", "/**", "a/**", "#", "!", "a  ", "[[:alpha:]]", "\xff"} {
		f.Add(line, "a/b/c.yaml")
	}
	f.Fuzz(func(t *testing.T, line, path string) {
		p, is, err := parsePattern(".", line)
		if is != (p.match != nil && err == nil) {
			t.Fatalf("%q: %+v, %v", line, p, err)
		}
		if is && p.not && excludes(path, true, ignored{p}) {
			t.Errorf("%q leaves %q out", line, path)
		}
	})
}

// What other programs keep in a repository is counted, and its owner has nothing to repair.
func TestFilesOfOtherProgramsAreLeftOut(t *testing.T) {
	for name, test := range map[string]struct {
		file, text string
		as         As
		// named is what is said of the file where it is named.
		named string
	}{
		"Grafana":             {"datasource.yaml", "apiVersion: 1\ndatasources: [{name: a}]\n", Foreign, "datasource.yaml:1: apiVersion is a number (1), not a text"},
		"Grafana as JSON":     {"datasource.json", `{"apiVersion": 1, "datasources": [{"name": "a"}]}`, Foreign, "datasource.json:1: apiVersion is a number (1), not a text"},
		"an index of charts":  {"index.yaml", "apiVersion: v1\nentries: {}\n", Foreign, "index.yaml:1: no kind (apiVersion is v1)"},
		"a pipeline":          {"drone.yml", "kind: pipeline\nsteps: []\n", Foreign, "drone.yml:1: no apiVersion (kind is pipeline)"},
		"a comment in JSON":   {"tsconfig.json", "{\n  /* strictly */\n  \"compilerOptions\": {\"strict\": true,},\n}\n", Foreign, "tsconfig.json:2: JSON: invalid character '/' (JSON has no comments)"},
		"a comment behind":    {"a.json", "{\"a\": 1, // one\n\"b\": 2}\n", Foreign, "a.json:1: JSON: invalid character '/' looking for beginning of object key string (JSON has no comments)"},
		"ytt":                 {"config.yaml", "#@ load(\"@ytt:data\", \"data\")\n---\na: #@ data.values.a\nb: @c\n", Foreign, "config.yaml:4: YAML: found character that cannot start any token (a text with @, ` or % at its start needs quotes)"},
		"a template":          {"daemonset.yaml", "apiVersion: apps/v1\nkind: DaemonSet\nspec:\n  {{- if .Class }}\n  a: b\n  {{- end }}\n", Template, "daemonset.yaml:5: YAML: did not find expected node content (a template that was not rendered?)"},
		"a template's value":  {"a.yaml", "apiVersion: v1\nkind: A\nmetadata:\n  name: {{ .Name }}\n", Template, "a.yaml:4: a key that is an object (a template that was not rendered?)"},
		"Jinja":               {"a.yaml", "apiVersion: v1\n{% if a %}\nkind: A\n{% endif %}\n", Template, "a.yaml:2: YAML: found character that cannot start any token (a template that was not rendered?)"},
		"SOPS":                {"secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: \"ENC[AES256_GCM,data:x]\"}\nsops: {mac: x, version: 3.9.0}\n", Encrypted, ""},
		"SOPS as JSON":        {"secret.json", `{"apiVersion": "v1", "kind": "Secret", "sops": {"mac": "x"}}`, Encrypted, ""},
		"a value called sops": {"a.yaml", "apiVersion: v1\nkind: A\nsops: none\n", "", "a.yaml A"},
		"a broken manifest":   {"a.yaml", "apiVersion: v1\nkind: A\nb: [\n", "", "a.yaml:3: YAML: did not find expected node content"},
		"JSON of a manifest":  {"a.json", "{\"apiVersion\": \"v1\", // one\n\"kind\": \"A\"}\n", "", "a.json:1: JSON: invalid character '/' looking for beginning of object key string (JSON has no comments)"},
		"metadata, no kind":   {"a.yaml", "apiVersion: v1\nmetadata: {name: a}\n", "", "a.yaml:1: no kind (apiVersion is v1)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			writeTree(t, ".", map[string]string{test.file: test.text})
			named, left := readFolder(t, &Reader{}, test.file)
			if test.as == Encrypted != (len(left) == 1) || strings.Join(named, "\n") != test.named {
				t.Errorf("named: %q, %v", named, left)
			}
			found, left := readFolder(t, &Reader{}, ".")
			switch {
			case test.as == "" && (len(left) > 0 || strings.Join(found, "\n") != test.named),
				test.as != "" && (len(found) > 0 || len(left) != 1 || left[0].As != test.as):
				t.Errorf("found: %q, %v", found, left)
			}
		})
	}
}

// A clone of Podgrace in a workspace of continuous integration has examples, and policies, of its own.
func TestToolsFoldersArePassedOver(t *testing.T) {
	t.Chdir(t.TempDir())
	object := "apiVersion: v1\nkind: A\n"
	writeTree(t, ".", map[string]string{"a.yaml": object, ".devcontainer/devcontainer.json": "{\n\t// a\n}", ".podgrace/examples/b.yaml": object, ".team/c.yaml": object})
	kinds, left := readFolder(t, &Reader{}, ".")
	if diff := cmp.Diff([]string{".team/c.yaml A", "a.yaml A"}, kinds); diff != "" || len(left) > 0 {
		t.Errorf("%s%v", diff, left)
	}
	if kinds, _ := readFolder(t, &Reader{}, ".podgrace"); len(kinds) != 1 {
		t.Errorf("named: %q", kinds)
	}
}
