package report

import (
	"strings"
	"unicode/utf8"
)

// The colours of text: each is one of a terminal's own sixteen, which the person has chosen to be readable.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	purple = "\x1b[35m"
	cyan   = "\x1b[36m"
	bold   = "\x1b[1m"
	faint  = "\x1b[2m"
	reset  = "\x1b[0m"
)

// paint puts the colours around a text, if colours are wanted.
func (o Options) paint(text string, colors ...string) string {
	if !o.Color || text == "" || len(colors) == 0 || colors[0] == "" {
		return text
	}
	return strings.Join(colors, "") + text + reset
}

const (
	// widest is where prose is wrapped on a wider terminal: longer lines are hard to read.
	widest = 120
	// narrowest is the least width that is wrapped for.
	narrowest = 40
)

// columns for prose; 0: it is not wrapped.
func (o Options) columns() int {
	if o.Width < narrowest {
		return 0
	}
	return min(o.Width, widest)
}

// wrap breaks a text between words so that the first line has room for first characters and the others for rest; a word that
// is longer stands alone. Without room it is one line.
func wrap(text string, first, rest int) []string {
	if first <= 0 || rest <= 0 {
		return []string{text}
	}
	var lines []string
	line, room := "", first
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= room:
			line += " " + word
		default:
			lines = append(lines, line)
			line, room = word, rest
		}
	}
	return append(lines, line)
}
