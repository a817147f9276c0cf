package scheduler

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/cli/scheduling"
)

// mostSkew is by how much a maxSkew is raised in search of a way out.
const mostSkew = 10

// contradictions are why a pod fits nowhere, where its hard spread constraints are to blame alone: without them there are nodes for it. Each answer is the scheduler's own, to the pod with
// other constraints.
func (s *Scheduler) contradictions(ctx context.Context, pod *corev1.Pod) ([]scheduling.Contradiction, error) {
	var hard []int
	for i, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			hard = append(hard, i)
		}
	}
	if len(hard) == 0 {
		return nil, nil
	}
	q := &asking{s, ctx, pod, nil}
	if len(q.fit(q.only())) == 0 {
		return nil, q.err
	}
	found := q.blamed(hard)
	for i := range found {
		for _, constraint := range found[i].Constraints {
			found[i].Ways = append(found[i].Ways, q.ways(constraint)...)
		}
	}
	return found, q.err
}

// blamed are the fewest hard constraints that leave no node: single ones, else each two that do not go together, else some of which each two do.
func (q *asking) blamed(hard []int) []scheduling.Contradiction {
	allowed := map[int][]string{}
	of := func(constraints ...int) scheduling.Contradiction {
		c := scheduling.Contradiction{Constraints: constraints}
		for _, i := range constraints {
			c.Allows = append(c.Allows, allowed[i])
		}
		return c
	}
	var found []scheduling.Contradiction
	for _, i := range hard {
		if allowed[i] = q.fit(q.only(i)); len(allowed[i]) == 0 {
			allowed[i] = []string{} // of programs none expects null
			found = append(found, of(i))
		}
	}
	if len(found) > 0 {
		return found
	}
	for i, a := range hard {
		for _, b := range hard[i+1:] {
			if len(q.fit(q.only(a, b))) == 0 {
				found = append(found, of(a, b))
			}
		}
	}
	if len(found) > 0 {
		return found
	}
	together := slices.Clone(hard)
	for _, i := range hard {
		if rest := slices.DeleteFunc(slices.Clone(together), func(c int) bool { return c == i }); len(q.fit(q.only(rest...))) == 0 {
			together = rest
		}
	}
	return []scheduling.Contradiction{of(together...)}
}

// asking asks about variants of a pod, until there is an error.
type asking struct {
	*Scheduler
	ctx context.Context
	pod *corev1.Pod
	err error
}

// only is the pod with these of its constraints, and none of the others that are hard.
func (q *asking) only(keep ...int) *corev1.Pod {
	p := q.pod.DeepCopy()
	p.Spec.TopologySpreadConstraints = nil
	for i, c := range q.pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != corev1.DoNotSchedule || slices.Contains(keep, i) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
		}
	}
	return p
}

// fit are the nodes that take a pod, by name.
func (q *asking) fit(pod *corev1.Pod) []string {
	if q.err != nil {
		return nil
	}
	c, err := q.cycle(pod)
	if err == nil {
		_, err = c.filter(q.ctx)
	}
	if err != nil {
		q.err = err
		return nil
	}
	var names []string
	for _, n := range c.fit {
		names = append(names, n.Node().Name)
	}
	slices.Sort(names)
	return names
}

// ways are those by which one constraint alone, changed, gets the pod a node. Those that leave out nodes which the pod can't have come first: they spread the pods as before.
func (q *asking) ways(i int) []scheduling.Way {
	ways := q.honoring(i)
	changed := q.pod.DeepCopy()
	constraint := &changed.Spec.TopologySpreadConstraints[i]
	for range mostSkew {
		constraint.MaxSkew++
		if nodes := q.fit(changed); len(nodes) > 0 {
			ways = append(ways, scheduling.Way{Constraint: i, MaxSkew: constraint.MaxSkew, Nodes: nodes})
			break
		}
	}
	constraint.MaxSkew, constraint.WhenUnsatisfiable, constraint.MinDomains = q.pod.Spec.TopologySpreadConstraints[i].MaxSkew, corev1.ScheduleAnyway, nil // which goes with hard constraints only
	if nodes := q.fit(changed); len(nodes) > 0 {
		ways = append(ways, scheduling.Way{Constraint: i, Nodes: nodes})
	}
	return ways
}

// honoring are the ways by which a constraint honors taints, or node affinity, or both if neither is enough. By default it honors node affinity alone (nodeInclusionPolicies in the API of
// TopologySpreadConstraint, k8s.io/api/core/v1/types.go, 0.36.3).
func (q *asking) honoring(i int) []scheduling.Way {
	const honor = corev1.NodeInclusionPolicyHonor
	var tries []scheduling.Way
	c := &q.pod.Spec.TopologySpreadConstraints[i]
	if c.NodeTaintsPolicy == nil || *c.NodeTaintsPolicy != honor {
		tries = append(tries, scheduling.Way{Constraint: i, NodeTaintsPolicy: honor})
	}
	if c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy != honor {
		tries = append(tries, scheduling.Way{Constraint: i, NodeAffinityPolicy: honor})
	}
	if len(tries) > 1 {
		tries = append(tries, scheduling.Way{Constraint: i, NodeTaintsPolicy: honor, NodeAffinityPolicy: honor})
	}
	var ways []scheduling.Way
	for _, w := range tries {
		if len(ways) > 0 && w.NodeTaintsPolicy != "" && w.NodeAffinityPolicy != "" {
			break
		}
		changed := q.pod.DeepCopy()
		constraint := &changed.Spec.TopologySpreadConstraints[i]
		if w.NodeTaintsPolicy != "" {
			constraint.NodeTaintsPolicy = &w.NodeTaintsPolicy
		}
		if w.NodeAffinityPolicy != "" {
			constraint.NodeAffinityPolicy = &w.NodeAffinityPolicy
		}
		if w.Nodes = q.fit(changed); len(w.Nodes) > 0 {
			ways = append(ways, w)
		}
	}
	return ways
}
