package console

import "strings"

// Style is how a text is laid out.
type Style struct {
	// Width of the terminal in columns; 0: lines are not wrapped.
	Width int
	// Color by ANSI escapes.
	Color bool
}

// The colors of text: each is one of a terminal's own sixteen, which the person has chosen to be readable.
const (
	Red    = "\x1b[31m"
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	Purple = "\x1b[35m"
	Cyan   = "\x1b[36m"
	Bold   = "\x1b[1m"
	Faint  = "\x1b[2m"

	reset = "\x1b[0m"
)

const (
	// widest is where prose is wrapped on a wider terminal: longer lines are hard to read.
	widest = 120
	// Narrowest is the least width that is wrapped for.
	Narrowest = 40
)

// Columns for prose; 0: it is not wrapped.
func (s Style) Columns() int {
	if s.Width < Narrowest {
		return 0
	}
	return min(s.Width, widest)
}

// Paint puts colors around a text, if colors are wanted. Blanks behind it stay outside, so that a terminal with underlines does not draw them.
func (s Style) Paint(text string, colors ...string) string {
	word := strings.TrimRight(text, " ")
	color := strings.Join(colors, "")
	if !s.Color || word == "" || color == "" {
		return text
	}
	return color + word + reset + text[len(word):]
}
