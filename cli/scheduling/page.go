package scheduling

import (
	"cmp"
	_ "embed" // the parts of the page
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/cli/webpage"
	"github.com/podgrace/podgrace/internal/console"
)

// How much the page shows of what there is; it says how much more there is, and JSON has all. With these a pod takes some tens of kilobytes however large its cluster is.
const (
	pagePods       = 100
	pageOpen       = 5 // of several pods, those that are open at first
	pageGroups     = 12
	pageNames      = 40
	pageDomains    = 12 // that are drawn one by one; with more, those with the same count are drawn together
	pageRows       = 8  // of a zone
	pageZones      = 24
	pageVictims    = 20
	pageCandidates = 10 // beside the pick and the runner-up
	pageFields     = 20
)

// Made is when the page was made, and by which version; the zero value is not told.
type Made struct {
	Time    time.Time
	Version string
}

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string

	page = webpage.New(pageHTML, pageCSS, "")
)

// HTML writes the report as one page that needs no other file, loads none and has no script.
func HTML(w io.Writer, r *Report, made Made) error {
	pods := make([]pagePod, 0, len(r.Previews))
	for i := range r.Previews {
		pods = append(pods, podOf(&r.Previews[i]))
	}
	slices.SortStableFunc(pods, func(a, b pagePod) int { return cmp.Compare(b.gravity, a.gravity) })
	body := pageBody{Single: len(pods) == 1, Pods: pods[:min(pagePods, len(pods))], More: more(len(pods)-pagePods, "pod")}
	for i := range body.Pods {
		body.Pods[i].Open = i < pageOpen
	}
	head := webpage.Head{Brand: "Podgrace preview", Verdict: verdict(pods), Scope: webpage.Legible(r.By()), Made: webpage.MadeOn(made.Time, made.Version)}
	if len(pods) > 0 {
		head.Tone = pods[0].Tone
	}
	head.Title = head.Verdict + " · " + head.Brand
	if err := page.Write(w, head, body); err != nil {
		return fmt.Errorf("print the preview: %w", err)
	}
	return nil
}

// pageBody is what the template is filled with. All texts in it are legible.
type pageBody struct {
	// Single: there is one pod, and nothing to open or to close.
	Single bool
	Pods   []pagePod
	More   string
}

type pagePod struct {
	Label, What, Where string
	Name               string // with the kind
	// Badge is the outcome, Tone the class of its colour, Says the sentence.
	Badge, Tone, Says string
	Open              bool
	Policies          []string
	Fields            []pageField
	MoreFields        string
	Groups            []pageGroup
	MoreGroups        string
	Spread            []pageSpread
	Contradictions    []pageContradiction
	Candidates        []pageCandidate
	OtherCandidates   []string
	MoreCandidates    string
	Placements        []pagePlacement
	Notes             []string

	gravity   int
	one, many string // the outcome of one such pod, and of several, after their name
}

type pageField struct{ Name, Why string }

// pageGroup is nodes that are alike.
type pageGroup struct {
	Fits        bool
	Tone, Badge string
	Names, Says string
	MayPreempt  bool
	Open        bool
	Scores      []pageScore
	Total       int64
	All         []string // the names, where Names does not have them
	More        string
}

type pageScore struct {
	Plugin                string
	Score, Weight, Points int64
}

type pageContradiction struct {
	Says string
	Ways []pageWay
	// Several constraints contradict each other.
	Several bool
}

type pageWay struct{ Change, Key, Nodes string }

type pageCandidate struct {
	Label, Says string
	Victims     []pageVictim
	More        string
	Guards      []string
}

type pageVictim struct{ Name, Priority, Grace, Budget, Remark string }

type pagePlacement struct {
	Label, Says, Stuck string
	Tone               string
	// Removed pods, Ranked by what the columns say, and what is Then, of a scale down.
	Removed           []pageRemoved
	Ranked            bool
	MoreRemoved, Then string
	Spread            []pageSpread
	Nodes             string
	Contradictions    []pageContradiction
}

type pageRemoved struct{ Name, Node, Cost, There, Remark string }

// outcomes are how each of them is shown: the gravest has the largest gravity. Between those that are gated and those that fit nowhere are pods that fit, and of whose replicas some don't.
var outcomes = map[Outcome]struct {
	badge, tone, one, many string
	gravity                int
}{
	Fits:     {"Fits", "clean", "fits", "fit", 0},
	Preempts: {"Preempts", "warned", "fits only where others go", "fit only where others go", 1},
	NotKnown: {"Not known", "unknown", "can't be judged here", "can't be judged here", 2},
	Gated:    {"Gated", "warned", "is gated", "are gated", 3},
	Nowhere:  {"Nowhere", "denied", "fits nowhere", "fit nowhere", 5},
	Refused:  {"Refused", "denied", "is refused", "are refused", 6},
}

