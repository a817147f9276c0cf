package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
)

// maxMessage is how much of a message text shows, in characters.
const maxMessage = 2000

// writeText prints for a person, in few lines unless all details are wanted.
func writeText(w io.Writer, r *review.Report, o Options) error {
	if o.Details {
		return writeDetails(w, r, o)
	}
	return writeCompact(w, r, o)
}

// writeDetails prints a block for each result with something to say, with a diff of the pod and the reason of each change, the most urgent
// last, next to the summary, where the reader of a terminal or a log begins.
func writeDetails(w io.Writer, r *review.Report, o Options) error {
	p := &textPage{Options: o, out: w}
	results := make([]*review.Result, 0, len(r.Results))
	for i := range r.Results {
		if p.shows(&r.Results[i]) {
			results = append(results, &r.Results[i])
		}
	}
	slices.SortStableFunc(results, func(a, b *review.Result) int { return cmp.Compare(outcomeOf(a), outcomeOf(b)) })
	for i, result := range results {
		if i > 0 && outcomeOf(result) != clean {
			p.line("")
		}
		p.result(result)
	}
	if len(results) > 0 {
		p.line("")
	}
	for _, e := range r.Errors {
		p.heading("ERROR", console.Red, where(e.File, e.Line), "")
		p.prose("", "", console.OneLine(e.Message))
	}
	if len(r.Errors) > 0 {
		p.line("")
	}
	p.summary(r)
	return p.err
}

// textPage is written line by line; after an error nothing is.
type textPage struct {
	Options
	out io.Writer
	err error
}

func (p *textPage) line(text string, colors ...string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.out, p.Paint(console.AtStart(text), colors...)+"\n")
	}
}

func (p *textPage) shows(r *review.Result) bool {
	return p.All || outcomeOf(r) != clean
}

// tags are the words that a block begins with.
var tags = map[outcome]struct{ word, color string }{
	denied: {"DENIED", console.Red}, warned: {"WARNED", console.Yellow}, unknown: {"UNKNOWN", console.Purple}, changed: {"CHANGED", console.Cyan}, clean: {"OK", console.Green},
}

func (p *textPage) result(r *review.Result) {
	tag := tags[outcomeOf(r)]
	p.heading(tag.word, tag.color, subject(r), where(r.Source.File, r.Source.Line))
	if r.Decision == review.Denied {
		label, message := "", console.OneLine(cmp.Or(r.Message, noMessage))
		if r.Reason != "" {
			label = console.Clip(console.OneLine(r.Reason), maxValue) + ": "
		}
		p.prose(label, console.Red, message)
	}
	for _, w := range warnings(r) {
		p.prose("warning: ", console.Yellow, console.OneLine(w))
	}
	for _, u := range r.Unknown {
		text := console.OneLine(u)
		if give := review.Remedy(u); give != "" {
			text += " (to be given with --state: " + give + ")"
		}
		p.prose("not known: ", console.Purple, text)
	}
	p.changes(changes(r))
}

// tagWidth is the column in which a heading's subject stands.
const tagWidth = len("CHANGED  ")

// heading is in one line, unless it does not fit: then the place has its own.
func (p *textPage) heading(tag, color, subject, place string) {
	text := p.Paint(tag, console.Bold, color) + strings.Repeat(" ", tagWidth-len(tag)) + p.Paint(subject, console.Bold)
	length := tagWidth + utf8.RuneCountInString(subject) + 2 + utf8.RuneCountInString(place)
	if p.Columns() > 0 && length > p.Columns() {
		p.line(text)
		p.line(strings.Repeat(" ", tagWidth)+place, console.Faint)
		return
	}
	if place != "" {
		text += "  " + p.Paint(place, console.Faint)
	}
	p.line(text)
}

// prose is wrapped after its label; the lines that follow are indented.
func (p *textPage) prose(label, color, text string) {
	const first, rest = "  ", "    "
	label = console.AtStart(label)
	lead := first + p.Paint(label, color)
	for _, line := range console.Wrap(console.Clip(text, maxMessage), p.Columns()-len(first+label), p.Columns()-len(rest)) {
		p.line(lead + line)
		lead = rest
	}
}

