package scheduling

import (
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/internal/console"
)

const (
	margin = 12
	// maxGroups, maxDomains, maxNames, maxVictims, maxCandidates and maxRemoved are how many are printed; JSON has all.
	maxGroups     = 8
	maxDomains    = 8
	maxNames      = 3
	maxVictims    = 6
	maxCandidates = 2
	maxRemoved    = 10
)

// Text prints previews for a person.
func Text(w io.Writer, r *Report, style console.Style) error {
	t := &text{console.New(style, margin)}
	for i := range r.Previews {
		if i > 0 {
			t.Gap()
		}
		t.preview(&r.Previews[i])
	}
	if len(r.Previews) > 0 {
		t.Gap()
	}
	t.Row("", r.By())
	if _, err := io.WriteString(w, t.String()); err != nil {
		return fmt.Errorf("print the preview: %w", err)
	}
	return nil
}

type text struct{ *console.Page }

func (t *text) preview(p *Preview) {
	label, what := p.subject()
	if p.Source.File != "" {
		what += " (" + p.where() + ")"
	}
	t.Marked(console.Bold, label, what)
	if len(p.Policies) > 0 {
		t.Marked(console.Bold, "Policies", strings.Join(p.Policies, ", ")+changed(p.Changed))
	}
	color, says := p.headline()
	t.Marked(color, string(p.Outcome), says)
	t.nodes(p.Groups)
	for i := range p.Spread {
		t.spread(p, i)
	}
	t.contradictions(p, p.Contradictions)
	t.preemption(p.Preemption)
	t.rollout(p)
	if len(p.Notes) > 0 {
		t.Gap()
		t.Marked(console.Bold, "Notes", p.Notes...)
	}
}

// subject is whose pod was judged.
func (p *Preview) subject() (label, what string) {
	if p.Resource.Kind == "Pod" {
		return "Pod", p.Resource.Namespace + "/" + p.Resource.Name
	}
	return "Pod of", p.Resource.String()
}

// where it is written.
func (p *Preview) where() string { return fmt.Sprintf("%s:%d", p.Source.File, p.Source.Line) }

// changed is which fields the policies changed.
func changed(why map[string]string) string {
	if len(why) == 0 {
		return ""
	}
	fields := make([]string, 0, len(why))
	for field := range why {
		fields = append(fields, field)
	}
	slices.Sort(fields)
	return "; they set " + strings.Join(fields, ", ")
}

// headline is the answer in a sentence.
func (p *Preview) headline() (color, says string) {
	nodes := console.Plural(p.Nodes, "node", "nodes")
	switch p.Outcome {
	case Fits:
		return console.Green, fmt.Sprintf("on %d of %s", p.Fit, nodes)
	case Preempts:
		return console.Yellow, fmt.Sprintf("none of %s takes it as it is; %s would if others went", nodes, console.Plural(len(p.Preemption.Candidates), "node", "nodes"))
	case Nowhere:
		says = fmt.Sprintf("none of %s takes it, and it stays pending", nodes)
		if p.Preemption != nil && p.Preemption.Refused != "" {
			says += "; it preempts nobody: " + p.Preemption.Refused
		}
		if p.Why != "" {
			says += ": " + p.Why
		}
		return console.Red, says
	case Gated:
		return console.Yellow, "the scheduler does not look at it yet: " + p.Why
	}
	return console.Red, p.Why
}

func (t *text) nodes(groups []Group) {
	if len(groups) == 0 {
		return
	}
	t.Gap()
	var rows [][]string
	for _, g := range groups[:min(maxGroups, len(groups))] {
		rows = append(rows, []string{alike(g.Nodes), g.says()})
	}
	if more := len(groups) - maxGroups; more > 0 {
		rows = append(rows, []string{fmt.Sprintf("and %s more", console.Plural(more, "kind of node", "kinds of nodes"))})
	}
	t.Columns(console.Bold, "Nodes", rows)
}

// alike names nodes of which the same is said.
func alike(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d like it", names[0], len(names)-1)
}

