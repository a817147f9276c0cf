package diff

import (
	"fmt"
	"io"
	"strings"

	"github.com/podgrace/podgrace/cli/delta"
	"github.com/podgrace/podgrace/internal/console"
)

// How much text shows where not all is wanted: it is to fit a screen.
const (
	maxGroups  = 8
	maxRunning = 3
	maxLines   = 6
	maxNames   = 5
	maxUnknown = 4
	maxErrors  = 5
)

// margin of text: what its tags need, and a blank.
const margin = len("FORBIDDEN ")

// writeText prints for a person: a block for all workloads that change alike, the most urgent last, next to the summary.
func writeText(w io.Writer, d *Diff, o Options) error {
	p := &textPage{Page: console.New(o.Style, margin), all: o.All}
	p.running(d)
	p.groups(d)
	p.thresholds(d)
	errors, more := p.some(len(d.Errors), maxErrors)
	for _, e := range d.Errors[:errors] {
		p.Marked(console.Red, "ERROR", where(e.File, e.Line)+": "+message(e.Message))
	}
	if more > 0 {
		p.Row("", console.Plural(more, "more error", "more errors")+" (--all shows them)")
	}
	if len(d.Errors) > 0 {
		p.Gap()
	}
	p.summary(d)
	_, err := io.WriteString(w, p.String())
	return err
}

type textPage struct {
	*console.Page
	all bool
}

// some says how many of n are shown, and how many are not.
func (p *textPage) some(n, most int) (show, more int) {
	if p.all || n <= most {
		return n, 0
	}
	return most, n - most
}

func (p *textPage) running(d *Diff) {
	all := runningGroups(d.Running)
	show, more := p.some(len(all), maxRunning)
	if more > 0 {
		pods := 0
		for _, g := range all[:more] {
			pods += g.pods
		}
		p.Row("...", fmt.Sprintf("%s that run and differ in other ways (--all shows them)", console.Plural(pods, "pod", "pods")))
		p.Gap()
	}
	for _, g := range all[len(all)-show:] {
		p.Marked(console.Yellow, "RUNNING", g.subject()+" would be created otherwise today")
		p.lines(g.lines())
		p.Gap()
	}
}

func (p *textPage) groups(d *Diff) {
	all := groups(d.Workloads)
	show, more := p.some(len(all), maxGroups)
	if more > 0 {
		workloads := 0
		for _, g := range all[:more] {
			workloads += len(g.workloads)
		}
		p.Row("...", fmt.Sprintf("%s that change in %s (--all shows them)", console.Plural(workloads, "other", "others"), console.Plural(more, "other way", "other ways")))
		p.Gap()
	}
	for _, g := range all[len(all)-show:] {
		p.group(g)
		p.Gap()
	}
}

// thresholds that nodes get, those that are met now last.
func (p *textPage) thresholds(d *Diff) {
	for _, met := range []bool{false, true} {
		for i := range d.Thresholds {
			t := &d.Thresholds[i]
			if names, _ := p.some(len(t.Nodes), maxNames); met && names > 0 {
				p.Marked(console.Red, "EVICTS", "NodePolicy "+t.NodePolicy+": "+t.text(names))
			} else if !met && len(t.Nodes) == 0 {
				p.Marked(console.Bold, "NODES", "NodePolicy "+t.NodePolicy+": "+t.text(0))
			}
		}
	}
	if len(d.Thresholds) > 0 {
		p.Gap()
	}
}

func (p *textPage) group(g *group) {
	tag, color := tagOf(g.kind())
	if len(g.workloads) == 1 {
		w := g.workloads[0]
		p.Marked(color, tag, g.subject()+" ("+where(w.Source.File, w.Source.Line)+")")
	} else {
		names, _ := p.some(len(g.workloads), maxNames)
		p.Marked(color, tag, g.subject()+": "+g.names(names))
	}
	p.lines(lines(g.changes, len(g.workloads) == 1))
	for _, what := range g.workloads[0].Unknown {
		if len(g.workloads) == 1 {
			p.Row("", "not known: "+delta.Shown(what))
		}
	}
}

