package defaulting

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting/topology"
	"github.com/podgrace/podgrace/policy"
)

const (
	// maxHard is with how many hard constraints a pod is judged for contradictions. Each costs a pass over the nodes' domains, and so does each two of
	// those that contradict each other.
	maxHard = 8
	// maxSelectors is how many different selectors they may have: each may be a read of the API server of some seconds.
	maxSelectors = 2
)

// contradiction is why hard constraints leave no node that the pod's node affinity leaves.
type contradiction struct {
	// of are their indices: one that no node meets, two that do not go together, or all, of which each two do.
	of []int
	// leaves are for each of two the nodes that would be left if it were the only one.
	leaves [2][]string
	// unlabelled: no node has the keys of these, whatever runs there.
	unlabelled bool
	// short is how many domains there are for one with more minDomains; 0: there are enough.
	short int
}

// contradictionOf says why the scheduler finds no node for the pod because of these hard constraints, by index, and of nothing else; nil: it finds
// one as far as these go, or that is not known. What could be otherwise for the scheduler counts as unknown: what it does not look at yet, what another one
// than the default scheduler does, pods that would be preempted, or replaced by this one, and more constraints than are worth the time.
func contradictionOf(pod *corev1.Pod, constraints []corev1.TopologySpreadConstraint, hard []int, facts Facts) *contradiction {
	if len(hard) == 0 || len(hard) > maxHard || !scheduledNow(pod) || facts.Nodes.Len() == 0 || comparisons(pod, facts.Nodes.Len()) > maxComparisons {
		return nil
	}
	all := make([]topology.Spread, len(hard))
	for i, at := range hard {
		c := constraints[at]
		if c.MaxSkew < 1 {
			return nil // the API server refuses it
		}
		all[i] = topology.Spread{Constraint: onNodes(c, nil), MaxSkew: int(c.MaxSkew), MinDomains: int(ptr.Deref(c.MinDomains, 1))}
	}
	unlabelled := !fits(pod, all, facts) // without pods no skew is too large
	if !unlabelled && (!count(pod, constraints, hard, all, facts) || fits(pod, all, facts)) {
		return nil
	}
	asks := topology.ForPod(pod)
	if len(facts.Nodes.Left(asks, nil, 1)) == 0 {
		return nil // its node affinity is to blame
	}
	c := fewestOf(asks, constraints, hard, all, facts.Nodes)
	c.unlabelled = unlabelled
	return c
}

// fewestOf are the fewest of constraints, which leave no node together, that leave none.
func fewestOf(asks topology.Pod, constraints []corev1.TopologySpreadConstraint, hard []int, all []topology.Spread, nodes *topology.Nodes) *contradiction {
	c := &contradiction{of: hard}
	leaves := make([][]string, len(hard))
	for i, at := range hard {
		if leaves[i] = nodes.Left(asks, all[i:i+1], 0); len(leaves[i]) == 0 {
			c.of = []int{at}
			if domains, _ := nodes.Domains(asks, onNodes(constraints[at], []string{constraints[at].TopologyKey}), all[i].MinDomains); domains < all[i].MinDomains {
				c.short = domains
			}
			return c
		}
		slices.Sort(leaves[i])
	}
	for i := range hard {
		for j := i + 1; j < len(hard); j++ {
			if len(nodes.Left(asks, []topology.Spread{all[i], all[j]}, 1)) == 0 {
				c.of, c.leaves = []int{hard[i], hard[j]}, [2][]string{leaves[i], leaves[j]}
				return c
			}
		}
	}
	return c
}

// scheduledNow reports whether the scheduler that Podgrace knows is to find a node for the pod, and begins at once.
func scheduledNow(pod *corev1.Pod) bool {
	return !isDaemon(controllerOf(pod)) && pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0 &&
		(pod.Spec.SchedulerName == "" || pod.Spec.SchedulerName == corev1.DefaultSchedulerName)
}

// fits reports whether the constraints leave a node for the pod. Where they look at taints, it is also asked with the tolerations that the API server adds
// to a pod which is not created yet (plugin/pkg/admission/defaulttolerationseconds, 1.36.3).
func fits(pod *corev1.Pod, spreads []topology.Spread, facts Facts) bool {
	left := func(p *corev1.Pod) bool { return len(facts.Nodes.Left(topology.ForPod(p), spreads, 1)) > 0 }
	switch {
	case left(pod):
		return true
	case !slices.ContainsFunc(spreads, func(s topology.Spread) bool { return s.HonorTaints }):
		return false
	}
	tolerant := &corev1.Pod{Spec: pod.Spec}
	tolerant.Spec.Tolerations = slices.Clone(pod.Spec.Tolerations)
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerant.Spec.Tolerations = append(tolerant.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	}
	return left(tolerant)
}

// count fills in what each constraint counts; false: it is not known, or the pod's arrival changes it.
func count(pod *corev1.Pod, constraints []corev1.TopologySpreadConstraint, hard []int, spreads []topology.Spread, facts Facts) bool {
	if facts.Pods == nil || facts.Later {
		return false
	}
	counted := map[string][]string{}
	for i, at := range hard {
		var selector labels.Selector
		selector, spreads[i].Self = countedBy(pod, constraints[at])
		on, ok := counted[selector.String()]
		if !ok {
			neighbours, known := facts.Pods(selector)
			if !known || len(counted) == maxSelectors || slices.ContainsFunc(neighbours, func(n Neighbour) bool { return mayGo(n, pod, facts) }) {
				return false
			}
			on = nodesOf(neighbours)
			counted[selector.String()] = on
		}
		spreads[i].On = on
	}
	return true
}

