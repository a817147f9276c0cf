package report

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/cli/delta"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/fieldpath"
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
	d := differ{result: r, said: map[string]bool{}}
	before, after := delta.Object(r.Before), delta.Object(r.After)
	if before == nil || after == nil {
		before, after = delta.OfPatch(r.Patch)
		d.partial = true
	}
	d.maps(nil, "", before, after)
	return d.out
}

type differ struct {
	result *review.Result
	said   map[string]bool // paths of operations whose reason was given
	// partial objects lack what does not change, so that an empty one may have had keys.
	partial bool
	out     []edit
}

// maps compares two objects.
func (d *differ) maps(path fieldpath.Path, indent string, before, after map[string]any) {
	for key, p := range delta.Members(before, after) {
		at := append(slices.Clone(path), key)
		if d.inside(at, indent, p) {
			continue
		}
		d.why(at, indent)
		if p.Was {
			d.write('-', indent, map[string]any{key: p.From})
		}
		if p.Is {
			d.write('+', indent, map[string]any{key: p.To})
		}
	}
}

// inside compares what stands under a key; false: the key is to be written whole.
func (d *differ) inside(at fieldpath.Path, indent string, p delta.Pair) bool {
	key := indent + yamlString(at[len(at)-1]) + ":"
	if old, now, both := p.Objects(); both && (d.partial || len(old) > 0 && len(now) > 0) {
		d.line(' ', key)
		d.maps(at, indent+"  ", old, now)
		return true
	}
	if old, now, both := p.Lists(); both && len(old) > 0 && len(now) > 0 {
		d.line(' ', key)
		d.lists(at, indent, old, now)
		return true
	}
	return false
}

// lists of one length are compared element by element, others but for what they begin and end with alike.
func (d *differ) lists(path fieldpath.Path, indent string, before, after []any) {
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
func (d *differ) element(at fieldpath.Path, indent string, before, after any) {
	if reflect.DeepEqual(before, after) {
		return
	}
	old, now, both := delta.Pair{From: before, To: after}.Objects()
	if name, named := old["name"].(string); both && named && reflect.DeepEqual(name, now["name"]) {
		d.write(' ', indent, []any{map[string]any{"name": name}})
		d.maps(at, indent+"  ", old, now)
		return
	}
	d.why(at, indent)
	d.write('-', indent, []any{before})
	d.write('+', indent, []any{after})
}

// why writes, once, the reason of each operation at, above or below the path.
func (d *differ) why(at fieldpath.Path, indent string) {
	for _, o := range d.result.Patch {
		path := fieldpath.OfPointer(o.Path)
		n := min(len(path), len(at))
		if d.said[o.Path] || !slices.Equal(path[:n], at[:n]) {
			continue
		}
		d.said[o.Path] = true
		if why := d.result.WhyAt(o.Path); why != "" {
			d.out = append(d.out, edit{'#', indent + console.Clip(console.OneLine(why), maxLine)})
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
