package report

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/console"
	"github.com/podgrace/podgrace/review"
)

// edit is one line of what changes in a pod: sign is '-', '+', ' ' for a key that others stand under, or '#' for why the lines
// that follow are as they are. Text is YAML with its indentation, and harmless.
type edit struct {
	sign byte
	text string
}

// String is the line as in a unified diff of YAML, with reasons as comments.
func (e edit) String() string {
	if e.sign == '#' {
		indent := len(e.text) - len(strings.TrimLeft(e.text, " "))
		return " " + e.text[:indent] + " # " + e.text[indent:]
	}
	return string(e.sign) + " " + e.text
}

// maxLine of a diff, in characters: what is longer is clipped.
const maxLine = 300

// changes compares the pod before and after the patch. There are only fields that differ, each under all the keys that lead to
// it, and with its reason: a line diff would show neighbours that have nothing to do with it, and hide the keys.
func changes(r *review.Result) []edit {
	if len(r.Patch) == 0 {
		return nil
	}
	d := differ{result: r, told: map[string]bool{}}
	before, after := tree(r.Before), tree(r.After)
	if before == nil || after == nil {
		before, after = outline(r.Patch)
		d.partial = true
	}
	d.maps(nil, "", before, after)
	return d.out
}

// tree of a JSON object; nil for what is none.
func tree(raw json.RawMessage) map[string]any {
	object, _ := decoded(raw).(map[string]any)
	return object
}

// decoded is the value of a JSON text, with numbers as they stand there.
func decoded(raw json.RawMessage) any {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return nil
	}
	return value
}

// outline is what a patch alone says of an object before and after it.
func outline(patch []review.Operation) (before, after map[string]any) {
	before, after = map[string]any{}, map[string]any{}
	for _, o := range patch {
		path := segments(o.Path)
		key := path[len(path)-1]
		old, now := descend(before, path[:len(path)-1]), descend(after, path[:len(path)-1])
		if o.Op == "remove" {
			old[key] = nil
		} else {
			now[key] = decoded(o.Value)
		}
	}
	return before, after
}

// descend makes the objects that lead to a path.
func descend(into map[string]any, path []string) map[string]any {
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

type differ struct {
	result *review.Result
	told   map[string]bool // paths of operations whose reason was given
	// partial objects lack what does not change, so that an empty one may have had keys.
	partial bool
	out     []edit
}

// maps compares two objects.
func (d *differ) maps(path []string, indent string, before, after map[string]any) {
	for _, key := range keys(before, after) {
		old, was := before[key]
		now, is := after[key]
		if was == is && reflect.DeepEqual(old, now) {
			continue
		}
		at := append(slices.Clone(path), key)
		if was && is && d.inside(at, indent, old, now) {
			continue
		}
		d.why(at, indent)
		if was {
			d.write('-', indent, map[string]any{key: old})
		}
		if is {
			d.write('+', indent, map[string]any{key: now})
		}
	}
}

// inside compares what stands under a key; false: the key is to be written whole.
func (d *differ) inside(at []string, indent string, before, after any) bool {
	key := indent + yamlString(at[len(at)-1]) + ":"
	switch old := before.(type) {
	case map[string]any:
		if now, ok := after.(map[string]any); ok && (d.partial || len(old) > 0 && len(now) > 0) {
			d.line(' ', key)
			d.maps(at, indent+"  ", old, now)
			return true
		}
	case []any:
		if now, ok := after.([]any); ok && len(old) > 0 && len(now) > 0 {
			d.line(' ', key)
			d.lists(at, indent, old, now)
			return true
		}
	}
	return false
}

// lists of one length are compared element by element, others but for what they begin and end with alike.
func (d *differ) lists(path []string, indent string, before, after []any) {
	if len(before) == len(after) {
		for i := range before {
			d.element(append(slices.Clone(path), strconv.Itoa(i)), indent, before[i], after[i])
		}
		return
	}
	for len(before) > 0 && len(after) > 0 && reflect.DeepEqual(before[0], after[0]) {
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && reflect.DeepEqual(before[len(before)-1], after[len(after)-1]) {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	d.why(path, indent)
	for _, old := range before {
		d.write('-', indent, []any{old})
	}
	for _, now := range after {
		d.write('+', indent, []any{now})
	}
}

// element of a list; one that has a name is told by it.
func (d *differ) element(at []string, indent string, before, after any) {
	if reflect.DeepEqual(before, after) {
		return
	}
	old, was := before.(map[string]any)
	now, is := after.(map[string]any)
	if name, named := old["name"].(string); was && is && named && reflect.DeepEqual(name, now["name"]) {
		d.write(' ', indent, []any{map[string]any{"name": name}})
		d.maps(at, indent+"  ", old, now)
		return
	}
	d.why(at, indent)
	d.write('-', indent, []any{before})
	d.write('+', indent, []any{after})
}

// why writes, once, the reason of each operation at, above or below the path.
func (d *differ) why(at []string, indent string) {
	for _, o := range d.result.Patch {
		path := segments(o.Path)
		n := min(len(path), len(at))
		if d.told[o.Path] || !slices.Equal(path[:n], at[:n]) {
			continue
		}
		d.told[o.Path] = true
		if text := reason(d.result, o); text != "" {
			d.out = append(d.out, edit{'#', indent + console.Clip(text, maxLine)})
		}
	}
}

func (d *differ) write(sign byte, indent string, value any) {
	for _, line := range yamlLines(value) {
		d.line(sign, indent+line)
	}
}

func (d *differ) line(sign byte, text string) {
	d.out = append(d.out, edit{sign, console.Clip(console.Visible(text), maxLine)})
}

// keys of both, sorted.
func keys(a, b map[string]any) []string {
	all := make([]string, 0, len(a)+len(b))
	for key := range a {
		all = append(all, key)
	}
	for key := range b {
		all = append(all, key)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
