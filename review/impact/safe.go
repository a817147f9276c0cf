package impact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// shown is a text of others in one line that steers no terminal and commands no CI system: what does not print, or turns the direction of
// what does, is written as Go would in quotes. A word that is a workflow command at the start of a line, where a wrapped one may stand, is
// made none.
func shown(text string) string {
	words := strings.Fields(strings.ToValidUTF8(text, "\uFFFD"))
	for i, word := range words {
		if strings.HasPrefix(word, "::") {
			words[i] = `\` + word
		}
	}
	text = strings.Join(words, " ")
	var out strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		out.WriteString(quoted[1 : len(quoted)-1])
	}
	return marker.ReplaceAllString(out.String(), `#\$1`)
}

// marker is that of the commands that Azure Pipelines, TeamCity and older workflow runners look for within a line.
var marker = regexp.MustCompile(`#(#\w*\[)`)

// clip shortens a text to so many characters, and says by how many.
func clip(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return fmt.Sprintf("%s... (%d more characters)", string(runes[:most]), len(runes)-most)
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
		return clip(shown(text), maxValue)
	}
	if o := object(raw); o != nil && strings.HasPrefix(f.Path, constraints+"[") {
		return clip(shown(constraint(o)), maxValue)
	}
	return clip(shown(string(raw)), maxValue)
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

// writeJSON prints the Diff by its own tags, as JSON of which a terminal may see every byte.
func writeJSON(w io.Writer, d *Diff, _ Options) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(d); err != nil {
		return err
	}
	_, err := w.Write(escapeJSON(text.Bytes()))
	return err
}

// escapeJSON works on the text: outside of strings, JSON is printable ASCII without #.
func escapeJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == '\n' || unicode.IsPrint(r) && !bytes.HasPrefix(text, []byte("##")) {
			out = append(out, text[:size]...)
		} else {
			for _, unit := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		}
		text = text[size:]
	}
	return out
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
