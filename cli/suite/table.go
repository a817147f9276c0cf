package suite

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/podgrace/podgrace/internal/console"
)

// marks are the words and colors of the statuses.
var marks = map[Status]struct{ word, color string }{
	Passed: {"ok", console.Green}, Failed: {"FAIL", console.Red}, Errored: {"ERROR", console.Red},
}

// table is what a person reads.
type table struct {
	strings.Builder
	Options
}

// writeTable prints a row for each case, or for each of several suites, then what failed and why, and a line that counts.
func writeTable(w io.Writer, r *Report, o Options) error {
	t := &table{Options: o}
	if r.Summary.Suites > 1 && !o.Verbose {
		t.suites(r)
	} else {
		t.cases(r)
	}
	for _, c := range r.Cases {
		t.failure(c)
	}
	t.errors(r)
	t.summary(r)
	_, err := io.WriteString(w, t.String())
	return err
}

// cases has a row for each.
func (t *table) cases(r *Report) {
	suiteWidth, caseWidth := len("SUITE"), len("CASE")
	for _, c := range r.Cases {
		suiteWidth, caseWidth = max(suiteWidth, width(c.Suite)), max(caseWidth, width(c.Case))
	}
	if len(r.Cases) > 0 {
		fmt.Fprintf(t, "%-*s  %-*s  RESULT\n", suiteWidth, "SUITE", caseWidth, "CASE")
	}
	for _, c := range r.Cases {
		fmt.Fprintf(t, "%-*s  %-*s  %s\n", suiteWidth, shown(c.Suite), caseWidth, shown(c.Case), t.mark(c.Status, 0))
		if t.Verbose {
			t.happened(c)
		}
	}
}

// suites has a row for each: how many cases it has, and how many of them did not pass.
func (t *table) suites(r *Report) {
	type row struct {
		file, name string
		cases      int
		of         map[Status]int
	}
	var rows []*row
	suiteWidth := len("SUITE")
	for _, c := range r.Cases { // those of a suite follow each other
		if len(rows) == 0 || rows[len(rows)-1].file != c.Source.File || rows[len(rows)-1].name != c.Suite {
			rows = append(rows, &row{file: c.Source.File, name: c.Suite, of: map[Status]int{}})
			suiteWidth = max(suiteWidth, width(c.Suite))
		}
		last := rows[len(rows)-1]
		last.cases++
		last.of[c.Status]++
	}
	if len(rows) > 0 {
		fmt.Fprintf(t, "%-*s  CASES  RESULT\n", suiteWidth, "SUITE")
	}
	for _, s := range rows {
		var results []string
		for _, status := range []Status{Failed, Errored} {
			if n := s.of[status]; n > 0 {
				results = append(results, t.mark(status, n))
			}
		}
		if len(results) == 0 {
			results = []string{t.mark(Passed, 0)}
		}
		fmt.Fprintf(t, "%-*s  %5d  %s\n", suiteWidth, shown(s.name), s.cases, strings.Join(results, ", "))
	}
}

// mark is the word of a status, after a number if there is one.
func (t *table) mark(s Status, n int) string {
	word := marks[s].word
	if n > 0 {
		word = fmt.Sprintf("%d %s", n, word)
	}
	return t.Style.Paint(word, console.Bold, marks[s].color)
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
		line += ": " + console.Fold(c.Result.Message)
	}
	t.prose(line)
	for _, w := range c.Result.Warnings {
		t.prose("warning: " + console.Fold(w))
	}
	for _, u := range c.Result.Unknown {
		t.prose("not known: " + console.Fold(u))
	}
	for i := range c.Result.Patch {
		fmt.Fprintf(t, "    %s\n", shown(clip(operation(&c.Result.Patch[i]))))
	}
}

// prose is indented, and wrapped on a terminal; values are not, since they are there to be copied.
func (t *table) prose(text string) {
	p := console.New(t.Style, len("    "))
	p.Row("", shown(text))
	t.WriteString(p.String())
}

// failure says why a case did not pass.
func (t *table) failure(c *Outcome) {
	if c.Status != Failed && c.Status != Errored {
		return
	}
	fmt.Fprintf(t, "\n%s\n", t.Style.Paint(shown(fmt.Sprintf("%s: %s (%s:%d)", c.Suite, c.Case, c.Source.File, c.Source.Line)), console.Bold))
	if c.Error != "" {
		t.prose(console.Fold(c.Error))
	}
	for _, d := range c.Differences {
		for _, line := range d.lines() {
			switch line[0] {
			case '-':
				line = t.Style.Paint(line, console.Bold, console.Red)
			case '+':
				line = t.Style.Paint(line, console.Bold, console.Green)
			}
			fmt.Fprintf(t, "    %s\n", line)
		}
	}
	t.refusal(c)
	t.block(c)
}

// block is a then to paste: always for a case that expects nothing, and with Verbose for one that failed.
func (t *table) block(c *Outcome) {
	if c.Status == Failed && !t.Verbose {
		return
	}
	for line := range strings.SplitSeq(c.block(), "\n") {
		if line != "" {
			fmt.Fprintf(t, "      %s\n", shown(line))
		}
	}
}

// refusal says why a request is refused where that is not what was expected: the decision alone helps nobody.
func (t *table) refusal(c *Outcome) {
	unexpected := slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.Field == "decision" || len(d.Got) == 1 && d.Got[0] == noPod })
	if !unexpected || t.Verbose || c.Result == nil || c.Result.Message == "" {
		return
	}
	t.prose(console.Fold(strings.TrimPrefix(c.Result.Reason+": "+c.Result.Message, ": ")))
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
		fmt.Fprintf(t, "%s %s\n", t.Style.Paint("error:", console.Bold, console.Red), shown(console.Fold(e.Error())))
	}
}

func (t *table) summary(r *Report) {
	s := r.Summary
	fmt.Fprintf(t, "\n%s in %s: %d passed", console.Plural(s.Cases, "case", "cases"), console.Plural(s.Suites, "suite", "suites"), s.Passed)
	if s.Failed > 0 {
		fmt.Fprintf(t, ", %d failed (- wanted, + got)", s.Failed)
	}
	if s.Errors > 0 {
		fmt.Fprintf(t, "; %s", console.Plural(s.Errors, "error", "errors"))
	}
	t.WriteString("\n")
}
