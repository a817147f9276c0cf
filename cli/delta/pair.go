package delta

import (
	"bytes"
	"encoding/json"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/fieldpath"
)

// Value of a JSON text, with numbers as they stand there; nil for what is none.
func Value(raw []byte) any {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return nil
	}
	return value
}

// Object is a JSON object; nil for what is none.
func Object(raw []byte) map[string]any {
	o, _ := Value(raw).(map[string]any)
	return o
}

// Pair is what stands at one place of two objects. Was and Is say whether something does.
type Pair struct {
	From, To any
	Was, Is  bool
}

// Same reports whether the objects are alike there.
func (p Pair) Same() bool { return p.Was == p.Is && reflect.DeepEqual(p.From, p.To) }

// Objects are both sides, where both are objects.
func (p Pair) Objects() (from, to map[string]any, both bool) {
	from, was := p.From.(map[string]any)
	to, ok := p.To.(map[string]any)
	return from, to, was && ok
}

// Lists are both sides, where both are lists.
func (p Pair) Lists() (from, to []any, both bool) {
	from, was := p.From.([]any)
	to, ok := p.To.([]any)
	return from, to, was && ok
}

// Members are those in which two objects differ, by their keys.
func Members(from, to map[string]any) iter.Seq2[string, Pair] {
	type member struct {
		key string
		Pair
	}
	var differ []member
	for key, old := range from {
		now, ok := to[key]
		if p := (Pair{old, now, true, ok}); !p.Same() {
			differ = append(differ, member{key, p})
		}
	}
	for key, now := range to {
		if _, was := from[key]; !was {
			differ = append(differ, member{key, Pair{To: now, Is: true}})
		}
	}
	slices.SortFunc(differ, func(a, b member) int { return strings.Compare(a.key, b.key) })
	return func(yield func(string, Pair) bool) {
		for _, m := range differ {
			if !yield(m.key, m.Pair) {
				return
			}
		}
	}
}

// OfPatch is what a patch alone says of an object before and after it.
func OfPatch(patch []review.Operation) (before, after map[string]any) {
	before, after = map[string]any{}, map[string]any{}
	for _, o := range patch {
		path := fieldpath.OfPointer(o.Path)
		if len(path) == 0 {
			continue // of the whole object
		}
		within, key := path[:len(path)-1], path[len(path)-1]
		old, now := descend(before, within), descend(after, within)
		if o.Op == "remove" {
			old[key] = nil
		} else {
			now[key] = Value(o.Value)
		}
	}
	return before, after
}

// descend makes the objects that lead to a path.
func descend(into map[string]any, path fieldpath.Path) map[string]any {
	for _, key := range path {
		next, ok := into[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			into[key] = next
		}
		into = next
	}
	return into
}
