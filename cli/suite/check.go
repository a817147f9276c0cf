package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/fieldpath"
)

// Difference is one expectation that was not met.
type Difference struct {
	// Field of the case's "then".
	Field string `json:"field"`
	// Path of a field of the pod.
	Path string `json:"path,omitempty"`
	// Want and Got are lines; of lists only those that differ.
	Want []string `json:"want"`
	Got  []string `json:"got"`
}

// The fields of "then".
const (
	fieldDecision = "decision"
	fieldReason   = "reason"
	fieldMessage  = "message"
	fieldWarnings = "warnings"
	fieldPatch    = "patch"
	fieldFields   = "fields"
	fieldUnknown  = "unknown"
)

// none stands for what is not there.
const none = "(none)"

// noPod is what a field of a pod is where none came of it.
const noPod = "(no pod came of it)"

// check compares what must happen with what happened.
func (t *Then) check(r *review.Result) []Difference {
	var found []Difference
	if t.Decision != nil && *t.Decision != r.Decision {
		found = append(found, Difference{Field: fieldDecision, Want: []string{string(*t.Decision)}, Got: []string{string(r.Decision)}})
	}
	if t.Reason != nil && *t.Reason != r.Reason {
		found = append(found, Difference{Field: fieldReason, Want: lines(*t.Reason), Got: lines(r.Reason)})
	}
	if t.Message != nil && !part(*t.Message, r.Message) {
		found = append(found, Difference{Field: fieldMessage, Want: lines(*t.Message), Got: lines(console.Fold(r.Message))})
	}
	found = append(found, parts(fieldWarnings, t.Warnings, r.Warnings)...)
	found = append(found, parts(fieldUnknown, t.Unknown, r.Unknown)...)
	if t.Patch != nil {
		found = append(found, patchDifference(*t.Patch, r.Patch)...)
	}
	return append(found, t.checkFields(r)...)
}

func lines(text string) []string {
	if text == "" {
		return []string{none}
	}
	return []string{text}
}

// gap in a part stands for whatever is there: a time, a name that is made up.
const gap = "..."

// part reports whether a text is part of another; an empty one stands for none.
func part(want, got string) bool {
	want, got = console.Fold(want), console.Fold(got)
	if want == "" {
		return got == ""
	}
	for piece := range strings.SplitSeq(want, gap) {
		_, after, found := strings.Cut(got, strings.TrimSpace(piece))
		if !found {
			return false
		}
		got = after
	}
	return true
}

// parts compares a list of parts with texts: each has its text, and each text its part.
func parts(field string, want *[]string, got []string) []Difference {
	if want == nil {
		return nil
	}
	d := Difference{Field: field, Want: []string{}, Got: []string{}}
	for _, w := range *want {
		if !slices.ContainsFunc(got, func(g string) bool { return part(w, g) }) {
			d.Want = append(d.Want, w)
		}
	}
	for _, g := range got {
		if !slices.ContainsFunc(*want, func(w string) bool { return part(w, g) }) {
			d.Got = append(d.Got, console.Fold(g))
		}
	}
	if len(d.Want)+len(d.Got) == 0 {
		return nil
	}
	return []Difference{d}
}

func patchDifference(want, got []review.Operation) []Difference {
	d := Difference{Field: fieldPatch, Want: []string{}, Got: []string{}}
	for i := range max(len(want), len(got)) {
		var w, g string
		if i < len(want) {
			w = operation(&want[i])
		}
		if i < len(got) {
			g = operation(&got[i])
		}
		if w == g {
			continue
		}
		if w != "" {
			d.Want = append(d.Want, w)
		}
		if g != "" {
			d.Got = append(d.Got, g)
		}
	}
	if len(d.Want)+len(d.Got) == 0 {
		return nil
	}
	return []Difference{d}
}

// operation of a patch as one line, whatever the order and blanks of its JSON.
func operation(o *review.Operation) string {
	text := o.Op + " " + o.Path
	if o.Value == nil {
		return text
	}
	return text + " " + canonical(valueOf(o.Value))
}

// valueOf is the value of a JSON text, nil where it is none.
func valueOf(raw []byte) (value any) {
	if sigsjson.UnmarshalCaseSensitivePreserveInts(raw, &value) != nil {
		return nil
	}
	return value
}

// podOf is the pod that came of it; nil: none did.
func podOf(r *review.Result) any {
	if r.Decision != review.Allowed || r.After == nil {
		return nil
	}
	return valueOf(r.After)
}

func (t *Then) checkFields(r *review.Result) []Difference {
	var found []Difference
	pod := podOf(r)
	for _, path := range slices.Sorted(maps.Keys(t.Fields)) {
		want := t.Fields[path]
		if pod == nil {
			found = append(found, Difference{Field: fieldFields, Path: path, Want: yamlLines(want), Got: []string{noPod}})
			continue
		}
		got := fieldOf(pod, path, want)
		if canonical(want) == canonical(got) {
			continue
		}
		w, g := differing(yamlLines(want), yamlLines(got))
		found = append(found, Difference{Field: fieldFields, Path: path, Want: w, Got: g})
	}
	return found
}

// fieldOf is a field of the pod; nil: it is absent. A text that holds a JSON object is one where an object is wanted.
func fieldOf(pod any, path string, want any) any {
	at, err := fieldpath.Parse(path)
	if err != nil {
		return nil // it was checked before
	}
	got, _ := walk(pod, at)
	if _, wanted := want.(map[string]any); wanted {
		if text, ok := got.(string); ok && object(text) != nil {
			return object(text)
		}
	}
	return got
}

func yamlLines(value any) []string {
	if value == nil {
		return []string{"(absent)"}
	}
	switch value.(type) {
	case map[string]any, []any:
	default:
		return []string{canonical(value)}
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		return []string{fmt.Sprint(value)}
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// differing leaves out what two texts begin and end with alike.
func differing(a, b []string) ([]string, []string) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}
