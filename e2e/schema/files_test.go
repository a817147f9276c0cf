package schema

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/internal/manifest"
)

// shipped are the schemas in deploy/schema, by their paths; that they are fresh is tested there.
func shipped(t *testing.T) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("../../deploy/schema/podgrace.dev/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no schemas: %v", err)
	}
	all := map[string][]byte{}
	for _, path := range paths {
		if all[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// compiled are the schemas by the kind that they are of.
func compiled(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	all := map[string]*jsonschema.Schema{}
	for name, text := range shipped(t) {
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource(name, document); err != nil {
			t.Fatal(err)
		}
		kind, _, _ := strings.Cut(filepath.Base(name), "_")
		if all[kind], err = compiler.Compile(name); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func valid(t testing.TB, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(document)
}

// The policies and suites that we ship are valid by their schemas, and name them where an editor looks.
func TestExamplesAreValid(t *testing.T) {
	schemas := compiled(t)
	found := map[string]int{}
	for _, root := range []string{"../../examples", "../../deploy/policies"} {
		for d, wrong := range (&input.Reader{}).Read(root) {
			if wrong != nil {
				t.Error(wrong)
				continue
			}
			s := schemas[strings.ToLower(d.Kind)]
			if s == nil || !strings.HasPrefix(d.APIVersion, "podgrace.dev/") {
				continue
			}
			found[d.Kind]++
			if err := valid(t, s, d.JSON); err != nil {
				t.Errorf("%s:%d: %v", d.File, d.Line, err)
			}
			if root == "../../examples" { // which are copied one by one; what is applied as a whole has two kinds in a file
				hinted(t, d)
			}
		}
	}
	if found["PodPolicy"] < 5 || found["PolicySuite"] < 4 || found["FencePolicy"] < 1 || found["FenceAgent"] < 1 {
		t.Errorf("found %v", found)
	}
}

// hinted checks the comment by which the YAML language server finds the schema of a file.
func hinted(t *testing.T, d *manifest.Document) {
	t.Helper()
	text, err := os.ReadFile(d.File)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	path, ok := strings.CutPrefix(first, "# yaml-language-server: $schema=")
	if !ok {
		t.Errorf("%s does not begin with the comment that names its schema", d.File)
		return
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(d.File), path)); err != nil || !strings.Contains(path, strings.ToLower(d.Kind)+"_") {
		t.Errorf("%s names %s: %v", d.File, path, err)
	}
}

// So is the suite that the page shows.
func TestSuiteOfThePageIsValid(t *testing.T) {
	page, err := os.ReadFile("../../docs/policy-as-code.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\napiVersion: podgrace.dev/v1alpha1\nkind: PolicySuite\n")
	block, _, _ = strings.Cut(block, "```")
	text, err := yaml.YAMLToJSON([]byte("apiVersion: podgrace.dev/v1alpha1\nkind: PolicySuite\n" + block))
	if err != nil || len(block) < 500 {
		t.Fatalf("%v: %q", err, block)
	}
	if err := valid(t, compiled(t)["policysuite"], text); err != nil {
		t.Error(err)
	}
}

// A typo is found while it is typed.
func TestWrongFilesAreNotValid(t *testing.T) {
	schemas := compiled(t)
	for text, kind := range map[string]string{
		`{"apiVersion": "podgrace.dev/v1alpha1", "kind": "PodPolicy", "metadata": {"name": "a"}, "spec": {"gracePeriod": {"minSecond": 1}}}`:                                                     "podpolicy",
		`{"apiVersion": "podgrace.dev/v1alpha1", "kind": "PodPolicy", "metadata": {"name": "a"}, "spec": {"gracePeriod": {"minSeconds": "1"}}}`:                                                  "podpolicy",
		`{"apiVersion": "podgrace.dev/v1alpha1", "kind": "PodPolicy", "metadata": {"name": "a"}, "spec": {"removal": {"forceDelete": "Maybe"}}}`:                                                 "podpolicy",
		`{"apiVersion": "podgrace.dev/v1", "kind": "PodPolicy", "metadata": {"name": "a"}, "spec": {}}`:                                                                                          "podpolicy",
		`{"apiVersion": "podgrace.dev/v1alpha1", "kind": "NodePolicy", "metadata": {"name": "a"}, "spec": {"mode": "Tone"}}`:                                                                     "nodepolicy",
		`{"apiVersion": "podgrace.dev/v1alpha1", "kind": "PolicySuite", "cases": []}`:                                                                                                            "policysuite",
		`{"apiVersion": "podgrace.dev/v1alpha1", "kind": "PolicySuite", "cases": [{"name": "a", "when": {"object": "Pod"}}]}`:                                                                    "policysuite",
		`{"apiVersion": "podgrace.dev/v1alpha1", "kind": "PolicySuite", "cases": [{"name": "a", "when": {"object": "Pod a/b", "review": "x"}}]}`:                                                 "policysuite",
		`{"apiVersion": "podgrace.dev/v1alpha1", "kind": "PolicySuite", "cases": [{"name": "a", "when": {"object": "Pod a/b"}, "then": {"decision": "Maybe"}}]}`:                                 "policysuite",
		`{"apiVersion": "podgrace.dev/v1alpha1", "kind": "PolicySuite", "cases": [{"name": "a", "when": {"object": "Pod a/b"}, "than": {}}]}`:                                                    "policysuite",
		`{"apiVersion": "podgrace.dev/v1alpha1", "kind": "PolicySuite", "now": "noon", "cases": [{"name": "a", "when": {"object": "Pod a/b"}}]}`:                                                 "policysuite",
		`{"apiVersion": "podgrace.dev/v1alpha1", "kind": "PolicySuite", "cases": [{"name": "a", "when": {"object": "Pod a/b"}, "then": {"patch": [{"path": "/spec", "was": 1, "op": "add"}]}}]}`: "policysuite",
	} {
		if valid(t, schemas[kind], []byte(text)) == nil {
			t.Errorf("valid: %s", text)
		}
	}
}