// verdict is the page in one line.
func verdict(pods []pagePod) string {
	switch len(pods) {
	case 0:
		return "No pod was judged"
	case 1:
		return pods[0].Name + " " + pods[0].one
	}
	worst, alike := pods[0], 0
	for _, p := range pods {
		if p.gravity == worst.gravity {
			alike++
		}
	}
	if alike == len(pods) {
		return fmt.Sprintf("All %s %s", webpage.Many(alike, "pod"), console.Noun(alike, worst.one, worst.many))
	}
	return fmt.Sprintf("%s of %s %s", webpage.Number(alike), webpage.Many(len(pods), "pod"), console.Noun(alike, worst.one, worst.many))
}

func podOf(p *Preview) pagePod {
	o := outcomes[p.Outcome]
	label, what := p.subject()
	_, says := p.headline()
	v := pagePod{
		Label: label, What: webpage.Legible(what), Name: webpage.Legible(p.Resource.String()), Badge: o.badge, Tone: o.tone, Says: webpage.Legible(says), Policies: legible(p.Policies),
		gravity: o.gravity, one: o.one, many: o.many,
	}
	if p.Source.File != "" {
		v.Where = webpage.Legible(p.where())
	}
	fields := slices.Sorted(maps.Keys(p.Changed))
	for _, name := range fields[:min(pageFields, len(fields))] {
		v.Fields = append(v.Fields, pageField{webpage.Legible(name), webpage.Legible(p.Changed[name])})
	}
	v.MoreFields = more(len(fields)-pageFields, "field")
	for i, g := range p.Groups[:min(pageGroups, len(p.Groups))] {
		v.Groups = append(v.Groups, groupOf(g, i == 0))
	}
	v.MoreGroups = more(len(p.Groups)-pageGroups, "kind of node", "kinds of nodes")
	for i := range p.Spread {
		v.Spread = append(v.Spread, drawn(&p.Spread[i], p.Zones, true))
	}
	v.Contradictions = p.contradictionsOf(p.Contradictions)
	v.preemption(p.Preemption)
	v.rollout(p)
	v.Notes = legible(p.Notes)
	return v
}

// more says how many of something are not shown.
func more(n int, what string, plural ...string) string {
	switch {
	case n <= 0:
		return ""
	case n > 1 && len(plural) > 0:
		return fmt.Sprintf("and %s more %s", webpage.Number(n), plural[0])
	case n > 1:
		return fmt.Sprintf("and %s more %ss", webpage.Number(n), what)
	}
	return "and 1 more " + what
}

func legible(texts []string) []string {
	all := make([]string, 0, len(texts))
	for _, text := range texts {
		all = append(all, webpage.Legible(text))
	}
	return all
}

func groupOf(g Group, first bool) pageGroup {
	v := pageGroup{Fits: g.Fits, Tone: "denied", Badge: "No", Names: webpage.Legible(alike(g.Nodes)), Says: webpage.Legible(g.says()), MayPreempt: g.MayPreempt, Total: g.Total}
	if g.Fits {
		v.Tone, v.Badge, v.Says, v.Open = "clean", "Fits", fmt.Sprintf("score %s", webpage.Number(int(g.Total))), first
	}
	for _, s := range g.Scores {
		v.Scores = append(v.Scores, pageScore{webpage.Legible(s.Plugin), s.Score, s.Weight, s.Score * s.Weight})
	}
	if len(g.Nodes) > maxNames {
		v.All, v.More = legible(g.Nodes[:min(pageNames, len(g.Nodes))]), more(len(g.Nodes)-pageNames, "node")
	}
	return v
}

func (p *Preview) contradictionsOf(all []Contradiction) []pageContradiction {
	shown := make([]pageContradiction, 0, len(all))
	for i := range all {
		shown = append(shown, p.contradictionOf(&all[i]))
	}
	return shown
}

func (p *Preview) contradictionOf(c *Contradiction) pageContradiction {
	v := pageContradiction{Says: webpage.Legible(p.contradicts(c)), Several: len(c.Constraints) > 1}
	for _, w := range c.Ways {
		v.Ways = append(v.Ways, pageWay{webpage.Legible(w.Changes()), webpage.Legible(p.Spread[w.Constraint].TopologyKey), webpage.Legible(alike(w.Nodes))})
	}
	return v
}

