package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/cli/delta"
	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
)

// maxCell is how much of a message stands in a table, in characters.
const maxCell = 600

// writeMarkdown prints a comment for a pull request: a heading with the counts, a table of what there is to say, the most urgent
// first, then the changes to unfold. What does not fit is counted.
func writeMarkdown(w io.Writer, r *review.Report, _ Options) error {
	c := &comment{}
	c.add("### Podgrace: " + delta.Markdown(oneLineSummary(r)) + "\n")
	for _, sentence := range input.LeftOutInWords(r.LeftOut) {
		c.add("\n" + delta.Markdown("Left out: "+sentence) + "\n")
	}
	rows, details := markdownParts(r)
	// Diffs have what room the table leaves: it is the more important.
	c.section("\n| | Object | Says | Where |\n|---|---|---|---|\n", "row", rows)
	c.section("\n", "diff", details)
	_, err := io.WriteString(w, c.String())
	return err
}

type comment struct{ strings.Builder }

func (c *comment) add(text string) { c.WriteString(text) }

// section writes as many parts as there is room for, and says how many it left out.
func (c *comment) section(heading, what string, parts []func() string) {
	const note = 200 // room for what is said of the rest
	if len(parts) == 0 {
		return
	}
	c.add(heading)
	for i, write := range parts {
		part := write()
		if c.Len()+len(part)+2*note > delta.MaxComment {
			fmt.Fprintf(c, "\n_%s left out: the comment would be too long._\n", console.Plural(len(parts)-i, what, what+"s"))
			return
		}
		c.add(part)
	}
}

// markdownParts are the rows of the table and the diffs below it. They are written when it is their turn: most never are.
func markdownParts(r *review.Report) (rows, details []func() string) {
	results := make([]*review.Result, 0, len(r.Results))
	for i := range r.Results {
		if outcomeOf(&r.Results[i]) != clean {
			results = append(results, &r.Results[i])
		}
	}
	slices.SortStableFunc(results, func(a, b *review.Result) int { return cmp.Compare(outcomeOf(b), outcomeOf(a)) })
	for _, e := range r.Errors {
		rows = append(rows, func() string { return row("**error**", "", prose(e.Message), where(e.File, e.Line)) })
	}
	for _, result := range results {
		rows = append(rows, func() string {
			return row(mark(outcomeOf(result)), code(subject(result)), says(result), where(result.Source.File, result.Source.Line))
		})
		if len(result.Patch) > 0 {
			details = append(details, func() string { return detail(subject(result), changes(result)) })
		}
	}
	return rows, details
}

func row(mark, object, says, place string) string {
	return fmt.Sprintf("| %s | %s | %s | %s |\n", mark, object, says, code(place))
}

func mark(o outcome) string {
	if o == denied || o == warned {
		return "**" + o.String() + "**"
	}
	return o.String()
}

// says is what a row says of a result, a line each.
func says(r *review.Result) string {
	var lines []string
	if r.Decision == review.Denied {
		lines = append(lines, prose(refusal(r)))
	}
	for _, w := range warnings(r) {
		lines = append(lines, "warning: "+prose(w))
	}
	for _, u := range r.Unknown {
		lines = append(lines, "not known: "+prose(u))
	}
	if len(r.Patch) > 0 {
		fields := make([]string, len(r.Patch))
		for i, o := range r.Patch {
			fields[i] = code(console.Clip(fieldName(o.Path), maxValue))
		}
		lines = append(lines, "changes "+strings.Join(fields, ", "))
	}
	return strings.Join(lines, "<br>")
}

// detail is a diff to unfold. Its fence is longer than any in it.
func detail(subject string, edits []edit) string {
	if len(edits) == 0 {
		return ""
	}
	var lines []string
	fence := "```"
	for _, e := range edits {
		line := e.String()
		for strings.Contains(line, fence) {
			fence += "`"
		}
		lines = append(lines, line)
	}
	return fmt.Sprintf("<details><summary>Changes of %s</summary>\n\n%sdiff\n%s\n%s\n\n</details>\n", code(subject), fence, strings.Join(lines, "\n"), fence)
}

// code is a text in the face of code, clipped.
func code(text string) string {
	return delta.Code(console.Clip(text, maxLine))
}

// prose is a text among Markdown, clipped.
func prose(text string) string {
	return delta.Prose(console.Clip(console.OneLine(text), maxCell))
}
