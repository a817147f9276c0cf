package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/cli/delta"
)

// What is written as YAML is read as what it was, and looks as the library would write it.
func TestYAML(t *testing.T) {
	for object, want := range map[string]string{
		`{"b":{"c":[{"d":1,"e":[]},2,[3,4]],"f":{}},"a":null}`:                             "a: null\nb:\n  c:\n  - d: 1\n    e: []\n  - 2\n  - - 3\n    - 4\n  f: {}\n",
		`{"image":"nginx:1.25","path":"/a/b","on":"Yes","x":"n","n":12345678901234567890}`: "image: nginx:1.25\n\"n\": 12345678901234567890\n\"on\": \"Yes\"\npath: /a/b\nx: \"n\"\n",
		`{"s":"a 'b'","t":"{\"x\":1}","u":"a\nb"}`:                                         "s: \"a 'b'\"\nt: '{\"x\":1}'\nu: \"a\\nb\"\n",
	} {
		if got := strings.Join(yamlLines(delta.Value([]byte(object))), "\n") + "\n"; got != want {
			t.Errorf("got:\n%swant:\n%s", got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		want := someValue(3).Draw(t, "value")
		text := strings.Join(yamlLines(delta.Value(encoded(t, want))), "\n")
		var got any
		if err := yaml.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s\n%s", diff, text)
		}
	})
}

func someValue(depth int) *rapid.Generator[any] {
	text := rapid.OneOf(hostileKey(), rapid.StringMatching(`[a-zA-Z0-9:./_'" #-]{0,6}`), rapid.String())
	kinds := []*rapid.Generator[any]{
		rapid.Map(text, func(s string) any { return s }),
		rapid.Map(rapid.IntRange(-5, 1_000_000), func(n int) any { return float64(n) }),
		rapid.SampledFrom([]any{true, false, nil, map[string]any{}, []any{}}),
	}
	if depth > 0 {
		within := rapid.Deferred(func() *rapid.Generator[any] { return someValue(depth - 1) })
		kinds = append(kinds, rapid.Map(rapid.MapOfN(text, within, 1, 3), func(m map[string]any) any { return m }),
			rapid.Map(rapid.SliceOfN(within, 1, 3), func(l []any) any { return l }))
	}
	return rapid.OneOf(kinds...)
}
