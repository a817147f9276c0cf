package fencing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/policy"
)

// Do is what becomes of a silent node, or of a Fence that nobody has begun.
type Do string

// What is done.
const (
	// DoShow only shows it, by conditions and Events.
	DoShow Do = "Show"
	// DoWait may fence it later.
	DoWait Do = "Wait"
	// DoFence begins: it has a Target.
	DoFence Do = "Fence"
	// DoRefuse never fences it: the Fence is over.
	DoRefuse Do = "Refuse"
)

// Verdict is what becomes of one silent node, or of one Fence that nobody has begun, and why.
type Verdict struct {
	Node v1alpha1.BootReference
	// Fence that it is about; empty: there is none yet.
	Fence string
	Do    Do
	// Reason is the rule that decided, and Message says in a line what is so and what to do. It has no times that pass, so that it changes only with the matter.
	Reason  policy.Reason
	Message string
	// Until is when it can be different by time alone, as Moment.Led; 0: not by time alone.
	Until time.Duration
	// Policy that is the node's; empty: none is.
	Policy string
	// Target, for DoFence.
	Target *v1alpha1.FenceTarget
}

// silentByDefault is silentFor where no policy is for the node, or it has none.
const silentByDefault = 90 * time.Second

// candidate is a silent node, or a Fence that nobody has begun, with what is known of its node.
type candidate struct {
	boot     v1alpha1.BootReference
	node     *Node           // nil: there is none, or it is not known
	fence    *v1alpha1.Fence // nil: none yet
	own      *Policy
	bounding []*Policy
	stake    *stake
	target   *v1alpha1.FenceTarget
}

// byPerson reports whether a person asks for it.
func (c *candidate) byPerson() bool {
	return c.fence != nil && c.fence.Spec.Reason == v1alpha1.FenceRequested
}

// silentFor is the policy's, and never less than the node's Lease lasts.
func (c *candidate) silentFor() time.Duration { return max(silentFor(c.own), c.node.lease()) }

func silentFor(p *Policy) time.Duration {
	if p == nil || p.Spec.SilentFor.Duration <= 0 {
		return silentByDefault
	}
	return max(p.Spec.SilentFor.Duration, time.Minute)
}

var phrases = map[Do]string{
	DoShow:   "node %s is silent, and only shown: %s",
	DoWait:   "node %s is not fenced yet: %s",
	DoFence:  "node %s is fenced: %s",
	DoRefuse: "node %s is not fenced: %s",
}

// say is a verdict with its message. An empty format says the reason.
func (c *candidate) say(do Do, reason policy.Reason, format string, args ...any) *Verdict {
	v := &Verdict{Node: c.boot, Do: do, Reason: reason}
	if c.fence != nil {
		v.Fence = c.fence.Name
	}
	if c.own != nil {
		v.Policy = c.own.Name
	}
	why := reason.Short
	if format != "" {
		why = fmt.Sprintf(format, args...)
	}
	v.Message = fmt.Sprintf(phrases[do], c.boot.Name, why)
	v.Message = message(withHelp(v.Message, reason, c.boot.Name))
	return v
}

// withHelp is what is said of a node, and what to do about it.
func withHelp(said string, reason policy.Reason, node string) string {
	if reason.Help == "" {
		return said
	}
	return said + ". " + strings.ReplaceAll(reason.Help, "NAME", node)
}

func (c *candidate) wait(reason policy.Reason, format string, args ...any) *Verdict {
	if c.shows() && c.fence == nil { // whatever passes, it is not fenced
		return c.say(DoShow, reason, format, args...)
	}
	return c.say(DoWait, reason, format, args...)
}

// shows reports whether the node is only shown: that is all that its policy has the fencer do by itself.
func (c *candidate) shows() bool {
	return !c.byPerson() && c.own != nil && c.own.Spec.Mode != v1alpha1.FenceModeFence
}

// message makes a text fit for a status or an Event. Others wrote parts of it.
func message(text string) string {
	return console.Shorten(console.Printable(strings.ToValidUTF8(text, "?")), 1000)
}

// round is one call of Decide.
type round struct {
	policies Policies
	facts    *Facts
	doubt    *doubt
	spent    spending
}

// Decide says of each silent node, and of each Fence that nobody has begun, what becomes of it. Those that a person asks for come first, then those whose pods have
// the highest priority, then those that have been silent for longest.
func Decide(policies Policies, facts Facts) []Verdict {
	r := &round{policies: policies, facts: &facts, doubt: doubted(&facts)}
	r.spent.health = healthOf(&facts)
	for i := range facts.Fences {
		if f := &facts.Fences[i]; begun(f) {
			r.spendOn(f)
		}
	}
	var verdicts []Verdict
	var ready []*candidate
	for _, c := range r.candidates() {
		if v := r.judge(c); v != nil {
			verdicts = append(verdicts, *v)
		} else {
			ready = append(ready, c)
		}
	}
	slices.SortStableFunc(ready, before)
	for _, c := range ready {
		v := r.afford(c)
		if v == nil {
			r.spend(c.node, "node "+c.boot.Name, c.bounding)
			v = c.fenceIt()
		}
		verdicts = append(verdicts, *v)
	}
	return verdicts
}

