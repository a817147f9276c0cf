package fencing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/api/written"
	"github.com/podgrace/podgrace/internal/console"
)

// Policy is a FencePolicy made ready to decide with.
type Policy struct {
	Name string
	// Spec is shared with the object: read only.
	Spec  *v1alpha1.FencePolicySpec
	nodes labels.Selector // nil: it can't be read
	// unread are fields that were written and are not read (written.Unread). They may be what keeps a node from being fenced, so that it counts as paused.
	unread []string
}

// Policies are all FencePolicies, the heaviest first, those of equal weight by name.
type Policies []*Policy

// CompilePolicy makes a policy ready. The error says what can't be read of it, which the schema refuses: such a policy selects no node for a fence, but its budget
// and its pause hold for all nodes, which is the safe side.
func CompilePolicy(p *v1alpha1.FencePolicy) (*Policy, error) {
	c := &Policy{Name: p.Name, Spec: &p.Spec, unread: written.Unread(p.ManagedFields, v1alpha1.GroupVersion.String(), &p.Spec)}
	if slices.ContainsFunc(c.unread, func(path string) bool { return strings.HasPrefix(path, "spec.nodeSelector") }) {
		return c, fmt.Errorf("FencePolicy %s: %s was written, and is not read", p.Name, strings.Join(c.unread, ", "))
	}
	selector, err := p.Spec.NodeSelector.AsSelector()
	if err != nil {
		return c, fmt.Errorf("FencePolicy %s: %w", p.Name, err)
	}
	c.nodes = selector
	return c, nil
}

// CompilePolicies makes policies ready, and orders them.
func CompilePolicies(policies []v1alpha1.FencePolicy) Policies {
	all := make(Policies, len(policies))
	for i := range policies {
		all[i], _ = CompilePolicy(&policies[i])
	}
	slices.SortFunc(all, func(a, b *Policy) int {
		return cmp.Or(cmp.Compare(b.Spec.Weight, a.Spec.Weight), strings.Compare(a.Name, b.Name))
	})
	return all
}

// Unread reports whether fields of a policy were written and are not read.
func (ps Policies) Unread() bool {
	return slices.ContainsFunc(ps, func(p *Policy) bool { return len(p.unread) > 0 })
}

// bounds reports whether the policy's budget and pause hold for a node.
func (p *Policy) bounds(n *Node) bool { return p.nodes == nil || p.nodes.Matches(labels.Set(n.Labels)) }

// Of returns the node's own policy, nil where it has none, and all whose budgets hold for it.
func (ps Policies) Of(n *Node) (own *Policy, bounding []*Policy) {
	for _, p := range ps {
		selected := p.nodes != nil && p.nodes.Matches(labels.Set(n.Labels))
		if selected && own == nil {
			own = p
		}
		if p.bounds(n) {
			bounding = append(bounding, p)
		}
	}
	return own, bounding
}

// ConditionReady of a FencePolicy reports whether its nodes can be fenced.
const ConditionReady = "Ready"

// Readiness is whether the nodes of a policy can be fenced by it, and what stands in the way.
type Readiness struct {
	Ready           bool
	Reason, Message string
}

// ReadinessOf says of each policy, by its name, whether its nodes can be fenced: agents that are not there, machines that no agent lists, policies whose budgets hold for
// the same nodes.
func ReadinessOf(policies Policies, facts Facts) map[string]Readiness {
	all := make(map[string]Readiness, len(policies))
	for _, p := range policies {
		all[p.Name] = readinessOf(p, policies, &facts)
	}
	return all
}

func readinessOf(p *Policy, policies Policies, f *Facts) Readiness {
	if p.nodes == nil && len(p.unread) == 0 {
		return Readiness{Reason: "Unreadable", Message: "its nodeSelector can't be read: it has no node fenced, and its budget holds for all"}
	}
	if len(p.unread) > 0 {
		return Readiness{Reason: v1alpha1.ReasonFieldsUnread, Message: written.Say(p.unread, "policy") + ". It counts as paused"}
	}
	if !f.Known.Nodes || !f.Known.Agents {
		return Readiness{Reason: "Unknown", Message: "nodes or FenceAgents can't be listed"}
	}
	nodes, without, others, why := reach(p, policies, f)
	slices.Sort(without)
	slices.Sort(why)
	why = slices.Compact(why)
	text := doing(p.Spec) + " of " + console.Plural(nodes, "node", "nodes")
	if names := slices.Sorted(maps.Keys(others)); len(names) > 0 {
		text += "; the budgets of " + console.Some(names, 3, ", ") + " hold for them as well, the strictest of all"
	}
	switch {
	case nodes == 0:
		return Readiness{Reason: "NoNodes", Message: "it is the policy of no node: " + nobody(p, policies, f)}
	case p.Spec.Mode != v1alpha1.FenceModeFence && len(p.Spec.Agents) == 0:
		return Readiness{Ready: true, Reason: "Shows", Message: text + ": conditions only; without agents nobody can ask for a fence"}
	case len(without) > 0:
		return Readiness{Reason: "NoAgent", Message: fmt.Sprintf("no agent can power off %d of its %s (%s): %s", len(without), console.Plural(nodes, "node", "nodes"), console.Some(without, 3, ", "), console.Some(why, 2, "; "))}
	case len(why) > 0:
		return Readiness{Ready: true, Reason: "AgentsMissing", Message: text + ", but not by all of its agents: " + console.Some(why, 2, "; ")}
	}
	return Readiness{Ready: true, Reason: "Ready", Message: text}
}

// reach says how many nodes are the policy's, which of them no agent can power off, whose budgets hold for them as well, and why agents can't be used.
func reach(p *Policy, policies Policies, f *Facts) (nodes int, without []string, others map[string]bool, why []string) {
	others = map[string]bool{}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		own, bounding := policies.Of(n)
		if own != p || n.ControlPlane {
			continue
		}
		for _, b := range bounding {
			if b != p {
				others[b.Name] = true
			}
		}
		nodes++
		target, problems := freeze(p, n, f)
		for _, problem := range problems {
			if target == nil || !problem.elsewhere { // of several agents each may have machines of its own
				why = append(why, problem.text)
			}
		}
		if target == nil {
			without = append(without, n.Name)
		}
	}
	return nodes, without, others, why
}

// nobody says why a policy is that of no node.
func nobody(p *Policy, policies Policies, f *Facts) string {
	control, taken, by := 0, 0, map[string]bool{}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		switch own, _ := policies.Of(n); {
		case !p.nodes.Matches(labels.Set(n.Labels)):
		case n.ControlPlane:
			control++
		default:
			taken++
			by[own.Name] = true
		}
	}
	switch {
	case taken > 0:
		return fmt.Sprintf("%s of FencePolicy %s, which is heavier, or of the same weight and before it by name",
			console.Plural(taken, "node that its nodeSelector matches is", "nodes that its nodeSelector matches are"), console.Some(slices.Sorted(maps.Keys(by)), 3, ", "))
	case control > 0:
		return "its nodeSelector matches nodes of the control plane alone, which are never fenced"
	}
	return "its nodeSelector matches none: compare it with kubectl get nodes --show-labels"
}

func doing(spec *v1alpha1.FencePolicySpec) string {
	switch {
	case spec.Paused:
		return "paused: it begins no fence"
	case spec.Mode == v1alpha1.FenceModeFence:
		return "fences"
	}
	return "shows the silence"
}