func (p *textPage) changes(edits []edit) {
	const indent = "  "
	for _, e := range edits {
		switch e.sign {
		case '#':
			blank := indent + "  " + e.text[:len(e.text)-len(strings.TrimLeft(e.text, " "))] + "# "
			room := p.Columns() - len(blank)
			for _, line := range console.Wrap(strings.TrimLeft(e.text, " "), room, room) {
				p.line(blank+line, console.Faint)
			}
		case '-':
			p.line(indent+e.String(), console.Red)
		case '+':
			p.line(indent+e.String(), console.Green)
		default:
			p.line(indent + e.String())
		}
	}
}

// noPolicies says what a review without policies is worth.
const noPolicies = "No PodPolicy is known, so that none judged anything (--policy PATH)."

// noNodes says what a preview without nodes is worth.
const noNodes = "No Node is known, so that nobody can say where pods would be scheduled (--state PATH, or a cluster whose nodes you may list)."

// summary is what a report comes to, in a few lines.
func (p *textPage) summary(r *review.Report) {
	s := r.Summary
	p.line(p.Paint(fmt.Sprintf("Reviewed %d in %s: ", s.Reviewed, whereAll(&s)), console.Bold) + p.counts(r))
	if s.NoPolicies {
		p.line(p.Paint(noPolicies, console.Yellow))
	}
	if s.NoNodes {
		p.line(p.Paint(noNodes, console.Yellow))
	}
	if s.Unknown > 0 {
		p.line(console.Plural(s.Unknown, "was", "were") + " not judged in full, since not all that matters is known; removals are judged on the safe side.")
	}
	if s.Other > 0 {
		p.line(console.Plural(s.Other, "other object is no pod and makes none.", "other objects are no pods and make none."))
	}
	if text := notKnown(s); text != "" {
		p.line(p.Paint(text, console.Yellow) + ": whether they make pods (--template KIND.GROUP=PATH says where their pods' template is).")
	}
	for _, sentence := range input.LeftOutInWords(r.LeftOut) {
		p.line(console.Visible("Left out: " + sentence))
	}
	if s.Errors > 0 {
		p.line(p.Paint(console.Plural(s.Errors, "error in the input", "errors in the input"), console.Red) + ": what could be read was reviewed.")
	}
}

// notKnown says of which kinds nothing was judged.
func notKnown(s review.Summary) string {
	if len(s.NotKnown) == 0 {
		return ""
	}
	return "not known: " + console.OneLine(s.NotKnown.String())
}

// counts of what there is. A denied result may have warnings, too, and one that is warned about changes: it counts in each.
func (p *textPage) counts(r *review.Report) string {
	s := r.Summary
	untouched := "clean"
	if s.NoPolicies {
		untouched = "judged by none"
	}
	var parts []string
	for _, c := range []struct {
		n           int
		word, color string
	}{{s.Denied, "denied", console.Red}, {s.Warned, "warned", console.Yellow}, {s.Pending, "would be pending", console.Yellow}, {s.Changed, "changed", console.Cyan}, {cleanOnes(r), untouched, console.Green}} {
		if c.n > 0 {
			parts = append(parts, p.Paint(fmt.Sprintf("%d %s", c.n, c.word), c.color))
		}
	}
	if len(parts) == 0 {
		return "nothing that is a pod or makes one."
	}
	return strings.Join(parts, ", ") + "."
}

func cleanOnes(r *review.Report) int {
	n := 0
	for i := range r.Results {
		if outcomeOf(&r.Results[i]) == clean {
			n++
		}
	}
	return n
}

// whereAll is where all that was reviewed has been read.
func whereAll(s *review.Summary) string {
	if s.Cluster {
		return "the cluster"
	}
	return console.Plural(s.Files, "file", "files")
}
