package report

import (
	"cmp"
	_ "embed" // the parts of the page
	"fmt"
	"io"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/webpage"
	"github.com/podgrace/podgrace/internal/console"
)

// decision is a group of results on the page, and the button that shows them. One result may be in several.
type decision struct {
	Name, Title string
	Count       int
	in          func(*review.Result) bool
}

// decisions of the page, the gravest first. The place in this list is the bit in pageRow.In.
func decisions() []decision {
	return []decision{
		{Name: denied.String(), Title: "Denied", in: func(r *review.Result) bool { return r.Decision == review.Denied }},
		{Name: warned.String(), Title: "Warned", in: func(r *review.Result) bool { return r.Warned() }},
		{Name: unknown.String(), Title: "Unknown", in: func(r *review.Result) bool { return len(r.Unknown) > 0 }},
		{Name: changed.String(), Title: "Changed", in: func(r *review.Result) bool { return len(r.Patch) > 0 }},
		{Name: clean.String(), Title: "Clean", in: func(r *review.Result) bool {
			return !r.Finding() && len(r.Unknown) == 0 && len(r.Patch) == 0
		}},
	}
}

// htmlPage is what the template is filled with.
type htmlPage struct {
	Summary   review.Summary
	Decisions []decision
	Errors    []pageError
	Remarks   []string
	Data      pageData
}

// pageError is one thing that could not be read.
type pageError struct{ Where, Message string }

// pageData is what the page's script reads. Numbers in rows are places in Text.
type pageData struct {
	Text    []string  `json:"text"`
	Results []pageRow `json:"results"`
}

// pageRow is a Result.
type pageRow struct {
	// ID is the result's place in the report, from 1.
	ID int `json:"id"`
	// In has a bit for each of the decisions that it is in.
	In       uint   `json:"in"`
	API      int    `json:"api"`
	Kind     int    `json:"kind"`
	NS       int    `json:"ns"`
	Name     string `json:"name"`
	File     int    `json:"file"`
	Line     int    `json:"line,omitempty"`
	Op       int    `json:"op"`
	User     int    `json:"user,omitempty"`
	Via      int    `json:"via,omitempty"`
	Policies []int  `json:"policies,omitempty"`
	Reason   int    `json:"reason,omitempty"`
	// Brief is what the row says while it is closed.
	Brief    int   `json:"brief,omitempty"`
	Message  int   `json:"message,omitempty"`
	Warnings []int `json:"warnings,omitempty"`
	Unknown  []int `json:"unknown,omitempty"`
	// Why has a field, its value and the reason, each.
	Why [][3]int `json:"why,omitempty"`
	// Diff has the lines of a diff of the pod, each after its sign.
	Diff []int `json:"diff,omitempty"`
}

// newPage fills the page; the gravest results come first, those alike in the order of the report.
func newPage(r *review.Report, o Options) (webpage.Head, htmlPage) {
	groups := decisions()
	texts := newTexts()
	rows := make([]pageRow, 0, len(r.Results))
	for i := range r.Results {
		rows = append(rows, texts.row(i+1, &r.Results[i], groups))
	}
	slices.SortStableFunc(rows, func(a, b pageRow) int {
		return cmp.Compare(bits.TrailingZeros(a.In), bits.TrailingZeros(b.In))
	})
	p := htmlPage{Summary: r.Summary, Decisions: groups, Data: pageData{Text: texts.list, Results: rows}}
	for _, remark := range Remarks(r) {
		p.Remarks = append(p.Remarks, webpage.Legible(remark))
	}
	for _, sentence := range input.LeftOutInWords(r.LeftOut) {
		p.Remarks = append(p.Remarks, "left out: "+webpage.Legible(sentence))
	}
	for _, e := range r.Errors {
		p.Errors = append(p.Errors, pageError{where(e.File, e.Line), webpage.Legible(e.Message)})
	}
	line, worst := verdict(groups, len(rows))
	return webpage.Head{Title: line + " · Podgrace review", Brand: "Podgrace review", Verdict: line, Tone: worst, Scope: scope(r), Made: webpage.MadeOn(o.Made, o.Version)}, p
}

// verdict is the report in one line, and the gravest decision in it.
func verdict(groups []decision, all int) (line, worst string) {
	phrases := map[string]string{
		denied.String(): "would be denied", warned.String(): "would be warned about", unknown.String(): "cannot be judged in full", changed.String(): "would be changed",
	}
	for _, d := range groups {
		if phrase, ok := phrases[d.Name]; ok && d.Count > 0 {
			return fmt.Sprintf("%s of %s %s", webpage.Number(d.Count), webpage.Number(all), phrase), d.Name
		}
	}
	return "Nothing to change, warn about or deny", clean.String()
}