func (v *pagePod) preemption(p *Preemption) {
	if p == nil {
		return
	}
	for i, c := range p.Candidates {
		switch {
		case i < maxCandidates:
			shown := pageCandidate{Label: "The pick", Says: webpage.Legible(p.says(i)), More: more(len(c.Victims)-pageVictims, "pod")}
			if i > 0 {
				shown.Label = "Next best"
			}
			for _, victim := range c.Victims[:min(pageVictims, len(c.Victims))] {
				shown.Victims = append(shown.Victims, pageVictim{
					webpage.Legible(victim.Namespace + "/" + victim.Name), fmt.Sprint(victim.Priority), fmt.Sprintf("%d s", victim.GraceSeconds), victim.left(), victim.remark(),
				})
				if victim.Guard != "" {
					shown.Guards = append(shown.Guards, webpage.Legible(victim.guarded()))
				}
			}
			v.Candidates = append(v.Candidates, shown)
		case i < maxCandidates+pageCandidates:
			v.OtherCandidates = append(v.OtherCandidates, webpage.Legible(fmt.Sprintf("%s: %s, within %d s", c.Node, console.Plural(len(c.Victims), "pod", "pods"), c.GoneWithin)))
		}
	}
	v.MoreCandidates = more(len(p.Candidates)-maxCandidates-pageCandidates, "node")
}

func (v *pagePod) rollout(p *Preview) {
	r := p.Rollout
	if r == nil {
		return
	}
	if r.Down != nil {
		v.Placements = append(v.Placements, p.scaleDownOf(r.Down))
	}
	v.Placements = append(v.Placements, p.placementOf("Rollout", r.first(), &r.First))
	pending := r.First.Pending > 0
	if r.Second != nil {
		second := p.placementOf("Update", r.second(), r.Second)
		if r.Left > 0 {
			second.Stuck = r.stuck()
		}
		v.Placements = append(v.Placements, second)
		pending = pending || r.Second.Pending > 0
	}
	if pending && v.gravity == outcomes[Fits].gravity {
		v.Badge, v.Tone, v.gravity = "Pending", "denied", outcomes[Gated].gravity+1
		v.one, v.many = "fits, and some of its replicas stay pending", "fit, and some of their replicas stay pending"
		v.Says += "; some of its replicas stay pending"
	}
}

// scaleDownOf is where the pods are that stay, below those that go.
func (p *Preview) scaleDownOf(d *ScaleDown) pagePlacement {
	v := p.placementOf("Scale down", "", &d.Left)
	v.Ranked = p.Resource.Kind != statefulSet
	v.Says, v.Then = webpage.Legible(d.says(p.Resource.Kind)), webpage.Legible("then "+d.Left.says())
	for _, r := range d.Removed[:min(pageVictims, len(d.Removed))] {
		v.Removed = append(v.Removed, pageRemoved{webpage.Legible(r.Name), webpage.Legible(r.Node), fmt.Sprint(r.DeletionCost), fmt.Sprint(r.OnNode), r.remark()})
	}
	v.MoreRemoved = more(len(d.Removed)-pageVictims, "pod")
	return v
}

func (p *Preview) placementOf(label, how string, at *Placement) pagePlacement {
	v := pagePlacement{Label: label, Says: webpage.Legible(how + at.says()), Tone: "clean", Contradictions: p.contradictionsOf(at.Contradictions)}
	if at.Pending > 0 {
		v.Tone = "denied"
	}
	for i := range at.Spread {
		v.Spread = append(v.Spread, drawn(&at.Spread[i], p.Zones, false))
	}
	if len(at.Spread) == 0 {
		v.Nodes = webpage.Legible(at.on(pageNames))
	}
	return v
}

// pageSpread is a constraint as it is drawn: a bar for each domain, up to the limit.
type pageSpread struct {
	Key, Rule      string
	Minimum, Limit int
	// After: with the pod there.
	After bool
	Zones []pageZone
	More  string
}

// pageZone is the bars of a zone, or of all domains where Name is empty.
type pageZone struct {
	Name, Says string
	Rows       []pageRow
	More       string
}

// pageRow is the bar of domains that have the same count. Have, With, Minimum and Limit are in thousandths of its width; Limit is 0 where it is beyond the bar.
type pageRow struct {
	Names                string
	Count, Skew          int
	Verdict, Tone        string
	Have, With           int
	Minimum, Limit       int
	HasMinimum, HasLimit bool
}

