package suite

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/podgrace/podgrace/page"
)

// marks are the words and colors of the statuses.
var marks = map[Status]struct{ word, color string }{
	Passed: {"ok", page.Green}, Failed: {"FAIL", page.Red}, Updated: {"updated", page.Yellow}, Errored: {"ERROR", page.Red},
}

const colorOff = "\x1b[0m"

// table is what a person reads.
type table struct {
	strings.Builder
	Options
}

func (t *table) paint(color, text string) string {
	if !t.Style.Color {
		return text
	}
	return color + text + colorOff
}

// writeTable prints a row for each case, then what failed and why, and a line that counts.
func writeTable(w io.Writer, r *Report, o Options) error {
	t := &table{Options: o}
	suiteWidth, caseWidth := len("SUITE"), len("CASE")
	for _, c := range r.Cases {
		suiteWidth, caseWidth = max(suiteWidth, width(c.Suite)), max(caseWidth, width(c.Case))
	}
	if len(r.Cases) > 0 {
		fmt.Fprintf(t, "%-*s  %-*s  RESULT\n", suiteWidth, "SUITE", caseWidth, "CASE")
	}
	for _, c := range r.Cases {
		mark := marks[c.Status]
		fmt.Fprintf(t, "%-*s  %-*s  %s\n", suiteWidth, shown(c.Suite), caseWidth, shown(c.Case), t.paint(mark.color, mark.word))
		if o.Verbose {
			t.happened(c)
		}
	}
	for _, c := range r.Cases {
		t.failure(c)
	}
	t.errors(r)
	t.summary(r)
	_, err := io.WriteString(w, t.String())
	return err
}

func width(text string) int { return utf8.RuneCountInString(shown(text)) }

// happened says what came of a case, as "then" would.
func (t *table) happened(c *Outcome) {
	if c.Result == nil {
		return
	}
	line := string(c.Result.Decision)
	if c.Result.Reason != "" {
		line += " (" + c.Result.Reason + ")"
	}
	if c.Result.Message != "" {
		line += ": " + oneLine(c.Result.Message)
	}
	t.prose(line)
	for _, w := range c.Result.Warnings {
		t.prose("warning: " + oneLine(w))
	}
	for _, u := range c.Result.Unknown {
		t.prose("not known: " + oneLine(u))
	}
	for i := range c.Result.Patch {
		fmt.Fprintf(t, "    %s\n", shown(clip(operation(&c.Result.Patch[i]))))
	}
}

// prose is indented, and wrapped on a terminal; values are not, since they are there to be copied.
func (t *table) prose(text string) {
	p := page.New(t.Style, len("    "))
	p.Row("", shown(text))
	t.WriteString(p.String())
}

// failure says why a case did not pass.
func (t *table) failure(c *Outcome) {
	if c.Status != Failed && c.Status != Errored {
		return
	}
	fmt.Fprintf(t, "\n%s\n", t.paint(page.Bold, shown(fmt.Sprintf("%s: %s (%s:%d)", c.Suite, c.Case, c.Source.File, c.Source.Line))))
	if c.Error != "" {
		t.prose(oneLine(c.Error))
	}
	for _, d := range c.Differences {
		for _, line := range d.lines() {
			switch line[0] {
			case '-':
				line = t.paint(page.Red, line)
			case '+':
				line = t.paint(page.Green, line)
			}
			fmt.Fprintf(t, "    %s\n", line)
		}
	}
	t.refusal(c)
}

// refusal says why a request is refused where that is not what was expected: the decision alone helps nobody.
func (t *table) refusal(c *Outcome) {
	unexpected := slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.Field == "decision" || len(d.Got) == 1 && d.Got[0] == noPod })
	if !unexpected || t.Verbose || c.Result == nil || c.Result.Message == "" {
		return
	}
	t.prose(oneLine(strings.TrimPrefix(c.Result.Reason+": "+c.Result.Message, ": ")))
}

// lines of a difference: what it is about, what was wanted after a minus, what was got after a plus.
func (d *Difference) lines() []string {
	what := d.Field
	if d.Path != "" {
		what += " " + d.Path
	}
	out := []string{shown(what + ":")}
	for _, w := range d.Want {
		out = append(out, "- "+shown(clip(w)))
	}
	for _, g := range d.Got {
		out = append(out, "+ "+shown(clip(g)))
	}
	return out
}

func (t *table) errors(r *Report) {
	for i, e := range r.Errors {
		if i == 0 && len(r.Cases) > 0 {
			t.WriteString("\n")
		}
		fmt.Fprintf(t, "%s %s\n", t.paint(page.Red, "error:"), shown(oneLine(e.Error())))
	}
}

func (t *table) summary(r *Report) {
	s := r.Summary
	fmt.Fprintf(t, "\n%s in %s: %d passed", plural(s.Cases, "case"), plural(s.Suites, "suite"), s.Passed)
	for _, more := range []struct {
		n    int
		what string
	}{{s.Failed, "failed"}, {s.Updated, "updated"}} {
		if more.n > 0 {
			fmt.Fprintf(t, ", %d %s", more.n, more.what)
		}
	}
	if s.Failed > 0 {
		t.WriteString(" (- wanted, + got)")
	}
	if s.Errors > 0 {
		fmt.Fprintf(t, "; %s", plural(s.Errors, "error"))
	}
	t.WriteString("\n")
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
