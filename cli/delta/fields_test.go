package delta

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestFields(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to string
		want     []Field
	}{
		"equal":        {`{"a":1}`, `{"a":1}`, nil},
		"number":       {`{"spec":{"a":1}}`, `{"spec":{"a":9007199254740993}}`, []Field{{"spec.a", raw("1"), raw("9007199254740993")}}},
		"null is some": {`{"a":null}`, `{}`, []Field{{Path: "a", From: raw("null")}}},
		"whole object": {`{}`, `{"a":{"b":1}}`, []Field{{Path: "a", To: raw(`{"b":1}`)}}},
		"whole list":   {`{"a":[1,2]}`, `{"a":[1]}`, []Field{{"a", raw(`[1,2]`), raw(`[1]`)}}},
		"by name":      {`{"c":[{"name":"x","i":1},{"name":"y"}]}`, `{"c":[{"name":"y"},{"name":"x","i":2}]}`, []Field{{"c[x].i", raw("1"), raw("2")}}},
		"odd key":      {`{"m":{"a.b/c":1}}`, `{"m":{}}`, []Field{{Path: "m[a.b/c]", From: raw("1")}}},
		"two constraints of one key": {
			`{"t":[{"topologyKey":"z","whenUnsatisfiable":"A","maxSkew":1},{"topologyKey":"z","whenUnsatisfiable":"B","maxSkew":1}]}`,
			`{"t":[{"topologyKey":"z","whenUnsatisfiable":"A","maxSkew":1},{"topologyKey":"z","whenUnsatisfiable":"B","maxSkew":2}]}`,
			[]Field{{"t[z,B].maxSkew", raw("1"), raw("2")}}},
		"the annotation, first one": {`{"metadata":{}}`, `{"metadata":{"annotations":{"podgrace.dev/enforcement":"{\"oom\":{\"rank\":1}}"}}}`,
			[]Field{{Path: "metadata.annotations[podgrace.dev/enforcement].oom.rank", To: raw("1")}}},
		"the annotation, broken": {`{"metadata":{"annotations":{"podgrace.dev/enforcement":"{"}}}`, `{"metadata":{"annotations":{"podgrace.dev/enforcement":"{\"oom\":{\"rank\":1}}"}}}`,
			[]Field{{"metadata.annotations[podgrace.dev/enforcement]", raw(`"{"`), raw(`{"oom":{"rank":1}}`)}}},
	} {
		if diff := cmp.Diff(tc.want, Fields(raw(tc.from), raw(tc.to))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func raw(text string) json.RawMessage { return json.RawMessage(text) }

// objects are any, of few keys, so that two of them share some.
func objects() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any { return value(t, 4) })
}

func value(t *rapid.T, depth int) any {
	keys := rapid.SampledFrom([]string{"metadata", "annotations", "podgrace.dev/enforcement", "spec", "topologySpreadConstraints", "topologyKey", "whenUnsatisfiable", "name"})
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case kind == 0 || depth == 0:
		return rapid.SampledFrom([]any{nil, true, "a", "", "{}", `{"oom":{"rank":1}}`, json.Number("1")}).Draw(t, "value")
	case kind == 1:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			list = append(list, value(t, depth-1))
		}
		return list
	}
	o := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		o[keys.Draw(t, "key")] = value(t, depth-1)
	}
	return o
}

func TestFieldsAreThoseThatDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, _ := json.Marshal(map[string]any{"o": objects().Draw(t, "a"), "metadata": objects().Draw(t, "a metadata")})
		b, _ := json.Marshal(map[string]any{"o": objects().Draw(t, "b"), "metadata": objects().Draw(t, "b metadata")})
		if same := Fields(a, a); len(same) != 0 {
			t.Fatalf("%s differs from itself in %+v", a, same)
		}
		there, back := Fields(a, b), Fields(b, a)
		var mirrored []Field
		for _, f := range back {
			mirrored = append(mirrored, Field{f.Path, f.To, f.From})
		}
		if diff := cmp.Diff(there, mirrored); diff != "" {
			t.Fatalf("%s and %s: -there +back:\n%s", a, b, diff)
		}
		for _, f := range there {
			if f.From == nil && f.To == nil || string(f.From) == string(f.To) {
				t.Fatalf("%s and %s: %+v", a, b, f)
			}
		}
	})
}