// spendOn counts a Fence that was begun.
func (r *round) spendOn(f *v1alpha1.Fence) {
	n := r.facts.node(f.Spec.Node.Name)
	var bounding []*Policy
	for _, p := range r.policies {
		if p.Name == f.Status.Policy || n != nil && p.bounds(n) {
			bounding = append(bounding, p)
		}
	}
	r.spend(n, "Fence "+f.Name, bounding)
}

// candidates are the Fences that nobody has begun, those that a person asks for first, and the silent nodes that have no Fence.
func (r *round) candidates() []*candidate {
	var all []*candidate
	has := map[string]bool{}
	for i := range r.facts.Fences {
		f := &r.facts.Fences[i]
		if f.Status.Phase != v1alpha1.FenceOver {
			has[f.Spec.Node.BootID] = true
		}
		if undecided(f) {
			all = append(all, &candidate{boot: f.Spec.Node, node: r.facts.node(f.Spec.Node.Name), fence: f})
		}
	}
	slices.SortFunc(all, func(a, b *candidate) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a.fence.Name, b.fence.Name)) })
	for i := range r.facts.Nodes {
		if n := &r.facts.Nodes[i]; !has[n.BootID] || n.BootID == "" {
			all = append(all, &candidate{boot: n.Boot(), node: n})
		}
	}
	all = slices.DeleteFunc(all, func(c *candidate) bool {
		if c.node != nil {
			c.own, c.bounding = r.policies.Of(c.node)
		}
		return c.fence == nil && c.node.Silent < c.silentFor()
	})
	return all
}

func rank(c *candidate) int {
	if c.byPerson() {
		return 0
	}
	return 1
}

// before orders those that the budget may be spent on.
func before(a, b *candidate) int {
	priority := func(c *candidate) int32 {
		if c.stake == nil {
			return 0
		}
		return c.stake.pod.Priority
	}
	return cmp.Or(rank(a)-rank(b), cmp.Compare(priority(b), priority(a)), cmp.Compare(b.node.Silent, a.node.Silent), cmp.Compare(a.boot.Name, b.boot.Name))
}

// fenceIt is the verdict of what passed all rules, and the budget.
func (c *candidate) fenceIt() *Verdict {
	why := justified
	text := ""
	switch {
	case c.byPerson():
		why, text = requested, c.fence.Spec.RequestedBy+" asks for it"
		if c.node.Ready {
			text += "; it is Ready: its pods run, and end with the power, without a grace period"
		}
	case c.stake != nil:
		text = c.stake.why
	}
	v := c.say(DoFence, why, "%s", text)
	v.Target = c.target
	return v
}

// NewFence is the Fence to create by a verdict that says DoFence and names none. Its name is that of the node's last sign of life, so that each silence has its own, and
// two fencers make the same one.
func NewFence(v Verdict, facts Facts) *v1alpha1.Fence {
	n := facts.node(v.Node.Name)
	if v.Do != DoFence || v.Fence != "" || n == nil {
		return nil
	}
	return &v1alpha1.Fence{ObjectMeta: metav1.ObjectMeta{Name: FenceName(n)}, Spec: v1alpha1.FenceSpec{Node: v.Node, Reason: v1alpha1.FenceSilent}}
}

// Foresee is what a fencer would decide now about a Fence that a person asks for, by what anybody can read: a node that is Ready counts as heard of, and one that is not as silent.
// Neither pods nor silences are needed in the facts.
func Foresee(fence *v1alpha1.Fence, policies Policies, facts Facts) Verdict {
	facts.Self = Self{HasWritten: true, Wrote: facts.Now.Led}
	facts.foreseen = true
	facts.Fences = append(slices.Clone(facts.Fences), *fence)
	facts.Nodes = slices.Clone(facts.Nodes)
	for i := range facts.Nodes {
		n := &facts.Nodes[i]
		n.Live, n.Heard, n.Silent = true, n.Ready, 0
		if !n.Ready {
			n.Silent = n.lease()
		}
	}
	for _, v := range Decide(policies, facts) {
		if v.Fence == fence.Name {
			return v
		}
	}
	return Verdict{Node: fence.Spec.Node, Fence: fence.Name, Do: DoWait, Reason: factsUnknown, Message: message("node " + fence.Spec.Node.Name + " is not judged")}
}

// Passes reports whether what the verdict waits for comes by itself, or by the fences before it; else somebody has to change something first.
func (v *Verdict) Passes() bool {
	return v.Do == DoFence || v.Do == DoWait && !slices.Contains([]policy.Reason{noPolicy, noIdentity, noAgent, sharedIdentity}, v.Reason)
}
