package fidelity

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/defaulting/topology"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// TestFidelityContradictions: of hard constraints of a pod's own Podgrace says that they can't be met just where the plugin takes the pod for no node that its
// node affinity matches; and it names what the plugin shows: one that no node meets by itself, or the first two of which each leaves the nodes that it names
// and both leave none. Where pods may be preempted it says so only if the plugin finds no node without those of any node either.
func TestFidelityContradictions(t *testing.T) {
	t.Parallel()
	plugin, cases := newScheduler(t), feasibilityCases(3)
	wanted := draw.Shares{"nothing to say": 10, "one": 5, "several by their labels": 0.2, "two for the pods that run": 0.2}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
		c := cases.Draw(t, "case")
		pod := c.withOwn(t)
		nodes := usableNodes(pod, nil, c.Nodes)
		names := func(fits map[string]bool) (left []string) {
			for _, n := range nodes {
				if fits[n.Name] {
					left = append(left, n.Name)
				}
			}
			return left
		}
		left := func(constraints ...corev1.TopologySpreadConstraint) []string {
			p := pod.DeepCopy()
			p.Spec.TopologySpreadConstraints = constraints
			return names(plugin.fits(t, p, c.Nodes, c.Neighbours))
		}
		said := c.said(t, pod)
		hard := pod.Spec.TopologySpreadConstraints
		impossible := len(nodes) > 0 && len(left(hard...)) == 0
		switch {
		case said != "" && !impossible:
			t.Fatalf("the scheduler has nodes %v for it, but Podgrace says %q\n%s", left(hard...), said, draw.Show(pod.Spec))
		case !impossible:
			counts.Add("nothing to say")
			return
		case said == "" && slices.ContainsFunc(c.Neighbours, mayBePreempted):
			counts.Add("silent: pods may be preempted")
			return
		case said == "" && selectors(pod) > 2:
			counts.Add("silent: more selectors than are counted")
			return
		case said == "":
			t.Fatalf("the scheduler has no node for it, and Podgrace is silent\n%s", draw.Show(pod.Spec))
		}
		for _, n := range nodes {
			rest := slices.DeleteFunc(slices.Clone(c.Neighbours), func(p *corev1.Pod) bool { return p.Spec.NodeName == n.Name && mayBePreempted(p) })
			if plugin.fits(t, pod, c.Nodes, rest)[n.Name] {
				t.Fatalf("the scheduler can make room on node %s, but Podgrace says %q\n%s", n.Name, said, draw.Show(pod.Spec))
			}
		}
		counts.Add(checkNaming(t, hard, left, said))
	})
}

// withOwn is the pod as the API server stores it, with the hard ones of the constraints as its own, and no controller.
func (c *feasibilityCase) withOwn(t *rapid.T) *corev1.Pod {
	policy := &v1alpha1.PodPolicy{Spec: v1alpha1.PodPolicySpec{TopologySpread: c.Spread}}
	policy.Name = "p"
	pod := sent(t, received(t, c.Pod))
	req := request(pod, authenticationv1.UserInfo{})
	given := defaulting.For(compiled(t, []*v1alpha1.PodPolicy{policy}), req, kubeSystemAlone).Apply(req, defaulting.Facts{ServiceSelectors: []map[string]string{c.Service}})
	pod.Spec.TopologySpreadConstraints = slices.DeleteFunc(injected(given.Changes), func(k corev1.TopologySpreadConstraint) bool {
		return k.WhenUnsatisfiable != corev1.DoNotSchedule
	})
	pod = sent(t, prepared(received(t, pod)))
	pod.OwnerReferences, pod.Spec.Priority = nil, new(int32(0))
	return pod
}

// said is what Podgrace says of the pod's constraints; empty: nothing.
func (c *feasibilityCase) said(t *rapid.T, pod *corev1.Pod) string {
	req := request(pod, authenticationv1.UserInfo{})
	facts := defaulting.Facts{Nodes: topology.New(c.Nodes...), Pods: counted(c.Neighbours), Told: true}
	result := defaulting.For(nil, req, kubeSystemAlone).Validate(req, facts)
	said := ""
	for _, w := range result.Warnings {
		if w.Reason.Code == "SpreadContradiction" {
			said = w.Message
		}
	}
	if len(result.Denials) > 0 {
		t.Fatalf("denied: %s", draw.Show(result.Denials))
	}
	return said
}

var (
	keysOf     = regexp.MustCompile(`^topologySpreadConstraints on (.*?) (can't be met now|can each be met now, and together they can't|can't be met together now)(.*)`)
	leavesOf   = regexp.MustCompile(`^: the first leaves (.*), the second (.*); raise maxSkew`)
	nodeNamed  = regexp.MustCompile(`\bn\d\b`)
	moreThan   = regexp.MustCompile(` and (\d+) more$`)
	nodesCount = regexp.MustCompile(`^(\d+) nodes? only$`)
)

// checkNaming holds what is named against the plugin, and returns what it was.
func checkNaming(t *rapid.T, hard []corev1.TopologySpreadConstraint, left func(...corev1.TopologySpreadConstraint) []string, said string) string {
	parts := keysOf.FindStringSubmatch(said)
	if parts == nil {
		t.Fatalf("Podgrace says %q", said)
	}
	var named []corev1.TopologySpreadConstraint
	for key := range strings.SplitSeq(strings.ReplaceAll(parts[1], " and ", ", "), ", ") {
		named = append(named, hard[slices.IndexFunc(hard, func(k corev1.TopologySpreadConstraint) bool { return k.TopologyKey == key })])
	}
	wrong := func(what string) { t.Fatalf("%s, and Podgrace says %q\n%s", what, said, draw.Show(hard)) }
	if nodes := left(named...); len(nodes) > 0 {
		wrong("the scheduler would take " + strings.Join(nodes, ", ") + " for what is named")
	}
	labels := strings.Contains(said, ": no node that the pod may use has ")
	switch each := leavesOf.FindStringSubmatch(parts[3]); {
	case len(named) == 1:
		return "one"
	case slices.ContainsFunc(hard, func(k corev1.TopologySpreadConstraint) bool { return len(left(k)) == 0 }) && !labels:
		wrong("one can't be met by itself")
	case labels:
		return "several by their labels"
	case len(named) == 2 && each != nil:
		for i, k := range named {
			if !names(each[i+1], left(k)) {
				wrong("the scheduler would take " + strings.Join(left(k), ", ") + " for " + k.TopologyKey + " alone")
			}
		}
		return "two for the pods that run"
	case len(named) < 3 || len(left(named[0], named[1])) == 0 || len(left(named[0], named[2])) == 0 || len(left(named[1], named[2])) == 0:
		wrong("two of them can't be met")
	}
	return "more than two"
}

// names reports whether a text names these nodes, or some of them and how many more there are, or their number.
func names(text string, nodes []string) bool {
	number := func(pattern *regexp.Regexp) int {
		if m := pattern.FindStringSubmatch(text); m != nil {
			n, _ := strconv.Atoi(m[1])
			return n
		}
		return 0
	}
	named := nodeNamed.FindAllString(text, -1)
	for _, n := range named {
		if !slices.Contains(nodes, n) {
			return false
		}
	}
	return len(named)+number(moreThan)+number(nodesCount) == len(nodes)
}
