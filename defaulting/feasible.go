package defaulting

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/defaulting/topology"
)

// maxComparisons bounds the time of infeasible for a pod whose affinity and tolerations are new, to some hundredths of a second. An ordinary
// pod needs 20 comparisons for each node; a pod can be written that needs 100,000.
const maxComparisons = 2_000_000

// Unjudged is why it was not checked whether hard constraints are feasible, in one word.
type Unjudged string

const (
	// TooDear is where comparing the pod with all nodes would take longer than a review may.
	TooDear Unjudged = "TooDear"
	// PodsUnknown is where the pods that are there already could not be read.
	PodsUnknown Unjudged = "PodsUnknown"
)

// comparisons estimates how often infeasible compares a term or toleration of the pod with a node.
func comparisons(pod *corev1.Pod, nodes int) int {
	of := len(pod.Spec.NodeSelector) + len(pod.Spec.Tolerations) + 1
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			of++
			for _, r := range slices.Concat(term.MatchExpressions, term.MatchFields) {
				of += 1 + len(r.Values)
			}
		}
	}
	return of * nodes
}

// infeasible says which hard constraints no node can meet at this moment, by index, and why. It follows the scheduler's
// PodTopologySpread (pkg/scheduler/framework/plugins/podtopologyspread/filtering.go, 1.36.3): a domain counts if a node
// with all the keys of the hard constraints is in it and passes the constraint's inclusion policies; with fewer domains
// than minDomains the global minimum is 0.
//
// One domain is not infeasible: its skew is 0 or 1 more than itself. Without a single node nothing is judged.
//
// Where facts are unknown a constraint counts as feasible, and the second result says why it was not checked; empty: all were.
func infeasible(pod *corev1.Pod, constraints []corev1.TopologySpreadConstraint, facts Facts) (problems map[int]string, unjudged Unjudged) {
	problems = map[int]string{}
	switch nodes := facts.Nodes.Len(); {
	case nodes == 0:
		return problems, ""
	case comparisons(pod, nodes) > maxComparisons:
		return problems, TooDear
	}
	asks := topology.ForPod(pod)
	judge := func(together bool) {
		keys := hardKeys(constraints, problems)
		for i, c := range constraints {
			if _, bad := problems[i]; bad || c.WhenUnsatisfiable != corev1.DoNotSchedule {
				continue
			}
			if !together {
				keys = []string{c.TopologyKey}
			}
			asked, minDomains := onNodes(c, keys), 1
			if together {
				minDomains = int(ptr.Deref(c.MinDomains, 1))
			}
			domains, usable := facts.Nodes.Domains(asks, asked, minDomains)
			switch {
			case !usable: // with nodeAffinityPolicy Ignore a domain may have no node that the pod can use
				problems[i] = "no node that the pod may use has the label " + strings.Join(keys, " and ")
			case domains < minDomains:
				has, known := full(pod, c, facts, asks, asked)
				if !known {
					unjudged = PodsUnknown
				}
				if !has {
					continue
				}
				problems[i] = fmt.Sprintf(wordsDomainsFull, *c.MinDomains, domains, c.MaxSkew)
			}
		}
	}
	// First each by itself, so that the one which no node can meet is named; then those that are left, together, because the
	// scheduler looks only at nodes that have all of their keys.
	judge(false)
	judge(true)
	return problems, unjudged
}

// onNodes is what a constraint asks of nodes: nodeAffinityPolicy is Honor by default, nodeTaintsPolicy Ignore.
func onNodes(c corev1.TopologySpreadConstraint, keys []string) topology.Constraint {
	return topology.Constraint{
		Key: c.TopologyKey, Keys: keys,
		HonorAffinity: ptr.Deref(c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor,
		HonorTaints:   ptr.Deref(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyHonor,
	}
}

// hardKeys returns the keys of the hard constraints that have no problem yet.
func hardKeys(constraints []corev1.TopologySpreadConstraint, problems map[int]string) []string {
	var keys []string
	for i, c := range constraints {
		if _, bad := problems[i]; !bad && c.WhenUnsatisfiable == corev1.DoNotSchedule {
			keys = append(keys, c.TopologyKey)
		}
	}
	return keys
}

// full reports whether each domain has as many pods as maxSkew permits above the global minimum of 0.
func full(pod *corev1.Pod, c corev1.TopologySpreadConstraint, facts Facts, asks topology.Pod, asked topology.Constraint) (full, known bool) {
	if facts.Pods == nil {
		return false, false
	}
	selector, self := countedBy(pod, c)
	on, known := facts.Pods(selector)
	return known && facts.Nodes.Fewest(asks, asked, slices.Values(nodesOf(on)))+self > int(c.MaxSkew), known
}

// countedBy returns the selector as it is after the API server merged matchLabelKeys into it, and how much the pod itself
// adds to its domain.
func countedBy(pod *corev1.Pod, c corev1.TopologySpreadConstraint) (labels.Selector, int) {
	merged := c.LabelSelector.DeepCopy()
	for _, key := range c.MatchLabelKeys {
		if value, ok := pod.Labels[key]; ok && merged != nil { // without a selector nothing is counted
			merged.MatchExpressions = append(merged.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(merged)
	if err != nil {
		return labels.Nothing(), 0
	}
	if selector.Matches(labels.Set(pod.Labels)) {
		return selector, 1
	}
	return selector, 0
}