// scope says what was reviewed.
func scope(r *review.Report) string {
	s := r.Summary
	text := fmt.Sprintf("%s reviewed from %s", webpage.Many(s.Reviewed, "result"), whereAll(&s))
	if s.Other > 0 {
		text += fmt.Sprintf("; %s that make no pods", webpage.Many(s.Other, "object"))
	}
	if unknown := notKnown(s); unknown != "" {
		text += "; " + unknown
	}
	if s.NoPolicies {
		text += ". " + noPolicies
	}
	if s.NoNodes {
		text = strings.TrimSuffix(text, ".") + ". " + noNodes
	}
	return text
}

// texts numbers strings, each once; the empty one is 0, so that it is omitted from a row.
type texts struct {
	list  []string
	place map[string]int
}

func newTexts() *texts { return &texts{list: []string{""}, place: map[string]int{"": 0}} }

// add gives the place of a text.
func (t *texts) add(text string) int {
	if i, ok := t.place[text]; ok {
		return i
	}
	i := len(t.list)
	t.list, t.place[text] = append(t.list, webpage.Legible(text)), i
	return i
}

func (t *texts) addAll(list []string) []int {
	var places []int
	for _, text := range list {
		places = append(places, t.add(text))
	}
	return places
}

// row of a result; it is counted in the groups that it is in.
func (t *texts) row(id int, r *review.Result, groups []decision) pageRow {
	row := pageRow{
		ID: id, API: t.add(r.Resource.APIVersion), Kind: t.add(r.Resource.Kind), NS: t.add(r.Resource.Namespace),
		Name: console.Visible(r.Resource.Called()), File: t.add(where(r.Source.File, 0)), Line: r.Source.Line,
		Op: t.add(r.Operation), User: t.add(r.User), Via: t.add(r.Via), Policies: t.addAll(r.Policies),
		Reason: t.add(r.Reason), Brief: t.add(brief(r)), Message: t.add(r.Message),
		Warnings: t.addAll(warnings(r)), Unknown: t.addAll(r.Unknown), Why: t.why(r.Changes),
	}
	for i := range groups {
		if groups[i].in(r) {
			groups[i].Count++
			row.In |= 1 << i
		}
	}
	for _, e := range changes(r) {
		if e.sign != '#' { // reasons have a table of their own
			row.Diff = append(row.Diff, t.add(string(e.sign)+e.text))
		}
	}
	return row
}

// why tells of each field that a policy changes its value and the reason, by the fields' names: of one that is changed twice the last.
func (t *texts) why(changes []review.Change) [][3]int {
	last := map[string]review.Change{}
	for _, c := range changes {
		last[c.Name] = c
	}
	var rows [][3]int
	for _, name := range slices.Sorted(maps.Keys(last)) {
		value := last[name].Value
		if utf8.RuneCountInString(value) > maxValue { // the diff has it whole
			value = ""
		}
		rows = append(rows, [3]int{t.add(name), t.add(value), t.add(last[name].Why)})
	}
	return rows
}

// names of the fields that policies change.
func names(changes []review.Change) []string {
	var all []string
	for _, c := range changes {
		all = append(all, c.Name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// brief is the gravest thing that is to be said of a result.
func brief(r *review.Result) string {
	switch {
	case r.Message != "":
		return r.Message
	case r.Warned():
		return warnings(r)[0]
	case len(r.Unknown) > 0:
		return "not known: " + r.Unknown[0]
	case len(r.Changes) > 0:
		return "sets " + strings.Join(names(r.Changes), ", ")
	case len(r.Patch) > 0:
		return webpage.Many(len(r.Patch), "change")
	}
	return ""
}

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string

	page = webpage.New(pageHTML, pageCSS, pageJS)
)

// writeHTML writes the report as one page that needs no other file and loads none. Texts and lines of diffs are written once, however
// many results share them, so that a result takes a few hundred bytes.
//
// The input may be a stranger's: every text goes through html/template, the page's script makes text nodes only, and the
// page's own policy lets nothing else run or load.
func writeHTML(w io.Writer, r *review.Report, o Options) error {
	head, body := newPage(r, o)
	if err := page.Write(w, head, body); err != nil {
		return fmt.Errorf("writing the report as a page: %w", err)
	}
	return nil
}
