package report

import (
	"cmp"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/cli/delta"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
)

// How much compact text shows where not all is wanted: it is to fit a screen. Refusals and warnings are always there, since each is about
// something else; of the objects that share one, the first.
const (
	maxGroups = 8
	maxNames  = 5
	maxErrors = 10
)

// group is results that are told together: all that are refused, warned about, unknown or changed alike. A result may be in several, as it
// is in the counts.
type group struct {
	outcome outcome
	// text is what is said of each; facts are what is not known of them, which one remedy is for.
	text    string
	facts   []string
	changes []delta.Line
	results []*review.Result
}

// groups in the order of text: the most urgent last, next to the summary, and among those the largest.
func groups(r *review.Report, all bool) []*group {
	var list []*group
	index := map[string]*group{}
	type fact struct {
		of   *group
		what string
	}
	facts := map[fact]bool{}
	add := func(g group, r *review.Result, likeness string) *group {
		key := strings.Join([]string{g.outcome.String(), r.Operation, r.Subresource, r.User, likeness}, "\x00")
		there := index[key]
		if there == nil {
			there = &g
			index[key], list = there, append(list, there)
		}
		if there.text != g.text { // the same but for the names
			there.text = likeness
		}
		if n := len(there.results); n == 0 || there.results[n-1] != r { // two things of one result come one after the other
			there.results = append(there.results, r)
		}
		return there
	}
	for i := range r.Results {
		result := &r.Results[i]
		for _, w := range warnings(result) {
			add(group{outcome: warned, text: w}, result, anonymous(w, result))
		}
		for _, u := range result.Unknown {
			g := add(group{outcome: unknown}, result, review.Remedy(u))
			if f := (fact{g, u}); !facts[f] {
				g.facts, facts[f] = append(g.facts, u), true
			}
		}
		switch {
		case result.Decision == review.Denied: // nothing will have what is changed in it
			add(group{outcome: denied, text: refusal(result)}, result, anonymous(refusal(result), result))
		case len(result.Patch) > 0:
			fields := fieldsOf(result)
			add(group{outcome: changed, changes: delta.Lines(fields)}, result, delta.Likeness(fields)+strings.Join(result.Policies, ","))
		case all && outcomeOf(result) == clean:
			add(group{outcome: clean}, result, "")
		}
	}
	slices.SortStableFunc(list, func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.outcome, b.outcome), cmp.Compare(len(a.results), len(b.results)))
	})
	return list
}

// fieldsOf are the fields of the pod that change; of what is no pod, an eviction, those of the patch.
func fieldsOf(r *review.Result) []delta.Field {
	if r.Before != nil && r.After != nil {
		return delta.Fields(r.Before, r.After)
	}
	before, after := delta.OfPatch(r.Patch)
	return delta.FieldsOfTrees(before, after)
}

// word is what may be a name within a sentence.
var word = regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9.-]*[A-Za-z0-9]|[A-Za-z0-9]`)

// anonymous is a text without the names of the object that it is about: what is left is alike where the same is said of many.
func anonymous(text string, r *review.Result) string {
	return word.ReplaceAllStringFunc(text, func(w string) string {
		if w == r.Resource.Namespace || w == r.Resource.Name {
			return "..."
		}
		return w
	})
}

// writeCompact prints for a person in few lines: results that are alike together, and of each change the field and its values.
func writeCompact(w io.Writer, r *review.Report, o Options) error {
	p := &compactPage{Page: console.New(o.Style, tagWidth), all: o.All}
	list := groups(r, o.All)
	for _, g := range p.changed(list) {
		p.group(g)
		p.Gap()
	}
	p.errors(r)
	if _, err := io.WriteString(w, p.String()); err != nil {
		return err
	}
	text := &textPage{Options: o, out: w}
	text.summary(r)
	if slices.ContainsFunc(list, func(g *group) bool { return g.outcome == changed }) {
		text.line("--details shows each with the reasons of its changes, -o table a line for each.", console.Faint)
	}
	return text.err
}

type compactPage struct {
	*console.Page
	all bool
}

// some says how many of n are shown, and how many are not.
func (p *compactPage) some(n, most int) (show, more int) {
	if p.all || n <= most {
		return n, 0
	}
	return most, n - most
}

// changed returns the groups that are shown: of the ways to change, which come first, those of most objects. The others are counted.
func (p *compactPage) changed(list []*group) []*group {
	ways := 0
	for ways < len(list) && list[ways].outcome == changed {
		ways++
	}
	show, more := p.some(ways, maxGroups)
	if more == 0 {
		return list
	}
	objects := 0
	for _, g := range list[:more] {
		objects += len(g.results)
	}
	p.Row("...", console.Plural(objects, "other changes", "others change")+" in "+console.Plural(more, "other way", "other ways")+" (--all shows them)")
	p.Gap()
	return list[ways-show:]
}

func (p *compactPage) group(g *group) {
	tag := tags[g.outcome]
	if len(g.results) == 1 {
		r := g.results[0]
		p.Marked(tag.color, tag.word, delta.Shown(subject(r)+" ("+where(r.Source.File, r.Source.Line)+")"))
	} else {
		p.Marked(tag.color, tag.word, p.subject(g))
	}
	if g.text != "" {
		p.Row("", console.Clip(delta.Shown(g.text), maxMessage))
	}
	if len(g.facts) > 0 {
		p.facts(g)
	}
	if len(g.results) > 1 && (g.outcome == denied || g.outcome == warned) {
		p.places(g)
	}
	delta.Write(p.Page, g.changes)
	if policies := g.results[0].Policies; len(g.changes) > 0 && len(policies) > 0 {
		p.Row("", "by PodPolicy "+delta.Shown(strings.Join(policies, ", ")))
	}
}

// subject of more than one. Where they are is said of those that somebody has to mend.
func (p *compactPage) subject(g *group) string {
	resources := make([]manifest.Resource, len(g.results))
	for i, r := range g.results {
		resources[i] = r.Resource
	}
	r := g.results[0]
	text := asked(r, delta.Subject(resources))
	if g.outcome != denied && g.outcome != warned {
		show, _ := p.some(len(resources), maxNames)
		text += ": " + delta.Names(resources, show)
	}
	return delta.Shown(text)
}

func (p *compactPage) places(g *group) {
	show, more := p.some(len(g.results), maxNames)
	rows := make([][]string, show)
	for i, r := range g.results[:show] {
		rows[i] = []string{delta.Shown(r.Resource.String()), delta.Shown(where(r.Source.File, r.Source.Line))}
	}
	p.Columns("", "", rows)
	if more > 0 {
		p.Row("", "and "+console.Plural(more, "more", "more")+" (--all shows them)")
	}
}

// facts that are not known, and what to give.
func (p *compactPage) facts(g *group) {
	text := console.Some(g.facts, maxNames, ", ")
	if p.all {
		text = strings.Join(g.facts, ", ")
	}
	p.Row("", "not known: "+delta.Shown(text))
	if give := review.Remedy(g.facts[0]); give != "" {
		p.Row("", "to be given with --state: "+give)
	}
}

func (p *compactPage) errors(r *review.Report) {
	show, more := p.some(len(r.Errors), maxErrors)
	for _, e := range r.Errors[:show] {
		p.Marked(console.Red, "ERROR", delta.Shown(where(e.File, e.Line)+": "+console.Clip(console.OneLine(e.Message), maxMessage)))
	}
	if more > 0 {
		p.Row("", console.Plural(more, "more error", "more errors")+" (--all shows them)")
	}
	if len(r.Errors) > 0 {
		p.Gap()
	}
}
