package enforcement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// NodeConditionEnforced of a Node is True while every file that its policy's mode covers holds what was planned. It is False with ReasonObserveOnly or ReasonReadOnly if the
// enforcer only observes. The node enforcer alone writes it: a Node without it has no enforcer.
const NodeConditionEnforced corev1.NodeConditionType = "PodgraceEnforced"

// KernelChanged is in the message of NodeConditionEnforced before the kernel's parameters that are not as the kubelet sets them.
const KernelChanged = "; the kernel: "

// NodeConditionPressure of a Node is True while the node is under pressure by its NodePolicy's thresholds.
const NodeConditionPressure corev1.NodeConditionType = "PodgracePressure"

// ReasonEvicted is the reason of the condition DisruptionTarget of a pod that the node enforcer evicted.
const ReasonEvicted = "EvictionByNodeEnforcer"

// TaintPressure keeps the scheduler from refilling a node under pressure (effect NoSchedule). Its value names the resources.
const TaintPressure = "podgrace.dev/pressure"

// NodeConditions are all conditions that the node enforcer writes.
var NodeConditions = []corev1.NodeConditionType{NodeConditionPressure, NodeConditionEnforced, NodeConditionMemoryProtection}

// Reasons of NodeConditionEnforced if nothing that policies ask for is written.
const (
	// ReasonObserveOnly: no policy asks for a mode that writes.
	ReasonObserveOnly = "ObserveOnly"
	// ReasonReadOnly: a policy asks for it, and the enforcer is installed read-only.
	ReasonReadOnly = "ReadOnly"
	// ReasonKubeletUnknown: a policy asks for it, and the kubelet's configuration is not known.
	ReasonKubeletUnknown = "KubeletConfigUnknown"
)

// ReadOnlyRemedy is how an enforcer that is installed read-only gets the right to write.
const ReadOnlyRemedy = "set nodeEnforcer.mode=Enforce with Helm, or add the component nodeenforcer-enforce with kustomize"

// Alike are nodes of a cluster on which the same comes of what is asked for.
type Alike struct {
	// Policy of the nodes; nil: none.
	Policy *v1alpha1.NodePolicy
	// Enforcer: a node enforcer runs there, or did.
	Enforcer bool
	// ReadOnly: that enforcer is installed read-only, and writes nothing whatever the policy asks for.
	ReadOnly bool
	// Memory says who protects memory there.
	Memory MemoryProtector
	// Nodes is how many they are.
	Nodes int
}

// Reach is on how many nodes of a cluster all of what is asked for holds, and why not on the others.
type Reach struct {
	// Nodes of the cluster.
	Nodes int
	// Whole is on how many all of it holds, and None on how many nothing does.
	Whole, None int
	// Short says why not on the others, those that concern most nodes first.
	Short []string
}

// maxReasons is how many of the reasons a Reach tells: of policies there may be hundreds.
const maxReasons = 3

// ReachOf says where what is asked for holds.
func ReachOf(e *v1alpha1.Enforcement, cluster []Alike) Reach {
	var r Reach
	type short struct {
		why   string
		nodes int
	}
	var shorts []short
	for _, a := range cluster {
		r.Nodes += a.Nodes
		why, none := a.Lacks(e)
		switch {
		case why == "":
			r.Whole += a.Nodes
			continue
		case none:
			r.None += a.Nodes
		}
		if i := slices.IndexFunc(shorts, func(s short) bool { return s.why == why }); i >= 0 {
			shorts[i].nodes += a.Nodes
		} else {
			shorts = append(shorts, short{why, a.Nodes})
		}
	}
	slices.SortFunc(shorts, func(a, b short) int { return cmp.Or(cmp.Compare(b.nodes, a.nodes), strings.Compare(a.why, b.why)) })
	others := 0
	for i, s := range shorts {
		if i >= maxReasons {
			others += s.nodes
			continue
		}
		r.Short = append(r.Short, fmt.Sprintf("on %s %s", nodes(s.nodes, r.Nodes), s.why))
	}
	if others > 0 {
		r.Short = append(r.Short, fmt.Sprintf("on %d more for other reasons", others))
	}
	return r
}

