package delta

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
)

// Shown is a text of others in one line. A word that is a workflow command at the start of a line, where a wrapped one may stand, is made
// none.
func Shown(text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		words[i] = console.AtStart(word)
	}
	return console.Visible(strings.Join(words, " "))
}

// Line is one change, as in a diff: Sign is "+", "-" or "~".
type Line struct{ Sign, Name, Value string }

// Arrow stands between what was and what is.
const Arrow = " → "

// Lines of fields, in their order.
func Lines(fields []Field) []Line {
	all := make([]Line, len(fields))
	for i := range fields {
		f := &fields[i]
		switch {
		case f.From == nil:
			all[i] = Line{"+", f.name(), f.value(f.To)}
		case f.To == nil:
			all[i] = Line{"-", f.name(), f.value(f.From)}
		default:
			all[i] = Line{"~", f.name(), f.value(f.From) + Arrow + f.value(f.To)}
		}
	}
	return all
}

var signColors = map[string]string{"+": console.Green, "-": console.Red, "~": console.Yellow}

// widestName is the width of the column of names that is kept to: longer ones push their values on.
const widestName = 44

// Write writes lines with their signs in the margin and their values below each other.
func Write(p *console.Page, lines []Line) {
	width := 0
	for _, l := range lines {
		if n := utf8.RuneCountInString(l.Name); n <= widestName {
			width = max(width, n)
		}
	}
	for _, l := range lines {
		name := l.Name + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(l.Name)))
		p.Columns(signColors[l.Sign], "  "+l.Sign, [][]string{{name, l.Value}})
	}
}

// Likeness is a text that fields of two objects share if their lines are the same.
func Likeness(fields []Field) string {
	var text strings.Builder
	for _, f := range fields {
		fmt.Fprintf(&text, "%s\x00%s\x00%s\x00", f.Path, f.value(f.From), f.value(f.To))
	}
	return text.String()
}

// maxValue is how much of a value is shown, in characters. JSON has all of it.
const maxValue = 120

// protected is the path of the annotation that names a pod's controller.
const protected = "metadata.annotations[" + v1alpha1.AnnotationProtected + "]"

// value of a field, for people; "none" where the field is not there. A constraint that is given or taken as a whole is told by what
// matters, without the selector, which is another for each workload.
func (f *Field) value(raw json.RawMessage) string {
	if raw == nil {
		return "none"
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if f.Path == protected { // the controller's name is another for each workload, which is named beside it
			text, _, _ = strings.Cut(text, "/")
		}
		if text == "" || text == "none" {
			return strconv.Quote(text)
		}
		return console.Clip(Shown(text), maxValue)
	}
	if o := Object(raw); o != nil && strings.HasPrefix(f.Path, constraints+"[") {
		return console.Clip(Shown(constraint(o)), maxValue)
	}
	return console.Clip(Shown(string(raw)), maxValue)
}

// constraint is such as "maxSkew 1, ScheduleAnyway, minDomains 3".
func constraint(o map[string]any) string {
	parts := []string{fmt.Sprintf("maxSkew %v", o["maxSkew"]), fmt.Sprint(o["whenUnsatisfiable"])}
	for _, name := range []string{"minDomains", "matchLabelKeys", "nodeAffinityPolicy", "nodeTaintsPolicy"} {
		if value, ok := o[name]; ok {
			parts = append(parts, fmt.Sprintf("%s %v", name, value))
		}
	}
	return strings.Join(parts, ", ")
}

// name of a field for people, who know where in a pod it is.
func (f *Field) name() string {
	if rest, ok := strings.CutPrefix(f.Path, enforcement); ok {
		return Shown("enforcement" + rest)
	}
	if rest, ok := strings.CutPrefix(f.Path, constraints+"["); ok {
		return Shown("topologySpread[" + rest)
	}
	return Shown(strings.TrimPrefix(f.Path, "spec."))
}
