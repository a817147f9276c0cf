package review

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/cli/input"
)

// Policies among manifests are found whatever way they are written down, and errors name the line of the field where it can be told.
func TestAddPolicies(t *testing.T) {
	const (
		pod  = "apiVersion: podgrace.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: pods}\nspec:\n  weight: 3\n"
		node = "apiVersion: podgrace.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\nspec:\n  mode: Tune\n"
	)
	typo := strings.NewReplacer("weight", "weigth", "mode", "mod")
	for name, tc := range map[string]struct {
		file, text string
		found      int
		says       string
	}{
		"both":                    {"p.yaml", pod + "---\n" + node, 1, ""},
		"a typo in both":          {"p.yaml", typo.Replace(pod + "---\n" + node), 0, `p.yaml:5: unknown field "spec.weigth" p.yaml:11: unknown field "spec.mod"`},
		"a typo on stdin":         {"-", typo.Replace(pod + "---\n" + node), 0, `-:1: unknown field "spec.weigth" -:7: unknown field "spec.mod"`},
		"a list":                  {"p.yaml", "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(pod), "\n", "\n  ") + "\n", 1, ""},
		"lines of JSON":           {"p.jsonl", `{"apiVersion":"podgrace.dev/v1alpha1","kind":"PodPolicy","metadata":{"name":"a"},"spec":{}}` + "\n" + `{"apiVersion":"podgrace.dev/v1alpha1","kind":"PodPolicy","metadata":{"name":"b"},"spec":{}}` + "\n", 2, ""},
		"beside broken YAML":      {"p.yaml", "\"a: [\n---\n" + pod, 1, ""},
		"a typo beside it":        {"p.yaml", "\"a: [\n---\n" + typo.Replace(pod), 0, `p.yaml:3: unknown field "spec.weigth"`},
		"twice, and not the same": {"-", pod + "---\n" + strings.Replace(pod, "3", "4", 1), 1, "-:7: PodPolicy pods is there twice, and not the same"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if tc.file != "-" {
				if err := os.WriteFile(filepath.Clean(tc.file), []byte(tc.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			in := Read(&input.Reader{Stdin: strings.NewReader(tc.text)}, tc.file)
			policies, wrong := AddPolicies(nil, in.Documents)
			var says []string
			for _, e := range wrong {
				says = append(says, e.Error())
			}
			if got := strings.Join(says, " "); len(policies) != tc.found || got != tc.says {
				t.Errorf("got %d policies, want %d, and %s", len(policies), tc.found, got)
			}
		})
	}
}
