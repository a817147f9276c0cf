package policyfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
)

const head = "apiVersion: podgrace.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: web}\n"

func TestParseRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"typo in a field":           {head + "spec:\n  weigth: 3\n", `p.yaml:5: unknown field "spec.weigth"`},
		"typo deep down":            {head + "spec:\n  topologySpread:\n    constraints:\n    - maxSkew: 1\n      topologyKey: zone\n      whenUnsatisfiable: DoNotSchedule\n      minDomain: 2\n", `p.yaml:10: unknown field "spec.topologySpread.constraints[0].minDomain"`},
		"field twice":               {head + "spec:\n  weight: 3\n  weight: 4\n", `p.yaml:6: key "weight" is in this object twice`},
		"wrong type":                {head + "spec:\n  weight: heavy\n", `p.yaml:5: spec.weight: Invalid value: "string"`},
		"CEL: default below 30":     {head + "spec:\n  gracePeriod:\n    defaultSeconds: 10\n", `p.yaml:6: spec.gracePeriod.defaultSeconds: Invalid value: `},
		"CEL: min above max":        {head + "spec:\n  gracePeriod:\n    minSeconds: 10\n    maxSeconds: 5\n", `p.yaml:6: spec.gracePeriod.minSeconds`},
		"CEL: removal and pods":     {head + "spec:\n  match:\n    podSelector: {matchLabels: {a: b}}\n  removal: {forceDelete: Deny}\n", `p.yaml:5: spec.match: Invalid value`},
		"CEL: system class":         {head + "spec:\n  priority:\n    className: system-node-critical\n", `p.yaml:6: spec.priority.className`},
		"schema: unknown enum":      {head + "spec:\n  removal:\n    protect: Some\n", `p.yaml:6: spec.removal.protect: Unsupported value`},
		"schema: two same keys":     {head + "spec:\n  topologySpread:\n    constraints:\n    - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}\n    - {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}\n", `p.yaml:8: spec.topologySpread.constraints[1]: Duplicate value`},
		"CEL condition not compile": {head + "spec:\n  match:\n    matchConditions:\n    - {name: a, expression: 'object.metadata.name =='}\n", `matchConditions[0].expression`},
		"bad selector":              {head + "spec:\n  match:\n    podSelector: {matchLabels: {'a b': c}}\n", `spec.match.podSelector`},
		"no name":                   {strings.Replace(head, "web", "''", 1) + "spec: {}\n", `p.yaml:3: metadata.name: Required value`},
		"other version":             {strings.Replace(head, "v1alpha1", "v9", 1) + "spec: {}\n", `p.yaml:1: apiVersion is podgrace.dev/v9`},
		"half a document":           {head + "spec: {weight: \n", `p.yaml:4: YAML: `},
		"not an object":             {"- a\n", `p.yaml:1: a list, not an object`},
		"binary":                    {"\x00\x01\x02", `p.yaml: a binary file`},
	} {
		t.Run(name, func(t *testing.T) {
			policies, err := policyfile.Parse("p.yaml", []byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %d policies, error %v, want %q", len(policies), err, tc.want)
			}
		})
	}
}