// drawn is a constraint as it is with the pod, or as it is.
func drawn(s *Spread, zones []Zone, after bool) pageSpread {
	v := pageSpread{
		Key: webpage.Legible(s.TopologyKey), Rule: webpage.Legible(fmt.Sprintf("maxSkew %d, %s", s.MaxSkew, s.WhenUnsatisfiable) + remark(s)), After: after,
		Minimum: s.Minimum, Limit: s.Minimum + int(s.MaxSkew),
	}
	d := newDrawing(s, after)
	parts := d.byZone(zones)
	for _, part := range parts[:min(pageZones, len(parts))] {
		v.Zones = append(v.Zones, d.zone(part))
	}
	v.More = more(len(parts)-pageZones, "zone")
	return v
}

// drawing is the measures of a constraint's bars.
type drawing struct {
	*Spread
	after bool
	self  int // 1: the pod is drawn as well
	scale int // pods that are a whole bar
	alone bool
}

func newDrawing(s *Spread, after bool) *drawing {
	d := &drawing{Spread: s, after: after, alone: len(s.Domains) <= pageDomains}
	if after && s.SelfMatch {
		d.self = 1
	}
	most := 1
	for _, domain := range s.Domains {
		most = max(most, domain.Count+d.self)
	}
	d.scale = max(most, min(d.limit(), 2*most)) // a limit far away would leave nothing of the bars
	return d
}

func (d *drawing) limit() int { return d.Minimum + int(d.MaxSkew) }

// part is the domains of a zone.
type part struct {
	zone    string
	domains []Domain
}

// byZone are hosts by their zones, and those without one last; of another key, or without zones, all domains.
func (d *drawing) byZone(zones []Zone) []part {
	if d.TopologyKey != corev1.LabelHostname || len(zones) == 0 {
		return []part{{domains: d.Domains}}
	}
	of := map[string]int{}
	parts := make([]part, 0, len(zones)+1)
	for i, z := range zones {
		parts = append(parts, part{zone: z.Name})
		for _, host := range z.Hostnames {
			of[host] = i
		}
	}
	parts = append(parts, part{zone: noZone})
	for _, domain := range d.Domains {
		i, ok := of[domain.Value]
		if !ok {
			i = len(zones)
		}
		parts[i].domains = append(parts[i].domains, domain)
	}
	return slices.DeleteFunc(parts, func(p part) bool { return len(p.domains) == 0 })
}

const noZone = "no zone"

func (d *drawing) zone(p part) pageZone {
	v := pageZone{Name: webpage.Legible(p.zone)}
	pods := 0
	for _, domain := range p.domains {
		pods += domain.Count
	}
	v.Says = webpage.Many(len(p.domains), "host") + ", " + webpage.Many(pods, "pod")
	rows := d.alike(p.domains)
	most := pageRows
	if d.alone {
		most = pageDomains
	}
	for _, r := range rows[:min(most, len(rows))] {
		v.Rows = append(v.Rows, d.row(r))
	}
	v.More = more(len(rows)-most, "count of pods", "counts of pods")
	return v
}

// alike are domains one by one where there are few, and else those with the same count together, the smallest first.
func (d *drawing) alike(domains []Domain) [][]Domain {
	var rows [][]Domain
	if d.alone {
		for _, domain := range domains {
			rows = append(rows, []Domain{domain})
		}
		return rows
	}
	of := map[int]int{}
	for _, domain := range domains {
		i, ok := of[domain.Count]
		if !ok {
			i = len(rows)
			of[domain.Count] = i
			rows = append(rows, nil)
		}
		rows[i] = append(rows[i], domain)
	}
	slices.SortFunc(rows, func(a, b []Domain) int { return cmp.Compare(a[0].Count, b[0].Count) })
	return rows
}

func (d *drawing) row(domains []Domain) pageRow {
	names := make([]string, 0, len(domains))
	for _, domain := range domains {
		names = append(names, domain.Value)
	}
	first := domains[0]
	r := pageRow{Names: webpage.Legible(cmp.Or(alike(names), `""`)), Count: first.Count, Skew: first.SkewAfter, Tone: "clean"}
	if !d.after {
		r.Skew = first.Count - d.Minimum
	}
	if r.Skew > int(d.MaxSkew) {
		r.Tone, r.Verdict = "warned", "more than wished"
		if d.WhenUnsatisfiable == corev1.DoNotSchedule {
			r.Tone, r.Verdict = "denied", "too much"
		}
	}
	r.Have, r.With = d.permille(first.Count), d.permille(d.self)
	r.Minimum, r.Limit = d.permille(d.Minimum), d.permille(d.limit())
	r.HasMinimum, r.HasLimit = d.Minimum > 0, d.limit() <= d.scale
	return r
}

// permille is a number of pods as a part of a bar, which leaves some room behind the scale's end, so that a line there is seen.
func (d *drawing) permille(pods int) int { return pods * 970 / d.scale }