// tagOf is the word that a block begins with.
func tagOf(k Kind) (tag, color string) {
	switch {
	case k == Refused:
		return "REFUSED", console.Red
	case k.Denies():
		return "FORBIDDEN", console.Red
	case k == Admitted:
		return "ADMITTED", console.Green
	case k == Warned, k == ForceDeleteWarned, k == EvictionWarned, k == DeleteWarned:
		return "WARNED", console.Yellow
	case k == ForceDeleteAllowed, k == EvictionAllowed, k == DeleteAllowed:
		return "ALLOWED", console.Green
	case k == EvictionRaised:
		return "RAISED", console.Bold
	case k == Unwarned:
		return "UNWARNED", console.Green
	case k == Changed:
		return "CHANGED", console.Bold
	}
	return "REWORDED", console.Bold
}

func (p *textPage) lines(all []delta.Line) {
	show, more := p.some(len(all), maxLines)
	delta.Write(p.Page, all[:show])
	if more > 0 {
		p.Row("", console.Plural(more, "more change", "more changes")+" (--all shows them)")
	}
}

// noPolicies says why nothing changes.
const noPolicies = "Neither side has a PodPolicy: there is nothing to compare."

// summary is what it comes to, in a few lines.
func (p *textPage) summary(d *Diff) {
	s := &d.Summary
	p.Marked(console.Bold, "", s.judged()+": "+s.outcome())
	for _, k := range kinds {
		if n := s.Kinds[k.kind]; n > 0 {
			_, color := tagOf(k.kind)
			p.Marked(color, fmt.Sprintf("%*d", margin-2, n), k.says)
		}
	}
	if s.Evicting > 0 {
		p.Marked(console.Red, fmt.Sprintf("%*d", margin-2, s.Evicting), console.Noun(s.Evicting, "new eviction threshold is", "new eviction thresholds are")+" met by nodes now")
	}
	if s.NoPolicies && s.Thresholds == 0 {
		p.Marked(console.Yellow, "", noPolicies)
	}
	if s.RunningDifferent > 0 {
		p.Marked(console.Yellow, fmt.Sprintf("%*d", margin-2, s.RunningDifferent), "running "+console.Noun(s.RunningDifferent, "pod", "pods")+" would be created otherwise today: a policy reaches new pods only")
	}
	if text := unknownText(s.Unknown, p.all); text != "" {
		p.Row("", "Not known, and judged on the safe side: "+text+".")
	}
	if s.Other > 0 {
		p.Row("", console.Plural(s.Other, "other object is no pod and makes none, or is made by one of these.", "other objects are no pods and make none, or are made by these."))
	}
	if len(s.NotKnown) > 0 {
		p.Marked(console.Yellow, "", "not known: "+delta.Shown(s.NotKnown.String())+": whether they make pods (--template KIND.GROUP=PATH says where their pods' template is)")
	}
	if s.Errors > 0 {
		p.Marked(console.Red, fmt.Sprintf("%*d", margin-2, s.Errors), console.Noun(s.Errors, "error", "errors")+" in the input: what could be read was compared")
	}
}

// judged is such as "40 workloads and 12 running pods in 3 files".
func (s *Summary) judged() string {
	var parts []string
	if s.Workloads > 0 || s.Running == 0 {
		parts = append(parts, console.Plural(s.Workloads, "workload", "workloads"))
	}
	if s.Running > 0 {
		parts = append(parts, console.Plural(s.Running, "running pod", "running pods"))
	}
	text := strings.Join(parts, " and ")
	if s.Files > 0 {
		text += " in " + console.Plural(s.Files, "file", "files")
	}
	return text
}

func (s *Summary) outcome() string {
	switch {
	case s.Affected == 0 && s.Thresholds > 0:
		return "the change of policies changes none of them"
	case s.Affected == 0:
		return "the change of policies changes nothing"
	}
	return fmt.Sprintf("the change of policies affects %d of them", s.Affected)
}

// unknownText is what was not known, and for how many.
func unknownText(all []Unknown, whole bool) string {
	var parts []string
	for i, u := range all {
		if i == maxUnknown && !whole {
			parts = append(parts, fmt.Sprintf("%d more", len(all)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s (%d)", delta.Shown(u.What), u.Count))
	}
	return strings.Join(parts, ", ")
}
