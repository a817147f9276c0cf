package fencing

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
)

// begun reports whether a Fence is in the course of being fenced: from the decision until its node is known to be off.
func begun(f *v1alpha1.Fence) bool {
	return f.Status.Phase == v1alpha1.FenceDecided || f.Status.Phase == v1alpha1.FenceActing
}

// open reports whether a Fence has been begun and is not over.
func open(f *v1alpha1.Fence) bool {
	return begun(f) || f.Status.Phase == v1alpha1.FenceVerified || f.Status.Phase == v1alpha1.FenceReleased
}

// undecided reports whether nobody has begun a Fence.
func undecided(f *v1alpha1.Fence) bool {
	return f.Status.Phase == "" || f.Status.Phase == v1alpha1.FenceWaiting
}

// health is how many nodes are unhealthy: not ready, silent or being fenced.
type health struct {
	nodes, unhealthy int
	zones            map[string]*health
	of               map[string]bool
}

func healthOf(f *Facts) *health {
	fenced := map[string]bool{}
	for i := range f.Fences {
		fenced[f.Fences[i].Spec.Node.Name] = fenced[f.Fences[i].Spec.Node.Name] || open(&f.Fences[i])
	}
	h := &health{zones: map[string]*health{}, of: map[string]bool{}}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		z := h.zones[n.Zone]
		if z == nil {
			z = &health{}
			h.zones[n.Zone] = z
		}
		h.nodes++
		z.nodes++
		if !n.Ready || n.quiet() || fenced[n.Name] {
			h.add(n)
		}
	}
	return h
}

// add counts a node as unhealthy, once.
func (h *health) add(n *Node) {
	if !h.of[n.Name] {
		h.of[n.Name] = true
		h.unhealthy++
		h.zones[n.Zone].unhealthy++
	}
}

// allowed is how many nodes may be unhealthy of so many: at least one, and one where the number can't be read.
func allowed(most intstr.IntOrString, nodes int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&most, nodes, false)
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// tooMany says by how many unhealthy nodes the policy keeps a node of this zone from being fenced; empty: it does not.
func (h *health) tooMany(p *Policy, zone string) string {
	b := p.Spec.Budget
	if most := allowed(b.MaxUnhealthy, h.nodes); h.unhealthy > most {
		return fmt.Sprintf("%d of %d nodes would be unhealthy, and FencePolicy %s allows %d", h.unhealthy, h.nodes, p.Name, most)
	}
	if z := h.zones[zone]; z != nil {
		if most := allowed(b.MaxUnhealthyInZone, z.nodes); z.unhealthy > most {
			return fmt.Sprintf("%d of %d nodes of its zone would be unhealthy, and FencePolicy %s allows %d", z.unhealthy, z.nodes, p.Name, most)
		}
	}
	return ""
}

// Storms returns by which policies more nodes are unhealthy than they allow, and when that was so for the last time (Moment.Led). Facts.Storms are what it returned the
// round before. A fencer that begins to lead has 0 there for each policy that cools down by its status: the cooldown begins again.
func Storms(policies Policies, facts Facts) map[string]time.Duration {
	storms := map[string]time.Duration{}
	h := healthOf(&facts)
	for _, p := range policies {
		if at, ok := facts.Storms[p.Name]; ok && facts.Now.Led-at < p.Spec.Budget.Cooldown.Duration {
			storms[p.Name] = at
		}
		for i := range facts.Nodes {
			if n := &facts.Nodes[i]; p.bounds(n) && h.tooMany(p, n.Zone) != "" {
				storms[p.Name] = facts.Now.Led
				break
			}
		}
	}
	return storms
}

// ConditionCoolingDown of a FencePolicy says that more nodes were unhealthy than it allows, a short time ago.
const ConditionCoolingDown = "CoolingDown"

// CoolingDown are the Storms of who only knows what policies say of themselves, as a fencer that begins to lead: their cooldown begins again.
func CoolingDown(policies []v1alpha1.FencePolicy) map[string]time.Duration {
	storms := map[string]time.Duration{}
	for i := range policies {
		if meta.IsStatusConditionTrue(policies[i].Status.Conditions, ConditionCoolingDown) {
			storms[policies[i].Name] = 0
		}
	}
	return storms
}

// spending is the budget of one round: what is being fenced already, and what this round has decided.
type spending struct {
	health *health
	// names of the nodes that are being fenced, and the least that policies which hold for one of them allow at once; 0: nothing is being fenced.
	names []string
	most  int32
	by    string
}

func (r *round) spend(n *Node, name string, bounding []*Policy) {
	s := &r.spent
	s.names = append(s.names, name)
	for _, p := range bounding {
		if most := max(p.Spec.Budget.MaxConcurrent, 1); s.most == 0 || most < s.most {
			s.most, s.by = most, p.Name
		}
	}
	if n != nil {
		s.health.add(n)
	}
}

// afford says why the budget does not allow the candidate; nil: it does.
func (r *round) afford(c *candidate) *Verdict {
	s := r.spent
	for _, p := range c.bounding {
		if most := max(p.Spec.Budget.MaxConcurrent, 1); s.most == 0 || most < s.most {
			s.most, s.by = most, p.Name
		}
	}
	if len(s.names) >= int(max(s.most, 1)) {
		return c.wait(tooManyFences, "FencePolicy %s has at most %d fenced at once: it waits for %s", s.by, s.most, console.Some(s.names, 3, ", "))
	}
	with := s.health.with(c.node)
	for _, p := range c.bounding {
		if why := with.tooMany(p, c.node.Zone); why != "" {
			return c.wait(tooManyUnhealthy, "%s", why)
		}
		if at, ok := r.facts.Storms[p.Name]; ok && r.facts.Now.Led-at < p.Spec.Budget.Cooldown.Duration {
			v := c.wait(coolingDown, "more nodes were unhealthy than FencePolicy %s allows, and it waits %s after that", p.Name, p.Spec.Budget.Cooldown.Duration)
			v.Until = at + p.Spec.Budget.Cooldown.Duration
			return v
		}
	}
	return nil
}

// with is the health if this node is fenced as well.
func (h *health) with(n *Node) *health {
	if h.of[n.Name] {
		return h
	}
	z := *h.zones[n.Zone]
	z.unhealthy++
	return &health{nodes: h.nodes, unhealthy: h.unhealthy + 1, zones: map[string]*health{n.Zone: &z}}
}