// All that is wrong with a policy is said at once: who mends one thing should not meet the next.
func TestParseSaysAll(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"a type and typos": {head + "spec:\n  gracePeriod: {minSecond: 40, defaultSeconds: '40'}\n  prioritty: {className: x}\n", []string{
			`p.yaml:5: spec.gracePeriod.defaultSeconds: Invalid value: "string": spec.gracePeriod.defaultSeconds in body must be of type integer: "string"`,
			`p.yaml:5: unknown field "spec.gracePeriod.minSecond"`,
			`p.yaml:6: unknown field "spec.prioritty"`,
		}},
		"types, a value and a typo": {head + "spec:\n  weight: heavy\n  removal:\n    protect: Some\n    forceDelte: Deny\n  topologySpread: [zone]\n", []string{
			`p.yaml:5: spec.weight: Invalid value: "string": spec.weight in body must be of type integer: "string"`,
			`p.yaml:7: spec.removal.protect: Unsupported value: "Some": supported values: "Stateful", "All"`,
			`p.yaml:8: unknown field "spec.removal.forceDelte"`,
			`p.yaml:9: spec.topologySpread: Invalid value: "array": spec.topologySpread in body must be of type object: "array"`,
		}},
		"what is below another type": {head + "spec:\n  removal: {protect: {much: true}}\n  topologySpread: [{topologyKey: zone}]\n", []string{
			`p.yaml:5: spec.removal.protect: Invalid value: "object": spec.removal.protect in body must be of type string: "object"`,
			`p.yaml:5: spec.removal.protect: Unsupported value: {"much":true}: supported values: "Stateful", "All"`,
			`p.yaml:6: spec.topologySpread: Invalid value: "array": spec.topologySpread in body must be of type object: "array"`,
		}},
		"metadata": {strings.Replace(head, "name: web", "name: web, lables: {a: b}, labels: {a: 1}, annotations: text", 1) + "spec:\n  weigth: 3\n", []string{
			`p.yaml:3: metadata.annotations: Invalid value: "text": this field of an object's metadata is of another type`,
			`p.yaml:3: metadata.labels: Invalid value: {"a":1}: this field of an object's metadata is of another type`,
			`p.yaml:3: unknown field "metadata.lables"`,
			`p.yaml:5: unknown field "spec.weigth"`,
		}},
		"no metadata": {strings.Replace(head, "{name: web}", "web", 1) + "spec: none\n", []string{
			`p.yaml:3: metadata is a text, not an object`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policyfile.Parse("p.yaml", []byte(tc.text))
			var got []string
			for _, e := range manifest.Errors(err) {
				got = append(got, e.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseDefaultsAsTheAPIServerDoes(t *testing.T) {
	text := "kind: ConfigMap\n---\n" + head + "spec:\n  topologySpread:\n    constraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]\n"
	policies, err := policyfile.Parse("p.yaml", []byte(text))
	if err != nil || len(policies) != 1 {
		t.Fatalf("got %v, %v", policies, err)
	}
	if s := policies[0].Spec.TopologySpread; s.RevisionAware == nil || !*s.RevisionAware || s.OnInfeasible != "Warn" {
		t.Errorf("schema defaults are missing: %+v", s)
	}
}

func TestLoadReportsAll(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": head + "spec: {}\n", "b.yaml": head + "spec: {}\n", "c.yml": head + "spec:\n  x: 1\n", "notes.txt": "no YAML: {"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	policies, err := policyfile.Load(dir, filepath.Join(dir, "gone"))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"PodPolicy web is in", "c.yml:5: unknown field", "gone: no such file"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
	if len(policies) != 1 {
		t.Errorf("got %d policies, want the good one", len(policies))
	}
}

// What kubectl get -o yaml prints is a list.
func TestParseList(t *testing.T) {
	const item = "- apiVersion: podgrace.dev/v1alpha1\n  kind: PodPolicy\n  metadata: {name: %, uid: u, resourceVersion: '3'}\n  spec:\n    "
	text := "apiVersion: v1\nkind: List\nitems:\n" + strings.Replace(item, "%", "a", 1) + "weight: 3\n" + strings.Replace(item, "%", "b", 1) + "weigth: 4\n- kind: ConfigMap\n"
	policies, err := policyfile.Parse("p.yaml", []byte(text))
	if len(policies) != 1 || policies[0].Name != "a" || policies[0].Spec.Weight != 3 {
		t.Errorf("got %v", policies)
	}
	if want := `p.yaml:13: unknown field "spec.weigth"`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A path that somebody named and that brings no policy is wrong as a whole.
func TestRequire(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"pod.yaml": head + "spec: {}\n", "node.yaml": nodeHead + "spec: {}\n", "typo.yaml": head + "spec: {x: 1}\n", "other.yaml": "kind: ConfigMap\n", "broken.yaml": "a: {\n", "empty.yaml": "",
		"binary.yaml": "\x00\x01", "latin1.yaml": "# caf\xe9\n", "nodetypo.yaml": head + "spec: {}\n---\n" + nodeHead + "spec: {mod: Tune}\n", "folder/README.md": "",
		"utf16.yaml": "\xff\xfe#\x00\n\x00",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for path, tc := range map[string]struct {
		want       string
		noPolicies bool
	}{
		"pod.yaml":      {"", false},
		"typo.yaml":     {`typo.yaml:4: unknown field "spec.x"`, false},
		"nodetypo.yaml": {`nodetypo.yaml:9: unknown field "spec.mod"`, false},
		"broken.yaml":   {"broken.yaml:1: YAML: ", false},
		"node.yaml":     {"node.yaml: no PodPolicy in it", true},
		"other.yaml":    {"other.yaml: no PodPolicy in it", true},
		"empty.yaml":    {"empty.yaml: no PodPolicy in it", true},
		"binary.yaml":   {"binary.yaml: a binary file", true},
		"latin1.yaml":   {"latin1.yaml: no PodPolicy in it", true},
		"utf16.yaml":    {"utf16.yaml: text in UTF-16; save it as UTF-8", true},
		"folder":        {"folder: no .yaml, .yml or .json file", true},
		"gone":          {"gone: no such file or directory", true},
		"":              {": no such file or directory", true},
	} {
		_, err := policyfile.Require(path)
		errs := manifest.Errors(err)
		if tc.want == "" {
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want) || errs[0].Whole != tc.noPolicies {
			t.Errorf("%s: got %v, want %s", path, err, tc.want)
		}
	}
	if _, err := policyfile.Load("other.yaml"); err != nil {
		t.Errorf("Load is as strict: %v", err)
	}
	if _, err := policyfile.RequireNodePolicies("pod.yaml"); err == nil || err.Error() != "pod.yaml: no NodePolicy in it" {
		t.Errorf("got %v", err)
	}
	if policies, err := policyfile.RequireNodePolicies("node.yaml"); err != nil || len(policies) != 1 {
		t.Errorf("got %v, %v", policies, err)
	}
}

// A repository has a folder for each team: a review by half of the policies would mislead.
func TestLoadFoldersInFolders(t *testing.T) {
	dir := t.TempDir()
	named := func(name string) string { return strings.Replace(head, "name: web", "name: "+name, 1) + "spec: {}\n" }
	for name, text := range map[string]string{
		"base.yaml": named("base"), "team-a/m.yaml": named("m"), "team-b/.more/deep/o.yml": named("o"), "tests/suite.yaml": "kind: PolicySuite\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	policies, err := policyfile.Require(dir)
	var names []string
	for _, p := range policies {
		names = append(names, p.Name)
	}
	if err != nil || strings.Join(names, " ") != "base m o" {
		t.Errorf("%v, %v", names, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "team-a", "typo.yaml"), []byte(head+"spec: {x: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := policyfile.Require(dir); err == nil || !strings.Contains(err.Error(), "team-a/typo.yaml:4") {
		t.Errorf("%v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(head + "spec: {weight: 3}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		policies, err := policyfile.Parse("f", text)
		for _, p := range policies {
			if p.Name == "" {
				t.Errorf("a policy without name passed: %v", err)
			}
		}
	})
}
