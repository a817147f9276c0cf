package report

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/cli/review"
)

func TestChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after string
		patch         []review.Operation
		why           map[string]string // by path
		want          []string
	}{
		"no patch": {before: `{"a":1}`, after: `{"a":2}`},
		"replaced, with its keys and reason": {
			before: `{"spec":{"x":{"grace":30,"same":1}}}`, after: `{"spec":{"x":{"grace":45,"same":1}}}`,
			patch: []review.Operation{{Op: "add", Path: "/spec/x/grace", Value: json.RawMessage(`45`)}},
			why:   map[string]string{"/spec/x/grace": "PodPolicy web: default 45 s (30 counts as unset)"},
			want: []string{
				"  spec:", "    x:", "      # PodPolicy web: default 45 s (30 counts as unset)",
				"-     grace: 30", "+     grace: 45",
			},
		},
		"a removed field and its reason": {
			before: `{"spec":{"preemptionPolicy":"Never","priority":1}}`, after: `{"spec":{"priority":1}}`,
			patch: []review.Operation{{Op: "remove", Path: "/spec/preemptionPolicy"}},
			why:   map[string]string{"/spec/preemptionPolicy": "PodPolicy web: high says nothing"},
			want:  []string{"  spec:", "    # PodPolicy web: high says nothing", "-   preemptionPolicy: Never"},
		},
		"an annotation among others, one reason for two keys": {
			before: `{"metadata":{"annotations":{"x":"1","y":"1"}}}`, after: `{"metadata":{"annotations":{"x":"2","z":"1","y":"1"}}}`,
			patch: []review.Operation{{Op: "add", Path: "/metadata/annotations", Value: json.RawMessage(`{}`)}},
			why:   map[string]string{"/metadata/annotations": "PodPolicy web"},
			want:  []string{"  metadata:", "    annotations:", "      # PodPolicy web", `-     x: "1"`, `+     x: "2"`, `+     z: "1"`},
		},
		"a container, by its name": {
			before: `{"spec":{"containers":[{"name":"a","image":"x"},{"name":"b","image":"x"}]}}`, after: `{"spec":{"containers":[{"name":"a","image":"x"},{"name":"b","image":"new"}]}}`,
			patch: []review.Operation{{Op: "replace", Path: "/spec/containers/1/image", Value: json.RawMessage(`"new"`)}},
			why:   map[string]string{"/spec/containers/1/image": "because"},
			want:  []string{"  spec:", "    containers:", "    - name: b", "      # because", "-     image: x", "+     image: new"},
		},
		"a longer list": {
			before: `{"l":[1,2,3]}`, after: `{"l":[1,4,5,3]}`, patch: []review.Operation{{Op: "add", Path: "/l"}},
			want: []string{"  l:", "- - 2", "+ - 4", "+ - 5"},
		},
		"an eviction: there is only a patch": {
			patch: []review.Operation{{Op: "add", Path: "/deleteOptions", Value: json.RawMessage(`{"gracePeriodSeconds":30}`)}},
			want:  []string{"+ deleteOptions:", "+   gracePeriodSeconds: 30"},
		},
		"only a patch, with the keys that lead to it": {
			patch: []review.Operation{{Op: "add", Path: "/spec/a/b", Value: json.RawMessage(`1`)}, {Op: "remove", Path: "/spec/c"}},
			why:   map[string]string{"/spec/a/b": "because"},
			want:  []string{"  spec:", "    a:", "      # because", "+     b: 1", "-   c: null"},
		},
		"large numbers as they are": {
			before: `{"big":9007199254740993}`, after: `{"big":9007199254740995}`, patch: []review.Operation{{Op: "add", Path: "/big"}},
			want: []string{"- big: 9007199254740993", "+ big: 9007199254740995"},
		},
		"characters that YAML refuses": {
			before: `{}`, after: "{\"a\":\"\u009b\U000e0041\"}", patch: []review.Operation{{Op: "add", Path: "/a"}},
			want: []string{`+ a: "\u009b\U000e0041"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &review.Result{Patch: tc.patch, Before: json.RawMessage(tc.before), After: json.RawMessage(tc.after)}
			for path, why := range tc.why {
				r.Changes = append(r.Changes, review.Change{Path: path, Why: why})
			}
			var got []string
			for _, e := range changes(r) {
				got = append(got, e.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func someObject(depth int) *rapid.Generator[map[string]any] {
	values := []*rapid.Generator[any]{rapid.Map(rapid.IntRange(1, 3), func(n int) any { return float64(n) }), rapid.Map(hostileKey(), func(s string) any { return s })}
	if depth > 0 {
		values = append(values, rapid.Map(rapid.Deferred(func() *rapid.Generator[map[string]any] { return someObject(depth - 1) }), func(m map[string]any) any { return m }))
	}
	return rapid.MapOfN(hostileKey(), rapid.OneOf(values...), 1, 4)
}

func hostileKey() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"a", "b", "c", "x: y", "- z", "null", "1", "#", "\u009b", "é\n", strings.Repeat("k", 130), "::error::"})
}

// What changes says is true and whole: with the lines of '-' taken out of the object before, and those of '+' put in, it is the
// object after.
func TestChangesAreWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := someObject(2).Draw(t, "before"), someObject(2).Draw(t, "after")
		r := &review.Result{Before: encoded(t, before), After: encoded(t, after), Patch: []review.Operation{{Op: "add", Path: "/a"}}}
		edits := changes(r)
		got := take(maps.Clone(before), side(t, edits, '-'))
		got = put(got, side(t, edits, '+'))
		if diff := cmp.Diff(after, got); diff != "" {
			t.Fatalf("%s\n%v", diff, edits)
		}
	})
}

func encoded(t *rapid.T, object any) json.RawMessage {
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// side is the YAML of the lines of one sign, with the keys that they stand under.
func side(t *rapid.T, edits []edit, sign byte) map[string]any {
	var text strings.Builder
	for _, e := range edits {
		if e.sign == sign || e.sign == ' ' {
			text.WriteString(e.text + "\n")
		}
	}
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(text.String()), &object); err != nil {
		t.Fatalf("%v:\n%s", err, text.String())
	}
	return object
}

func take(from, what map[string]any) map[string]any {
	for key, value := range what {
		inner, isMap := value.(map[string]any)
		if old, ok := from[key].(map[string]any); ok && isMap && !cmp.Equal(inner, old) {
			from[key] = take(maps.Clone(old), inner)
		} else if value != nil {
			delete(from, key)
		}
	}
	return from
}

func put(into, what map[string]any) map[string]any {
	for key, value := range what {
		inner, isMap := value.(map[string]any)
		if old, ok := into[key].(map[string]any); ok && isMap {
			into[key] = put(maps.Clone(old), inner)
		} else if value != nil {
			into[key] = value
		}
	}
	return into
}
