package defaulting

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// maxComparisons bounds what infeasible does: some tenths of a second. An ordinary pod needs 20 in each node for each constraint; one
// can be written that needs 100,000.
const maxComparisons = 20_000_000

// comparisons are how often infeasible compares something of the pod with something of a node.
func comparisons(pod *corev1.Pod, constraints []corev1.TopologySpreadConstraint, nodes []*corev1.Node) int {
	of := len(pod.Spec.NodeSelector) + len(pod.Spec.Tolerations) + 1
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			of++
			for _, r := range slices.Concat(term.MatchExpressions, term.MatchFields) {
				of += 1 + len(r.Values)
			}
		}
	}
	hard := len(hardKeys(constraints, nil))
	const passes = 4 // each constraint by itself and together, and in both the domains and then whether one node can be used
	return of * len(nodes) * hard * passes
}

// infeasible says which hard constraints no node can meet at this moment, by index, and why. It follows the scheduler's
// PodTopologySpread (pkg/scheduler/framework/plugins/podtopologyspread/filtering.go, 1.36.3): a domain counts if a node
// with all the keys of the hard constraints is in it and passes the constraint's inclusion policies; with fewer domains
// than minDomains the global minimum is 0.
//
// One domain is not infeasible: its skew is 0 or 1 more than itself. Without a single node nothing is judged.
func infeasible(pod *corev1.Pod, constraints []corev1.TopologySpreadConstraint, facts Facts) map[int]string {
	if len(facts.Nodes) == 0 {
		return nil
	}
	problems := map[int]string{}
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	judge := func(together bool) {
		keys := hardKeys(constraints, problems)
		for i, c := range constraints {
			if _, bad := problems[i]; bad || c.WhenUnsatisfiable != corev1.DoNotSchedule {
				continue
			}
			if !together {
				keys = []string{c.TopologyKey}
			}
			domains, nodeDomain := domainsOf(pod, c, keys, affinity, facts.Nodes)
			switch {
			case len(domains) == 0 || !slices.ContainsFunc(facts.Nodes, func(n *corev1.Node) bool {
				ok, _ := affinity.Match(n) // with nodeAffinityPolicy Ignore a domain may have no node that the pod can use
				return ok && hasAll(n.Labels, keys) && included(pod, c, affinity, n)
			}):
				problems[i] = "no node that the pod may use has the label " + strings.Join(keys, " and ")
			case together && facts.Pods != nil && fewDomains(pod, c, domains, nodeDomain, facts.Pods):
				problems[i] = fmt.Sprintf("minDomains is %d, only %d domain(s) exist, and each already has maxSkew (%d) pods", *c.MinDomains, len(domains), c.MaxSkew)
			}
		}
	}
	// First each by itself, so that the one which no node can meet is named; then those that are left, together, because the
	// scheduler looks only at nodes that have all of their keys.
	judge(false)
	judge(true)
	return problems
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

// domainsOf returns the domains that count for a constraint, and each counting node's.
func domainsOf(pod *corev1.Pod, c corev1.TopologySpreadConstraint, keys []string, affinity nodeaffinity.RequiredNodeAffinity, nodes []*corev1.Node) (sets.Set[string], map[string]string) {
	domains, nodeDomain := sets.New[string](), map[string]string{}
	for _, n := range nodes {
		if !hasAll(n.Labels, keys) || !included(pod, c, affinity, n) {
			continue
		}
		domain := n.Labels[c.TopologyKey]
		domains.Insert(domain)
		nodeDomain[n.Name] = domain
	}
	return domains, nodeDomain
}

// fewDomains says whether there are fewer domains than minDomains and each has as many pods as maxSkew permits above the
// global minimum of 0.
func fewDomains(pod *corev1.Pod, c corev1.TopologySpreadConstraint, domains sets.Set[string], nodeDomain map[string]string, pods []PodOnNode) bool {
	if c.MinDomains == nil || len(domains) >= int(*c.MinDomains) {
		return false
	}
	selector, self := countedBy(pod, c)
	counts := map[string]int32{}
	for _, p := range pods {
		if domain, ok := nodeDomain[p.Node]; ok && selector.Matches(labels.Set(p.Labels)) {
			counts[domain]++
		}
	}
	for domain := range domains {
		if counts[domain]+self <= c.MaxSkew {
			return false
		}
	}
	return true
}

// countedBy returns the selector as it is after the API server merged matchLabelKeys into it, and how much the pod itself
// adds to its domain.
func countedBy(pod *corev1.Pod, c corev1.TopologySpreadConstraint) (labels.Selector, int32) {
	merged := c.LabelSelector.DeepCopy()
	for _, key := range c.MatchLabelKeys {
		if value, ok := pod.Labels[key]; ok {
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

func hasAll(have map[string]string, keys []string) bool {
	for _, key := range keys {
		if _, ok := have[key]; !ok {
			return false
		}
	}
	return true
}

// included applies nodeAffinityPolicy (default Honor) and nodeTaintsPolicy (default Ignore).
func included(pod *corev1.Pod, c corev1.TopologySpreadConstraint, affinity nodeaffinity.RequiredNodeAffinity, node *corev1.Node) bool {
	if c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor {
		// The error, about a term that can't be parsed, is ignored as the scheduler ignores it.
		if ok, _ := affinity.Match(node); !ok {
			return false
		}
	}
	if c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor {
		_, untolerated := schedulingcorev1.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, func(t *corev1.Taint) bool {
			return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
		}, true)
		return !untolerated
	}
	return true
}
