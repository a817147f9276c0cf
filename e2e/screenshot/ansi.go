package main

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// style is how text looks; color is one more than the terminal's number from 0 to 7, and 0 its default.
type style struct {
	bold, faint, italic, underline bool
	color                          int
}

// span is text of one style within a line.
type span struct {
	text  string
	style style
}

// escape is what steers a terminal (ECMA-48): a control sequence, an operating system command as of links, or a short one. Of
// those only the first group, of colours and the like, has an effect here.
var escape = regexp.MustCompile(`\x1b(?:\[([0-9;]*)m|\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])`)

// tab is the distance between the stops of a terminal.
const tab = 8

// parse takes a terminal's output into lines of spans; blank lines at the end are dropped. A style holds until it is changed, over
// the ends of lines too.
func parse(text string) [][]span {
	var lines [][]span
	var now style
	for line := range strings.SplitSeq(strings.TrimRight(text, "\r\n"), "\n") {
		var spans []span
		column, next := 0, 0
		for _, at := range append(escape.FindAllStringSubmatchIndex(line, -1), []int{len(line), len(line), -1, -1}) {
			if text := printed(line[next:at[0]], column); text != "" {
				spans = append(spans, span{text, now})
				column += utf8.RuneCountInString(text)
			}
			if next = at[1]; at[2] >= 0 {
				now = now.with(line[at[2]:at[3]])
			}
		}
		lines = append(lines, spans)
	}
	return lines
}

// printed is the text that a terminal would show from a column on: blanks for tabs, and nothing for what does not print.
func printed(text string, column int) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\t':
			blanks := tab - column%tab
			out.WriteString(strings.Repeat(" ", blanks))
			column += blanks
		case unicode.IsPrint(r):
			out.WriteRune(r)
			column++
		}
	}
	return out.String()
}

// with is the style after a sequence's numbers (ECMA-48, SGR). Colours of 256 and of backgrounds are left out.
func (s style) with(numbers string) style {
	for number := range strings.SplitSeq(numbers, ";") {
		n, _ := strconv.Atoi(number) // without a number it is 0
		switch {
		case n == 0:
			s = style{}
		case n == 38 || n == 48: // the numbers that follow belong to it
			return s
		case n >= 30 && n <= 37:
			s.color = n - 30 + 1
		case n >= 90 && n <= 97:
			s.color = n - 90 + 1
		case n == 39:
			s.color = 0
		default:
			s.attribute(n)
		}
	}
	return s
}

func (s *style) attribute(n int) {
	switch n {
	case 1:
		s.bold = true
	case 2:
		s.faint = true
	case 3:
		s.italic = true
	case 4:
		s.underline = true
	case 22:
		s.bold, s.faint = false, false
	case 23:
		s.italic = false
	case 24:
		s.underline = false
	}
}
