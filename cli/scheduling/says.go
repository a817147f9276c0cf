package scheduling

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/policy"
)

// The reasons for which a pod would be pending.
var (
	// Unschedulable is the reason of the condition PodScheduled of such a pod, too (corev1.PodReasonUnschedulable).
	Unschedulable = policy.Reason{Code: "Unschedulable", Short: "The pod would be pending: no node takes it", Help: "podgrace preview says of each node why it does not take the pod, how spread constraints count, and what would help."}
	// NeedsPreemption: it is pending until others are gone.
	NeedsPreemption = policy.Reason{Code: "NeedsPreemption", Short: "The pod would only be scheduled if others went", Help: "podgrace preview says which pods the scheduler would delete for it, with their grace periods and what is left of their PodDisruptionBudgets."}
)

// Reasons are all of them.
func Reasons() []policy.Reason { return []policy.Reason{Unschedulable, NeedsPreemption} }

// maxNamed are how many nodes, pods or reasons a sentence names.
const maxNamed = 3

// Pending is why the pod would be pending: the reason in one word, and a sentence without its full stop, or with the notes after it, such as that pods of its workload are
// there already. Both are empty where it would not be: it fits, or somebody
// wants it to wait (a gate).
func (p *Preview) Pending() (reason, message string) {
	switch p.Outcome {
	case Nowhere:
		return Unschedulable.Code, "would be pending: " + strings.Join(append([]string{p.available()}, p.because()...), "; ") + p.noted()
	case Preempts:
		return NeedsPreemption.Code, fmt.Sprintf("would be pending until others went: %s; %s", p.available(), p.pick()) + p.noted()
	case Fits, Gated, Refused, NotKnown:
	}
	return "", ""
}

func (p *Preview) noted() string {
	if len(p.Notes) == 0 {
		return ""
	}
	return ". " + strings.Join(p.Notes, " ")
}

// Sentences say what would become of the pod, the answer first.
func (p *Preview) Sentences() []string {
	switch p.Outcome {
	case Fits:
		return []string{fmt.Sprintf("fits on %d of %s%s", p.Fit, console.Plural(p.Nodes, "node", "nodes"), p.best())}
	case Preempts:
		return append([]string{p.available(), "with preemption: " + p.pick()}, p.guarded()...)
	case Nowhere:
		return slices.Concat([]string{p.available()}, p.because(), p.ways(), p.Notes)
	case Gated:
		return []string{"the scheduler does not look at it yet: " + p.Why}
	case Refused:
		return []string{"it would be refused: " + p.Why}
	case NotKnown:
	}
	return []string{"not known: " + p.Why}
}

// available is as in the Event FailedScheduling (FitError.Error in pkg/scheduler/framework/types.go, 1.36.3): how many nodes have which
// reason.
func (p *Preview) available() string {
	head := fmt.Sprintf("0/%d nodes are available", p.Nodes)
	if p.Why != "" {
		return head + ": " + strings.TrimSuffix(p.Why, ".")
	}
	counts := map[string]int{}
	for _, g := range p.Groups {
		for _, r := range g.Reasons {
			counts[r] += len(g.Nodes)
		}
	}
	var reasons []string
	for r, n := range counts {
		reasons = append(reasons, fmt.Sprintf("%d %s", n, r))
	}
	if len(reasons) == 0 {
		return head
	}
	slices.Sort(reasons)
	return head + ": " + strings.Join(reasons, ", ")
}

// best are the nodes that the scheduler takes one of.
func (p *Preview) best() string {
	if len(p.Groups) == 0 || len(p.Groups[0].Nodes) == 0 {
		return ""
	}
	return ", best on " + some(p.Groups[0].Nodes)
}

// because is what is to be known beside the reasons of the nodes.
func (p *Preview) because() []string {
	var says []string
	for _, c := range p.Contradictions {
		keys := make([]string, 0, len(c.Constraints))
		for _, i := range c.Constraints {
			keys = append(keys, p.key(i))
		}
		switch last := len(keys) - 1; {
		case len(keys) == 2 && len(c.Allows) == 2:
			says = append(says, fmt.Sprintf("the constraints on %s and %s contradict each other (the first allows %s, the second %s)", keys[0], keys[1], some(c.Allows[0]), some(c.Allows[1])))
		case len(keys) > 1: // what each allows has nodes in common with the next one's
			says = append(says, fmt.Sprintf("the constraints on %s and %s can't be met together", strings.Join(keys[:last], ", "), keys[last]))
		case len(keys) == 1:
			says = append(says, fmt.Sprintf("the constraint on %s allows none of the nodes that there are for the pod", keys[0]))
		}
	}
	if p.Preemption != nil && p.Preemption.Refused != "" {
		says = append(says, "it preempts nobody: "+p.Preemption.Refused)
	}
	return says
}

// ways out of the contradictions.
func (p *Preview) ways() []string {
	var ways []string
	for _, c := range p.Contradictions {
		for _, w := range c.Ways {
			ways = append(ways, fmt.Sprintf("%s for %s (%s)", w.Changes(), p.key(w.Constraint), some(w.Nodes)))
		}
	}
	if len(ways) == 0 {
		return nil
	}
	return []string{"ways out: " + strings.Join(ways, ", ")}
}

// pick is whom it would cost.
func (p *Preview) pick() string {
	c := p.picked()
	if c == nil {
		return "which ones is not known"
	}
	names := make([]string, len(c.Victims))
	for i, v := range c.Victims {
		names[i] = v.Namespace + "/" + v.Name
	}
	return fmt.Sprintf("on %s %s would go, within %d s (%s)", c.Node, console.Plural(len(names), "pod", "pods"), c.GoneWithin, some(names))
}

// guarded are victims that the removal guard would not let go.
func (p *Preview) guarded() []string {
	c := p.picked()
	if c == nil {
		return nil
	}
	var says []string
	for _, v := range c.Victims {
		if v.Guard != "" {
			says = append(says, fmt.Sprintf("the removal guard refuses the scheduler's delete of %s/%s: %s", v.Namespace, v.Name, v.Guard))
		}
	}
	return says
}

// picked is the scheduler's pick; nil: there is none.
func (p *Preview) picked() *Candidate {
	if p.Preemption == nil || len(p.Preemption.Candidates) == 0 {
		return nil
	}
	return &p.Preemption.Candidates[0]
}

// key of a constraint.
func (p *Preview) key(constraint int) string {
	if constraint < 0 || constraint >= len(p.Spread) {
		return fmt.Sprintf("number %d", constraint+1)
	}
	return p.Spread[constraint].TopologyKey
}

func some(names []string) string { return console.Some(names, maxNamed, ", ") }