// mayGo reports whether a pod may be gone once this one is scheduled: it can be preempted, or it is one that a workload's new pod replaces or that the
// workload takes for its own, so that there is no new one.
func mayGo(n Neighbour, pod *corev1.Pod, facts Facts) bool {
	if ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) != corev1.PreemptNever && n.Priority < ptr.Deref(pod.Spec.Priority, math.MaxInt32) {
		return true
	}
	owner := controllerOf(pod)
	if owner == nil || !facts.Told { // a controller does not create what it replaces
		return false
	}
	ofDeployment := slices.ContainsFunc(revisionLabels, func(key string) bool { _, ok := pod.Labels[key]; return ok })
	switch {
	case n.Controller == "":
		return !ofDeployment && OwnerHasSelector(owner)
	case ofDeployment: // whose ReplicaSets have names that differ in the last part
		return withoutLast(n.Controller) == withoutLast(ControllerName(owner.Kind, owner.Name))
	}
	return n.Controller == ControllerName(owner.Kind, owner.Name)
}

func withoutLast(name string) string { return name[:max(strings.LastIndexByte(name, '-'), 0)] }

func nodesOf(neighbours []Neighbour) []string {
	nodes := make([]string, len(neighbours))
	for i, n := range neighbours {
		nodes[i] = n.Node
	}
	return nodes
}

// hardOnes are the indices of the hard constraints.
func hardOnes(constraints []corev1.TopologySpreadConstraint) []int {
	var hard []int
	for i, c := range constraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			hard = append(hard, i)
		}
	}
	return hard
}

// warnOfContradiction tells whoever creates a pod, or a workload of such pods, that the hard constraints which he wrote himself leave it no node. The pod is
// final.
func warnOfContradiction(pod *corev1.Pod, facts Facts, out *Result) {
	constraints := pod.Spec.TopologySpreadConstraints
	if !facts.Told {
		return
	}
	if c := contradictionOf(pod, constraints, hardOnes(constraints), facts); c != nil {
		out.warn(becauseSpreadContradicts, "", "%s", bounded(func(names int) string {
			return "topologySpreadConstraints on " + c.says(constraints, names) + "; " + c.ways()
		}))
	}
}

// validateTopologySpread looks at constraints of a pod's own. Of those that a policy gives, Apply has spoken; these count the pod, so that one that does not is
// the pod's own.
func validateTopologySpread(req policy.Request, e *Effective, facts Facts, out *Result) {
	if e.spread.given() && len(req.Pod.Spec.TopologySpreadConstraints) > 0 && !slices.ContainsFunc(req.Pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return !slices.ContainsFunc(e.spread.value.Constraints, func(given v1alpha1.TopologySpreadConstraint) bool {
			return alike(given, c) && countsNone(req.Pod, c) == ""
		})
	}) {
		return
	}
	warnOfUseless(req.Pod, facts, out)
	warnOfContradiction(req.Pod, facts, out)
}

// bounded is the text with the most names of nodes that a warning holds.
func bounded(text func(names int) string) string {
	for _, names := range []int{3, 2, 1} {
		if s := text(names); len(s) <= MaxWarning {
			return s
		}
	}
	return text(0)
}

// says names the constraints, as their keys, and what is wrong with them.
func (c *contradiction) says(constraints []corev1.TopologySpreadConstraint, names int) string {
	keys := make([]string, len(c.of))
	for i, at := range c.of {
		keys[i] = constraints[at].TopologyKey
	}
	on, one := enumerated(keys), constraints[c.of[0]]
	switch {
	case c.unlabelled && len(keys) == 1:
		return fmt.Sprintf("%s can't be met now: no node that the pod may use has that label", on)
	case c.unlabelled:
		return fmt.Sprintf("%s can't be met together now: no node that the pod may use has these labels", on)
	case len(keys) == 1 && c.short > 0:
		return fmt.Sprintf("%s can't be met now: "+wordsDomainsFull, on, *one.MinDomains, c.short, one.MaxSkew)
	case len(keys) == 1:
		return fmt.Sprintf("%s can't be met now: on each node that the pod may use the skew would be more than maxSkew (%d)", on, one.MaxSkew)
	case len(keys) == 2:
		return fmt.Sprintf("%s can each be met now, and together they can't: the first leaves %s, the second %s", on, nodesNamed(c.leaves[0], names, "node "), nodesNamed(c.leaves[1], names, ""))
	}
	return fmt.Sprintf("%s can't be met together now, although each two of them can", on)
}

// ways are what the author can do.
func (c *contradiction) ways() string {
	switch {
	case c.unlabelled:
		return "label nodes, use another topologyKey or ScheduleAnyway"
	case len(c.of) == 1:
		return "raise maxSkew, use another topologyKey or ScheduleAnyway"
	}
	return "raise maxSkew, use another topologyKey or ScheduleAnyway for one of them"
}

func enumerated(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// nodesNamed names at most so many nodes. node is said before the name of a single one.
func nodesNamed(nodes []string, names int, node string) string {
	switch more := len(nodes) - names; {
	case names == 0 && len(nodes) == 1:
		return "1 node only"
	case names == 0:
		return fmt.Sprintf("%d nodes only", len(nodes))
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(nodes[:names], ", "), more)
	case len(nodes) == 1:
		return node + nodes[0] + " only"
	}
	return enumerated(nodes) + " only"
}
