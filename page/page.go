package page

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style is how a text is laid out.
type Style struct {
	// Width of the terminal in columns; 0: lines are not wrapped.
	Width int
	Color bool
}

// Colors of a terminal, for Marked.
const (
	Red    = "\x1b[1;31m"
	Green  = "\x1b[1;32m"
	Yellow = "\x1b[1;33m"
	Bold   = "\x1b[1m"

	reset = "\x1b[0m"
	// narrow is the least width that is wrapped for.
	narrow = 40
	// least is the least width of a last column that is wrapped.
	least = 20
	// between is the gap between two columns.
	between = "  "
)

// Page is a text of rows: a label in the margin, and beside it what it is about.
type Page struct {
	strings.Builder
	style  Style
	margin int
}

// New returns an empty page whose margin has so many columns.
func New(style Style, margin int) *Page { return &Page{style: style, margin: margin} }

// Row writes each paragraph, wrapped, the first one beside the label.
func (p *Page) Row(label string, paragraphs ...string) { p.Marked("", label, paragraphs...) }

// Marked is Row with a color for the label; empty: none.
func (p *Page) Marked(color, label string, paragraphs ...string) {
	for _, paragraph := range paragraphs {
		for _, line := range wrap(Printable(paragraph), p.width()) {
			p.line(color, label, line)
			label = ""
		}
	}
}

// Table writes rows of cells, aligned and not wrapped: names are there to be copied.
func (p *Page) Table(label string, rows [][]string) { p.table("", label, rows, 0) }

// Columns is Table with a color for the label, and with the last column wrapped.
func (p *Page) Columns(color, label string, rows [][]string) { p.table(color, label, rows, p.width()) }

func (p *Page) table(color, label string, rows [][]string, width int) {
	widths := columns(rows, width > 0)
	for _, row := range rows {
		for _, line := range cells(row, widths, width) {
			p.line(color, label, line)
			label = ""
		}
	}
}

// columns are the widths of the columns. One that is wrapped, a row's last, needs none.
func columns(rows [][]string, wrapped bool) map[int]int {
	widths := map[int]int{}
	for _, row := range rows {
		if wrapped {
			row = row[:max(len(row)-1, 0)]
		}
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(Printable(cell)))
		}
	}
	return widths
}

// cells are the lines of one row; more than one where its last cell is wrapped.
func cells(row []string, widths map[int]int, width int) []string {
	var head strings.Builder
	for i, cell := range row[:max(len(row)-1, 0)] {
		fmt.Fprintf(&head, "%-*s%s", widths[i], Printable(cell), between)
	}
	var last string
	if len(row) > 0 {
		last = Printable(row[len(row)-1])
	}
	indent := utf8.RuneCountInString(head.String())
	if width < narrow || width-indent < least {
		return []string{head.String() + last}
	}
	lines := wrapAt(last, width-indent)
	for i := range lines {
		if i > 0 {
			lines[i] = strings.Repeat(" ", indent) + lines[i]
		}
	}
	lines[0] = head.String() + lines[0]
	return lines
}

// Command writes what is to be typed, in a line of its own, with what it does.
func (p *Page) Command(command, does string) {
	if does != "" {
		fmt.Fprintf(p, "  # %s\n", does)
	}
	fmt.Fprintf(p, "  %s\n", p.paint(Bold, command))
}

// Gap writes an empty line.
func (p *Page) Gap() { p.WriteString("\n") }

// width of what stands beside the margin; less than narrow where nothing is to be wrapped.
func (p *Page) width() int {
	if p.style.Width < narrow {
		return 0
	}
	return p.style.Width - p.margin
}

func (p *Page) line(color, label, text string) {
	label = p.paint(color, fmt.Sprintf("%-*s", p.margin, label))
	p.WriteString(strings.TrimRight(label+text, " ") + "\n")
}

func (p *Page) paint(color, text string) string {
	if !p.style.Color || color == "" || strings.TrimSpace(text) == "" {
		return text
	}
	// Blanks stay outside, so that a terminal with underlines does not draw them.
	word := strings.TrimRight(text, " ")
	return color + word + reset + text[len(word):]
}

func wrap(text string, width int) []string {
	if width <= 0 {
		return []string{text}
	}
	return wrapAt(text, width)
}

// wrapAt breaks between words only: what is longer than a line, as a path, is there to be copied. But a terminal goes on with it in the margin, where
// a label may be imitated by who knows a letter that nothing is seen of: so that a word of other letters than those of paths is broken.
func wrapAt(text string, width int) []string {
	var lines []string
	var line string
	for word := range strings.FieldsSeq(text) {
		if runes := []rune(word); len(runes) > width && len(runes) < len(word) {
			if line != "" {
				lines = append(lines, line)
			}
			for part := range slices.Chunk(runes, width) {
				lines = append(lines, string(part))
			}
			lines, line = lines[:len(lines)-1], lines[len(lines)-1]
			continue
		}
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// blanks are letters and symbols that nothing is seen of: fillers of Hangul and of Khmer, and Braille without a dot.
const blanks = "\u115f\u1160\u3164\uffa0\u17b4\u17b5\u2800"

// Printable keeps out a terminal's control characters, what turns the order of letters, and what looks like a space but is none: a node or a user
// chose some of these texts.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && !strings.ContainsRune(blanks, r) {
			return r
		}
		return '?'
	}, text)
}
