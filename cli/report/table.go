package report

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
)

// maxSays is how much a line of a table says where no terminal has a width, in characters.
const maxSays = 160

// writeTable prints a line for each result with something to say, in the order of the input, for those who look through many or search
// them with grep; then the summary.
func writeTable(w io.Writer, r *review.Report, o Options) error {
	p := &textPage{Options: o, out: w}
	rows := [][]string{{"RESULT", "OBJECT", "WHERE", "SAYS"}}
	colors := []string{console.Bold}
	for i := range r.Results {
		if result := &r.Results[i]; p.shows(result) {
			tag := tags[outcomeOf(result)]
			rows = append(rows, []string{tag.word, subject(result), where(result.Source.File, result.Source.Line), inShort(result)})
			colors = append(colors, tag.color)
		}
	}
	for _, e := range r.Errors {
		rows = append(rows, []string{"ERROR", "", where(e.File, e.Line), console.OneLine(e.Message)})
		colors = append(colors, console.Red)
	}
	if len(rows) > 1 {
		p.table(rows, colors)
		p.line("")
	}
	p.summary(r)
	return p.err
}

// inShort is a result in a few words: the first thing that is said of it, else the fields that change.
func inShort(r *review.Result) string {
	switch outcomeOf(r) {
	case denied:
		return refusal(r)
	case warned:
		return console.OneLine(warnings(r)[0])
	case unknown:
		return "not known: " + console.OneLine(strings.Join(r.Unknown, ", "))
	}
	names := make([]string, len(r.Patch))
	for i, o := range r.Patch {
		names[i] = strings.TrimPrefix(fieldName(o.Path), "spec.")
	}
	return strings.Join(names, ", ")
}

// table aligns rows. A last cell that is longer than the terminal is clipped, so that each row is one line.
func (p *textPage) table(rows [][]string, colors []string) {
	widths := make([]int, len(rows[0])-1)
	for _, row := range rows {
		for i := range widths {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	before := 0
	for _, width := range widths {
		before += width + len("  ")
	}
	room := maxSays
	if p.Width >= console.Narrowest {
		room = p.Width - before
	}
	if room < console.Narrowest/2 { // the beginning of a sentence helps nobody: what it is and where is worth the line
		room = 0
	}
	for i, row := range rows {
		var cells strings.Builder
		for j, width := range widths {
			cell := row[j]
			if j == 0 {
				cell = p.Paint(cell, colors[i])
			}
			cells.WriteString(cell + strings.Repeat(" ", width-utf8.RuneCountInString(row[j])+len("  ")))
		}
		p.line(strings.TrimRight(cells.String()+console.Shorten(row[len(row)-1], room), " "))
	}
}