// says is what is said of each of them.
func (g Group) says() string {
	if !g.Fits {
		says := strings.Join(g.Reasons, ", ")
		if g.Plugin != "" {
			says = g.Plugin + ": " + says
		}
		return says
	}
	var scores []string
	for _, s := range g.Scores {
		if s.Score == 0 {
			continue
		}
		says := fmt.Sprintf("%s %d", s.Plugin, s.Score)
		if s.Weight != 1 {
			says += fmt.Sprintf("x%d", s.Weight)
		}
		scores = append(scores, says)
	}
	return fmt.Sprintf("score %d: %s", g.Total, strings.Join(scores, ", "))
}

func (t *text) spread(p *Preview, i int) {
	s := &p.Spread[i]
	t.Gap()
	t.Marked(console.Bold, "Spread", fmt.Sprintf("%s, maxSkew %d, %s", s.TopologyKey, s.MaxSkew, s.WhenUnsatisfiable)+remark(s))
	if len(s.Domains) == 0 {
		return
	}
	rows := [][]string{{"domain", "pods", "skew with it", ""}}
	for _, d := range shown(s) {
		rows = append(rows, []string{d.Value, fmt.Sprint(d.Count), fmt.Sprint(d.SkewAfter), judged(s, d)})
	}
	if more := len(s.Domains) - maxDomains; more > 0 {
		rows = append(rows, []string{fmt.Sprintf("and %d more", more), "", "", ""})
	}
	t.Table("", rows)
}

// remark is what is unusual about a constraint.
func remark(s *Spread) string {
	var says string
	if s.Default {
		says += "; of the scheduler's configuration"
	}
	if len(s.Domains) == 0 {
		says += "; no node counts for it, for want of a key of this or another constraint"
	}
	if !s.SelfMatch {
		says += "; the pod itself does not count"
	}
	if s.MinDomains > 1 {
		says += fmt.Sprintf("; %d domains at least", s.MinDomains)
		if len(s.Domains) < int(s.MinDomains) {
			says += ", so that the minimum is 0"
		}
	}
	return says
}

// shown are the domains that are printed: all, or those with the smallest skew.
func shown(s *Spread) []Domain {
	if len(s.Domains) <= maxDomains {
		return s.Domains
	}
	domains := slices.Clone(s.Domains)
	slices.SortStableFunc(domains, func(a, b Domain) int { return a.SkewAfter - b.SkewAfter })
	return domains[:maxDomains]
}

func judged(s *Spread, d Domain) string {
	if d.SkewAfter <= int(s.MaxSkew) {
		return ""
	}
	if s.WhenUnsatisfiable == corev1.DoNotSchedule {
		return "too much"
	}
	return "more than wished"
}

func (t *text) contradictions(p *Preview, all []Contradiction) {
	for i := range all {
		t.contradiction(p, &all[i])
	}
}

func (t *text) contradiction(p *Preview, c *Contradiction) {
	t.Gap()
	t.Marked(console.Red, "Why", p.contradicts(c))
	ways := make([]string, 0, len(c.Ways)+1)
	for _, w := range c.Ways {
		ways = append(ways, fmt.Sprintf("%s for %s: %s", w.Changes(), p.Spread[w.Constraint].TopologyKey, alike(w.Nodes)))
	}
	if len(c.Constraints) > 1 {
		ways = append(ways, otherKey)
	}
	t.Marked(console.Bold, "Ways out", ways...)
}

// ordinals of constraints that contradict each other.
var ordinals = []string{"first", "second", "third", "fourth", "next"}

// contradicts is what a contradiction is, in a sentence.
func (p *Preview) contradicts(c *Contradiction) string {
	key := func(i int) string { return p.Spread[i].TopologyKey }
	if len(c.Constraints) == 1 {
		return fmt.Sprintf("The constraint on %s can't be met: there are nodes for the pod, and none of them is allowed by it.", key(c.Constraints[0]))
	}
	keys, allows := make([]string, 0, len(c.Constraints)), make([]string, 0, len(c.Constraints))
	for i, constraint := range c.Constraints {
		keys = append(keys, key(constraint))
		allows = append(allows, fmt.Sprintf("the %s %s", ordinals[min(i, len(ordinals)-1)], only(c.Allows[i])))
	}
	allows[0] = strings.Replace(allows[0], "first ", "first allows ", 1)
	last := len(keys) - 1
	return fmt.Sprintf("The constraints on %s and %s can each be met, and together they can't: %s.", strings.Join(keys[:last], ", "), keys[last], strings.Join(allows, ", "))
}