// Lacks says why not all of what is asked for holds on these nodes; empty: all does. none: nothing does.
func (a Alike) Lacks(e *v1alpha1.Enforcement) (why string, none bool) {
	if !a.Enforcer {
		return "there is no node enforcer", true
	}
	if a.Policy == nil {
		return "there is no NodePolicy whose nodeSelector matches", true
	}
	if a.ReadOnly && AsksToAct(&a.Policy.Spec) {
		return fmt.Sprintf("the node enforcer is installed read-only (%s)", ReadOnlyRemedy), true
	}
	var lacking []string
	none = true
	for _, o := range Under(e, &a.Policy.Spec) {
		a.Memory.over(&o)
		none = none && o.Nothing()
		switch {
		case o.Why == "":
		case o.Got == "":
			lacking = append(lacking, fmt.Sprintf("nothing is done for %s (%s)", o.Field, o.Why))
		default:
			lacking = append(lacking, fmt.Sprintf("%s %s is lowered to %s (%s)", o.Field, o.Asked, o.Got, o.Why))
		}
	}
	if len(lacking) == 0 {
		return "", false
	}
	name := "NodePolicy " + a.Policy.Name + " holds: "
	if none && !Writes(a.Policy.Spec.Mode) {
		return name + fmt.Sprintf("its mode %s writes nothing", modeOf(&a.Policy.Spec)), true
	}
	return name + strings.Join(lacking, ", "), none
}

// AsksToAct reports whether a policy asks for what a read-only enforcer does not do: to write cgroups or to evict pods.
func AsksToAct(p *v1alpha1.NodePolicySpec) bool { return Writes(p.Mode) || Evicts(p) }

func nodes(n, of int) string {
	switch {
	case n == of && n == 1:
		return "the only node"
	case n == of:
		return fmt.Sprintf("all %d nodes", n)
	}
	return fmt.Sprintf("%d of %d nodes", n, of)
}

// String says it in a sentence.
func (r Reach) String() string {
	switch {
	case r.Nodes == 0:
		return "the cluster has no nodes"
	case r.Whole == r.Nodes:
		return fmt.Sprintf("the node section holds on %s", nodes(r.Nodes, r.Nodes))
	case r.None == r.Nodes:
		return "the node section has no effect: " + strings.Join(r.Short, "; ")
	}
	return fmt.Sprintf("the node section holds as it is on %d of %d nodes: %s", r.Whole, r.Nodes, strings.Join(r.Short, "; "))
}

// Node is what of a Node object decides what holds there.
type Node struct {
	Labels map[string]string
	// Enforcer: it has NodeConditionEnforced.
	Enforcer bool
	// ReadOnly: that has ReasonReadOnly.
	ReadOnly bool
	// Memory is the reason of NodeConditionMemoryProtection.
	Memory MemoryProtector
}

// NodeOf reads a Node object.
func NodeOf(n *corev1.Node) Node {
	node := Node{Labels: n.Labels}
	for _, c := range n.Status.Conditions {
		switch c.Type {
		case NodeConditionEnforced:
			node.Enforcer, node.ReadOnly = true, c.Reason == ReasonReadOnly
		case NodeConditionMemoryProtection:
			if p := MemoryProtector(c.Reason); slices.Contains(MemoryProtectors, p) { // else it is why nothing is written
				node.Memory = p
			}
		}
	}
	return node
}

// Group puts a cluster's nodes together that are alike.
func Group(cluster []Node, policies NodePolicies) []Alike {
	counts := map[Alike]int{}
	for _, n := range cluster {
		counts[Alike{Policy: policies.For(n.Labels), Enforcer: n.Enforcer, ReadOnly: n.ReadOnly, Memory: n.Memory}]++
	}
	all := make([]Alike, 0, len(counts))
	for a, n := range counts {
		a.Nodes = n
		all = append(all, a)
	}
	return all
}
