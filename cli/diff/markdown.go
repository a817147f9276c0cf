package diff

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/cli/delta"
	"github.com/podgrace/podgrace/internal/console"
)

// writeMarkdown prints a comment for a pull request: a heading, how many by kind of change, then a part for all workloads that change
// alike, the most urgent first. What does not fit is counted.
func writeMarkdown(w io.Writer, d *Diff, _ Options) error {
	var c strings.Builder
	s := &d.Summary
	c.WriteString("### Podgrace: " + s.outcome() + "\n\n" + s.judged() + "\n")
	if s.NoPolicies && s.Thresholds == 0 {
		c.WriteString("\n**" + noPolicies + "**\n")
	}
	c.WriteString(markdownCounts(s))
	parts := markdownParts(d)
	for i, part := range parts {
		if c.Len()+len(part)+200 > delta.MaxComment {
			fmt.Fprintf(&c, "\n_%s left out: the comment would be too long._\n", console.Plural(len(parts)-i, "part", "parts"))
			break
		}
		c.WriteString(part)
	}
	_, err := io.WriteString(w, c.String())
	return err
}

func markdownCounts(s *Summary) string {
	var c strings.Builder
	row := func(n int, says string) {
		if n == 0 {
			return
		}
		if c.Len() == 0 {
			c.WriteString("\n| | |\n|---:|---|\n")
		}
		fmt.Fprintf(&c, "| %d | %s |\n", n, says)
	}
	for _, k := range kinds {
		says := k.says
		if k.tone == bad {
			says = "**" + says + "**"
		}
		row(s.Kinds[k.kind], says)
	}
	row(s.RunningDifferent, "running "+console.Noun(s.RunningDifferent, "pod", "pods")+" would be created otherwise today")
	row(s.Evicting, "**"+console.Noun(s.Evicting, "new eviction threshold is", "new eviction thresholds are")+" met by nodes now**")
	row(s.Errors, "**"+console.Noun(s.Errors, "error", "errors")+" in the input**")
	if text := unknownText(s.Unknown, false); text != "" {
		c.WriteString("\nNot known, and judged on the safe side: " + delta.Markdown(text) + "\n")
	}
	return c.String()
}

// markdownParts are errors, thresholds, then groups, then pods that run.
func markdownParts(d *Diff) []string {
	var parts []string
	for _, e := range d.Errors {
		parts = append(parts, "\n**error** "+delta.Code(where(e.File, e.Line))+": "+delta.Prose(message(e.Message))+"\n")
	}
	for i := range d.Thresholds {
		t := &d.Thresholds[i]
		tag := "nodes"
		if len(t.Nodes) > 0 {
			tag = "evicts"
		}
		parts = append(parts, "\n**"+tag+"** NodePolicy "+delta.Code(t.NodePolicy)+": "+delta.Prose(t.text(min(len(t.Nodes), maxMarkdownNames)))+"\n")
	}
	all := groups(d.Workloads)
	slices.Reverse(all)
	for _, g := range all {
		tag, _ := tagOf(g.kind())
		title := fmt.Sprintf("<b>%s</b> %s", strings.ToLower(tag), delta.Code(g.subject()))
		var names string
		if len(g.workloads) > 1 {
			names = delta.Code(g.names(maxMarkdownNames)) + "\n\n"
		} else {
			names = delta.Code(where(g.workloads[0].Source.File, g.workloads[0].Source.Line)) + "\n\n"
		}
		parts = append(parts, fold(title, names+fence(lines(g.changes, len(g.workloads) == 1)), g.kind().Denies()))
	}
	running := runningGroups(d.Running)
	slices.Reverse(running)
	for _, g := range running {
		parts = append(parts, fold("<b>running</b> "+delta.Code(g.subject())+" would be created otherwise today", fence(g.lines()), false))
	}
	return parts
}

// maxMarkdownNames of one part.
const maxMarkdownNames = 50

func fold(title, text string, open bool) string {
	attribute := ""
	if open {
		attribute = " open"
	}
	return fmt.Sprintf("\n<details%s><summary>%s</summary>\n\n%s\n\n</details>\n", attribute, title, text)
}

// fence is a diff that the code host colours. It is longer than any fence in it.
func fence(all []delta.Line) string {
	mark := "```"
	var rows []string
	for _, l := range all {
		sign := l.Sign
		if sign == "~" {
			sign = "!"
		}
		row := sign + " " + l.Name + ": " + l.Value
		for strings.Contains(row, mark) {
			mark += "`"
		}
		rows = append(rows, row)
	}
	return mark + "diff\n" + strings.Join(rows, "\n") + "\n" + mark
}