// otherKey is the way out that nobody can try without knowing the cluster's labels.
const otherKey = "another topologyKey for one of them: not tried"

// only are the only nodes that are allowed.
func only(nodes []string) string {
	if len(nodes) == 1 {
		return nodes[0] + " only"
	}
	return alike(nodes)
}

func (t *text) preemption(p *Preemption) {
	if p == nil || len(p.Candidates) == 0 {
		return
	}
	for i, c := range p.Candidates[:min(maxCandidates, len(p.Candidates))] {
		t.Gap()
		label := "Pick"
		if i > 0 {
			label = "Next best"
		}
		says := p.says(i)
		t.Marked(console.Bold, label, says)
		t.victims(c.Victims)
	}
	if more := len(p.Candidates) - maxCandidates; more > 0 {
		t.Row("", fmt.Sprintf("and %s more where others would have to go", console.Plural(more, "node", "nodes")))
	}
}

// says what the candidate at a place would cost; of those after the pick also why it is not the pick.
func (p *Preemption) says(i int) string {
	c := &p.Candidates[i]
	says := fmt.Sprintf("on %s: %s would go, within %d s", c.Node, console.Plural(len(c.Victims), "pod", "pods"), c.GoneWithin)
	switch {
	case i == 0:
		return says
	case p.Decided != "":
		return says + "; the pick is better by " + p.Decided
	}
	return says + "; it is as good as the pick, and the scheduler takes one by chance"
}

func (t *text) victims(victims []Victim) {
	rows := [][]string{{"victim", "priority", "grace", "budget left", ""}}
	for _, v := range victims[:min(maxVictims, len(victims))] {
		rows = append(rows, []string{v.Namespace + "/" + v.Name, fmt.Sprint(v.Priority), fmt.Sprintf("%d s", v.GraceSeconds), v.left(), v.remark()})
	}
	if more := len(victims) - maxVictims; more > 0 {
		rows = append(rows, []string{fmt.Sprintf("and %d more", more), "", "", "", ""})
	}
	t.Columns("", "", rows)
	for _, v := range victims {
		if v.Guard != "" {
			t.Marked(console.Yellow, "Guard", v.guarded())
		}
	}
}

// left is how many more pods its budget lets go.
func (v Victim) left() string {
	if v.Budget == nil {
		return "no budget"
	}
	return fmt.Sprint(*v.Budget)
}

// guarded is that the removal guard refuses it to go, and why.
func (v Victim) guarded() string {
	return fmt.Sprintf("The removal guard refuses the scheduler's delete of %s/%s: %s", v.Namespace, v.Name, v.Guard)
}

// remark is what is to be known of a victim before anything else.
func (v Victim) remark() string {
	switch {
	case v.Terminating && v.GraceSeconds == 0:
		return "is being deleted already, and should be gone"
	case v.Terminating:
		return "is being deleted already"
	case v.GraceSeconds == 0:
		return "removed at once: nobody knows whether it still runs"
	}
	return ""
}

func (t *text) rollout(p *Preview) {
	r := p.Rollout
	if r == nil {
		return
	}
	if r.Down != nil {
		t.Gap()
		t.scaleDown(p, r.Down)
	}
	t.Gap()
	t.placement("Rollout", r.first(), &r.First)
	t.contradictions(p, r.First.Contradictions)
	if r.Second != nil {
		t.Gap()
		t.placement("Update", r.second(), r.Second)
		if r.Left > 0 {
			t.Row("", r.stuck())
		}
		t.contradictions(p, r.Second.Contradictions)
	}
}

