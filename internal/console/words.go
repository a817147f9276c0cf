package console

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Wrap breaks a text between words so that the first line has room for first characters and the others for rest; without room it is one
// line. What is longer than a line, as a path, is not broken: it is there to be copied. But a terminal goes on with it in the margin, where
// invisible letters could make it look like a label: so a long word with other letters than those of paths is broken.
func Wrap(text string, first, rest int) []string {
	if first <= 0 || rest <= 0 {
		return []string{text}
	}
	var lines []string
	line, room := "", first
	end := func() {
		lines = append(lines, line)
		line, room = "", rest
	}
	for word := range strings.FieldsSeq(text) {
		length := utf8.RuneCountInString(word)
		broken := length > rest && length < len(word)
		if line != "" && (broken || utf8.RuneCountInString(line)+1+length > room) {
			end()
		}
		if line != "" {
			line += " "
		}
		for runes := []rune(word); broken && len(runes) > room; end() {
			line = string(runes[:room])
			word = string(runes[room:])
			if rest > 1 { // with less no line has what a runner looks for
				word = AtStart(word) // what begins a line here stood within one
			}
			runes = []rune(word)
		}
		line += word
	}
	return append(lines, line)
}

// between is the gap between two columns.
const between = "  "

// columns are the widths of the columns. One that is open to the right, a row's last, needs none.
func columns(rows [][]string, open bool) map[int]int {
	widths := map[int]int{}
	for _, row := range rows {
		if open {
			row = row[:max(len(row)-1, 0)]
		}
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// head is a row without its last cell.
func head(row []string, widths map[int]int) string {
	var text strings.Builder
	for i, cell := range row[:max(len(row)-1, 0)] {
		fmt.Fprintf(&text, "%-*s%s", widths[i], cell, between)
	}
	return text.String()
}

// Shorten is the beginning of a text that is longer than its room, in characters.
func Shorten(text string, room int) string {
	letters := []rune(text)
	if len(letters) <= room {
		return text
	}
	const more = "..."
	return string(letters[:max(room-len(more), 0)]) + more[:min(room, len(more))]
}

// Clip shortens a text to so many characters, and says by how many.
func Clip(text string, most int) string {
	letters := []rune(text)
	if len(letters) <= most {
		return text
	}
	return fmt.Sprintf("%s... (%d more characters)", string(letters[:most]), len(letters)-most)
}

// maxNote is the longest note of an Event that the API server takes, in bytes: it refuses one that is longer (k8s.io/kubernetes/pkg/apis/core/validation/events.go
// NoteLengthLimit, 1.36.3).
const maxNote = 1024

// Note shortens a text to what fits an Event.
func Note(text string) string {
	if len(text) <= maxNote {
		return text
	}
	return strings.ToValidUTF8(text[:maxNote-3], "") + "..."
}

// Plural is a number and what it counts.
func Plural(n int, one, many string) string { return fmt.Sprintf("%d %s", n, Noun(n, one, many)) }

// Noun is what a number counts.
func Noun(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Some are the first of several names, and how many there are besides.
func Some(names []string, most int, separator string) string {
	text := strings.Join(names[:min(most, len(names))], separator)
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Fold runs blanks and line breaks together.
func Fold(text string) string { return strings.Join(strings.Fields(text), " ") }

// printable are rows as a terminal may have them.
func printable(rows [][]string) [][]string {
	all := make([][]string, len(rows))
	for i, row := range rows {
		all[i] = slices.Clone(row)
		for j := range all[i] {
			all[i][j] = Printable(row[j])
		}
	}
	return all
}
