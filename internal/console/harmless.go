package console

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible writes what does not print, or turns the direction of what does, as Go would in quotes: a terminal, or a reader's
// eye, must not be steered by a manifest. It keeps CI systems from taking a text for a command of theirs, too.
func Visible(text string) string {
	if strings.IndexFunc(text, unprintable) < 0 && utf8.ValidString(text) {
		return inert(text)
	}
	var out strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && text[i] != "\uFFFD"[0]:
			fmt.Fprintf(&out, `\x%02x`, text[i])
		case unprintable(r):
			quoted := strconv.QuoteRune(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		default:
			out.WriteRune(r)
		}
	}
	return inert(out.String())
}

// unprintable is what Visible writes otherwise.
func unprintable(r rune) bool {
	if r < utf8.RuneSelf { // most are, and a report has many
		return r < ' ' || r == '\x7f'
	}
	return !unicode.IsPrint(r)
}

// OneLine is Visible for prose: lines and blanks are run together.
func OneLine(text string) string { return Visible(Fold(text)) }

// marker is that of the commands that Azure Pipelines, TeamCity and older workflow runners look for within a line.
var marker = regexp.MustCompile(`#(#\w*\[)`)

func inert(text string) string {
	if !strings.Contains(text, "##") {
		return text
	}
	return marker.ReplaceAllString(text, `#\$1`)
}

// AtStart keeps a line from being a workflow command, which a runner looks for after any blanks.
func AtStart(line string) string {
	if text := strings.TrimLeft(line, " \t"); strings.HasPrefix(text, "::") {
		return line[:len(line)-len(text)] + `\` + text
	}
	return line
}

// blanks are letters and symbols that nothing is seen of: fillers of Hangul and of Khmer, and Braille without a dot.
const blanks = "\u115f\u1160\u3164\uffa0\u17b4\u17b5\u2800"

// Printable keeps out a terminal's control characters, what turns the order of letters, and what looks like a space but is none: a node or a user
// chose some of these texts. Unlike Visible it does not show what was there, and so gives as many letters as it was given.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && !strings.ContainsRune(blanks, r) {
			return r
		}
		return '?'
	}, text)
}

// Bounded makes a text one line of at most so many bytes, of which a terminal may see each: controls are blanks, and what is cut ends with dots.
func Bounded(text string, most int) string {
	if len(text) <= most && strings.IndexFunc(text, notASCII) < 0 { // nearly all are
		return text
	}
	cut := len(text) > most
	if cut { // before it is looked at: it may be long, and none of what follows makes it longer
		end := most
		for end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	text = Printable(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?")))
	if !cut {
		return text
	}
	const dots = "..."
	return strings.ToValidUTF8(text[:min(len(text), most-len(dots))], "") + dots
}

// notASCII is what is not to be seen of ASCII, and all beyond it.
func notASCII(r rune) bool { return r < ' ' || r > '~' }
