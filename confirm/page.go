package confirm

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Style is how a text is laid out.
type Style struct {
	// Width of the terminal in columns; 0: lines are not wrapped.
	Width int
	Color bool
}

const (
	// margin is the width of the labels' column.
	margin = 11
	// narrow is the least width that is wrapped for.
	narrow = 40

	red   = "\x1b[1;31m"
	green = "\x1b[1;32m"
	bold  = "\x1b[1m"
	reset = "\x1b[0m"
)

// page is a text of rows: a label in the margin, and beside it what it is about.
type page struct {
	strings.Builder
	style Style
}

// row writes each paragraph, wrapped, the first one beside the label.
func (p *page) row(label string, paragraphs ...string) { p.marked("", label, paragraphs...) }

func (p *page) marked(color, label string, paragraphs ...string) {
	for _, paragraph := range paragraphs {
		for _, line := range wrap(printable(paragraph), p.style.Width-margin) {
			fmt.Fprintf(p, "%s%s\n", p.paint(color, fmt.Sprintf("%-*s", margin, label)), line)
			label = ""
		}
	}
}

// table writes rows of cells, aligned and not wrapped: names are there to be copied.
func (p *page) table(label string, rows [][]string) {
	widths := map[int]int{}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(printable(cell)))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		fmt.Fprintf(&line, "%-*s", margin, label)
		for i, cell := range row {
			fmt.Fprintf(&line, "%-*s  ", widths[i], printable(cell))
		}
		p.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		label = ""
	}
}

// command writes what is to be typed, in a line of its own, with what it does.
func (p *page) command(command, does string) {
	if does != "" {
		fmt.Fprintf(p, "  # %s\n", does)
	}
	fmt.Fprintf(p, "  %s\n", p.paint(bold, command))
}

func (p *page) gap() { p.WriteString("\n") }

func (p *page) paint(color, text string) string {
	if !p.style.Color || color == "" || strings.TrimSpace(text) == "" {
		return text
	}
	// Blanks stay outside, so that a terminal with underlines does not draw them.
	word := strings.TrimRight(text, " ")
	return color + word + reset + text[len(word):]
}

func wrap(text string, width int) []string {
	if width < narrow-margin {
		return []string{text}
	}
	var lines []string
	var line string
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// printable keeps a terminal's control characters out: a node or a user chose some of these texts.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// since writes when something was, and how long ago.
func since(t, now time.Time) string {
	layout := "15:04:05 UTC"
	if now.Sub(t) > 20*time.Hour {
		layout = "2006-01-02 15:04:05 UTC"
	}
	return t.UTC().Format(layout) + " (" + ago(t, now) + ")"
}

func ago(t, now time.Time) string {
	if d := now.Sub(t); d >= 0 {
		return duration.HumanDuration(d) + " ago"
	}
	return duration.HumanDuration(t.Sub(now)) + " ahead of this machine's clock"
}
