package manifest

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLocate(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"two.yaml":   "# both\nkind: A\n---\n# the other\nkind: B\nspec:\n  list:\n  - a: 1\n  - a: 2\n    b: {c.d/e: 3,\n      f: 4}\n",
		"list.yaml":  "kind: List\nitems:\n- kind: A\n  spec: {x: 1}\n- kind: B\n  spec:\n    x: 1\n",
		"a.json":     "{\n  \"kind\": \"A\",\n  \"spec\": {\n    \"x\": 1}}\n",
		"alias.yaml": "kind: A\ncommon: &c\n  x: 1\nspec: *c\n",
		"-":          "kind: A\nspec:\n  x: 1\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		file  string
		line  int
		field string
		want  int
	}{
		{"two.yaml", 5, "spec.list[1].a", 9},
		{"two.yaml", 5, "spec.list[1].b[c.d/e]", 10},
		{"two.yaml", 5, "spec.list[1].b.f", 11},
		{"two.yaml", 5, "spec.list[1].b.gone", 10},
		{"two.yaml", 5, "spec.list[7]", 7},
		{"two.yaml", 2, "spec.list", 2},
		{"two.yaml", 5, "", 5},
		{"list.yaml", 5, "spec.x", 7},
		{"list.yaml", 3, "spec.x", 4},
		{"a.json", 1, "spec.x", 4},
		{"alias.yaml", 1, "spec.x", 3},
		{"-", 1, "spec.x", 1},
		{"gone.yaml", 3, "spec.x", 3},
		{"two.yaml", 0, "spec.list", 0},
	} {
		errs := Locate([]*Error{{File: tc.file, Line: tc.line, Message: "m", Field: tc.field}, {File: tc.file, Line: tc.line, Message: "m", Field: tc.field}})
		if want := []*Error{{File: tc.file, Line: tc.want, Message: "m"}}; !cmp.Equal(errs, want) {
			t.Errorf("%s:%d %s: %v", tc.file, tc.line, tc.field, errs)
		}
	}
}

// One field that another decoder takes for wrong is found by leaving out the others.
func TestPlainly(t *testing.T) {
	refuses := func(word string) func([]byte) error {
		return func(raw []byte) error {
			if strings.Contains(string(raw), word) {
				return errors.New("no " + word)
			}
			return nil
		}
	}
	for raw, want := range map[string]string{
		`{"a": {"b": [1, {"c.d/e": "bad"}]}}`: "a.b[1][c.d/e]: no bad",
		`{"a": 1, "bad": 2}`:                  "bad: no bad",
		`["bad"]`:                             "[0]: no bad",
		`"bad"`:                               "no bad",
		`{"half`:                              "no half",
	} {
		word := want[strings.LastIndex(want, " ")+1:]
		if err := Plainly([]byte(raw), refuses(word), errors.New("no "+word)); err.Error() != want {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// A variable in place of a value is named, and is not another type's mistake.
func TestPlainlyOfAVariable(t *testing.T) {
	for value, is := range map[string]bool{
		"${CAPACITY}": true, "${CAPACITY:=5Gi}": true, "${a_1:-5Gi}": true, "x-${A}-y": true, "${A/b/c}": true, "$CAPACITY": false, "${}": false, "${1}": false, "${{ matrix.a }}": false, "5 Gi": false,
	} {
		raw, err := json.Marshal(map[string]any{"spec": map[string]any{"sizes": []string{value}}})
		if err != nil {
			t.Fatal(err)
		}
		refuse := func(raw []byte) error {
			var into struct{ Spec struct{ Sizes []int } }
			return json.Unmarshal(raw, &into)
		}
		wrong, ok := errors.AsType[*FieldError](Plainly(raw, refuse, refuse(raw)))
		want := "spec.sizes[0] is " + value + " (a variable that Flux fills in?)"
		if !ok || wrong.Field != "spec.sizes[0]" || (wrong.Variable == value) != is || (wrong.Message == want) != is {
			t.Errorf("%s: %+v", value, wrong)
		}
		if e := (&Document{File: "f", Line: 3}).Wrong(wrong); e.Variable != wrong.Variable {
			t.Errorf("%s: %+v", value, e)
		}
	}
}
