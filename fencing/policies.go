package fencing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Policy is a FencePolicy made ready to decide with.
type Policy struct {
	Name string
	// Spec is shared with the object: read only.
	Spec  *v1alpha1.FencePolicySpec
	nodes labels.Selector // nil: it can't be read
}

// Policies are all FencePolicies, the heaviest first, those of equal weight by name.
type Policies []*Policy

// CompilePolicy makes a policy ready. The error says what can't be read of it, which the schema refuses: such a policy selects no node for a fence, but its budget
// and its pause hold for all nodes, which is the safe side.
func CompilePolicy(p *v1alpha1.FencePolicy) (*Policy, error) {
	c := &Policy{Name: p.Name, Spec: &p.Spec}
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

// bounds says whether the policy's budget and pause hold for a node.
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
