package impact

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/review/safe"
)

// shown is a text of others in one line. A word that is a workflow command at the start of a line, where a wrapped one may stand, is made
// none.
func shown(text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		words[i] = safe.AtStart(word)
	}
	return safe.Visible(strings.Join(words, " "))
}

// maxValue is how much of a value is shown, maxMessage of a message, in characters. JSON has all of it.
const (
	maxValue   = 120
	maxMessage = 400
)

// value of a field, for people; "none" where the field is not there. A constraint that is given or taken as a whole is told by what
// matters, without the selector, which is another for each workload.
func (f *Field) value(raw json.RawMessage) string {
	if raw == nil {
		return "none"
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if text == "" || text == "none" {
			return strconv.Quote(text)
		}
		return safe.Clip(shown(text), maxValue)
	}
	if o := object(raw); o != nil && strings.HasPrefix(f.Path, constraints+"[") {
		return safe.Clip(shown(constraint(o)), maxValue)
	}
	return safe.Clip(shown(string(raw)), maxValue)
}

// constraint is such as "maxSkew 1, ScheduleAnyway, minDomains 3".
func constraint(o map[string]any) string {
	parts := []string{fmt.Sprintf("maxSkew %v", o["maxSkew"]), fmt.Sprint(o["whenUnsatisfiable"])}
	for _, name := range []string{"minDomains", "matchLabelKeys", "nodeAffinityPolicy", "nodeTaintsPolicy"} {
		if value, is := o[name]; is {
			parts = append(parts, fmt.Sprintf("%s %v", name, value))
		}
	}
	return strings.Join(parts, ", ")
}

// name of a field for people, who know where in a pod it is.
func (f *Field) name() string {
	if rest, is := strings.CutPrefix(f.Path, enforcement); is {
		return shown("enforcement" + rest)
	}
	if rest, is := strings.CutPrefix(f.Path, constraints+"["); is {
		return shown("topologySpread[" + rest)
	}
	return shown(strings.TrimPrefix(f.Path, "spec."))
}

// writeJSON prints the Diff by its own tags.
func writeJSON(w io.Writer, d *Diff, _ Options) error { return safe.EncodeJSON(w, d) }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