func (t *text) scaleDown(p *Preview, d *ScaleDown) {
	t.Marked(console.Bold, "Scale down", d.says(p.Resource.Kind))
	rows := [][]string{{"pod", "node", "deletion cost", "pods there", ""}}
	for _, r := range d.Removed[:min(maxRemoved, len(d.Removed))] {
		rows = append(rows, []string{r.Name, r.Node, fmt.Sprint(r.DeletionCost), fmt.Sprint(r.OnNode), r.remark()})
	}
	if more := len(d.Removed) - maxRemoved; more > 0 {
		rows = append(rows, []string{fmt.Sprintf("and %d more", more), "", "", "", ""})
	}
	if p.Resource.Kind == statefulSet { // it goes by the names alone
		for i := range rows {
			rows[i] = rows[i][:2]
		}
	}
	t.Columns("", "", rows)
	t.placement("", "then ", &d.Left)
}

// first and second are how the pods of the revisions come about.
func (r *Rollout) first() string {
	return fmt.Sprintf("%s, one after the other: ", console.Plural(r.Replicas, "pod", "pods"))
}

func (r *Rollout) second() string {
	if r.MaxSurge+r.MaxUnavailable > 0 {
		return fmt.Sprintf("the next revision, with maxSurge %d and maxUnavailable %d: ", r.MaxSurge, r.MaxUnavailable)
	}
	return "the next revision, with the strategy Recreate: "
}

// stuck is what an update leaves that goes no further.
func (r *Rollout) stuck() string {
	return fmt.Sprintf("The update goes no further: %s of the first revision still run.", console.Plural(r.Left, "pod", "pods"))
}

// says where the pods are.
func (p *Placement) says() string {
	says := fmt.Sprintf("%d on %s", p.Placed, console.Plural(len(p.Nodes), "node", "nodes"))
	if p.Pending > 0 {
		says += fmt.Sprintf(", %d pending", p.Pending)
	}
	if p.Why != "" {
		says += ": " + p.Why
	}
	return says
}

func (t *text) placement(label, when string, p *Placement) {
	t.Marked(console.Bold, label, when+p.says())
	for i := range p.Spread {
		s := &p.Spread[i]
		if len(s.Domains) == 0 {
			t.Row("", s.TopologyKey+": no node counts for it")
			continue
		}
		says := s.Counts()
		if s.Skew() > int(s.MaxSkew) {
			says += fmt.Sprintf(", more than maxSkew %d", s.MaxSkew)
		}
		t.Row("", says)
	}
	if len(p.Spread) == 0 && len(p.Nodes) > 0 {
		t.Row("", p.on(maxDomains))
	}
}

// Counts returns the pods of each domain, and the skew.
func (s *Spread) Counts() string {
	domains := make([]string, 0, len(s.Domains))
	for _, d := range s.Domains {
		domains = append(domains, fmt.Sprintf("%s %d", d.Value, d.Count))
	}
	return fmt.Sprintf("%s: %s; skew %d", s.TopologyKey, console.Some(domains, maxDomains, ", "), s.Skew())
}

// on is on which nodes the pods are, and how many on each.
func (p *Placement) on(most int) string {
	nodes := make([]string, 0, len(p.Nodes))
	for _, n := range p.Nodes {
		nodes = append(nodes, fmt.Sprintf("%s %d", n.Value, n.Pods))
	}
	return console.Some(nodes, most, ", ")
}

// statefulSet is the kind whose pods go by their names.
const statefulSet = "StatefulSet"

// says returns how many pods are removed, and the rule.
func (d *ScaleDown) says(kind string) string {
	rule := "the ReplicaSet controller removes, in this order:"
	if kind == statefulSet {
		rule = "the StatefulSet controller removes the highest ordinals first:"
	}
	return fmt.Sprintf("from %s to %d, if nothing else changes: %s", console.Plural(d.From, "pod", "pods"), d.To, rule)
}

// remark is what comes before all else in the order of a ReplicaSet's controller.
func (r Removed) remark() string {
	switch {
	case r.Node == "":
		return "has no node"
	case !r.Ready:
		return "not ready"
	}
	return ""
}
