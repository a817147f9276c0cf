package console

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// least is the least width of a last column that is wrapped.
const least = 20

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

// Marked is Row with a color for the label, which is bold then; empty: none.
func (p *Page) Marked(color, label string, paragraphs ...string) {
	for _, paragraph := range paragraphs {
		for _, line := range Wrap(Printable(paragraph), p.width(), p.width()) {
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
	rows = printable(rows)
	widths := columns(rows, width > 0)
	for _, row := range rows {
		head, last := head(row, widths), ""
		if len(row) > 0 {
			last = row[len(row)-1]
		}
		indent := utf8.RuneCountInString(head)
		room := width - indent
		if width < Narrowest || room < least {
			room = 0
		}
		for _, line := range Wrap(last, room, room) {
			p.line(color, label, head+line)
			head, label = strings.Repeat(" ", indent), ""
		}
	}
}

// Command writes what is to be typed, in a line of its own, with what it does.
func (p *Page) Command(command, does string) {
	if does != "" {
		fmt.Fprintf(p, "  # %s\n", does)
	}
	fmt.Fprintf(p, "  %s\n", p.style.Paint(command, Bold))
}

// Gap writes an empty line.
func (p *Page) Gap() { p.WriteString("\n") }

// width of what stands beside the margin; 0 where nothing is to be wrapped.
func (p *Page) width() int { return max(p.style.Columns()-p.margin, 0) }

func (p *Page) line(color, label, text string) {
	label = fmt.Sprintf("%-*s", p.margin, label)
	switch color {
	case "":
	case Bold:
		label = p.style.Paint(label, Bold)
	default:
		label = p.style.Paint(label, Bold, color)
	}
	p.WriteString(strings.TrimRight(label+text, " ") + "\n")
}
