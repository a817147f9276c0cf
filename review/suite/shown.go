package suite

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

// shown is a text of others that steers no terminal and commands no CI system: what does not print, or turns the direction of what
// does, is written as Go would in quotes.
func shown(text string) string {
	var out strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		if unicode.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		out.WriteString(quoted[1 : len(quoted)-1])
	}
	text = marker.ReplaceAllString(out.String(), `#\$1`)
	if strings.HasPrefix(strings.TrimLeft(text, " "), "::") {
		text = strings.Replace(text, "::", `\::`, 1) // a workflow command at the start of a line
	}
	return text
}

// marker is that of the commands that Azure Pipelines, TeamCity and older workflow runners look for within a line.
var marker = regexp.MustCompile(`#(#\w*\[)`)

// maxLine of a value, in characters. JSON has all of it.
const maxLine = 400

func clip(text string) string {
	runes := []rune(text)
	if len(runes) <= maxLine {
		return text
	}
	return fmt.Sprintf("%s... (%d more characters)", string(runes[:maxLine]), len(runes)-maxLine)
}

// writeJSON writes indented JSON of which a terminal and a CI system may see every byte.
func writeJSON(w io.Writer, r *Report) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return err
	}
	var out []byte
	for rest := text.Bytes(); len(rest) > 0; {
		c, size := utf8.DecodeRune(rest)
		// Outside of strings, JSON is printable ASCII without #.
		if c != '\n' && !unicode.IsPrint(c) || bytes.HasPrefix(rest, []byte("##")) {
			for _, unit := range utf16.AppendRune(nil, c) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		} else {
			out = append(out, rest[:size]...)
		}
		rest = rest[size:]
	}
	_, err := w.Write(out)
	return err
}
