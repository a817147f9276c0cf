package scheduling

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/manifest"
)

// Outcome is what would become of a pod.
type Outcome string

// The outcomes.
const (
	// Fits: at least one node takes it.
	Fits Outcome = "Fits"
	// Preempts: no node takes it as it is, but one would without pods of lower priority.
	Preempts Outcome = "Preempts"
	// Nowhere: it stays pending.
	Nowhere Outcome = "Nowhere"
	// Gated: the scheduler does not look at it yet (schedulingGates).
	Gated Outcome = "Gated"
	// Refused: the policies, or the API server, do not let the pod or its workload be created.
	Refused Outcome = "Refused"
	// NotKnown: the scheduler that is asked here is not the one that decides, or does not decide alone.
	NotKnown Outcome = "NotKnown"
)

// Preview is what would become of the pod that an object is or makes.
type Preview struct {
	Resource manifest.Resource `json:"resource"`
	Source   manifest.Source   `json:"source"`
	Via      string            `json:"via,omitempty"`
	Outcome  Outcome           `json:"outcome"`
	// Why is said of the pod as a whole: why it is refused, gated, not known, or fits nowhere whatever the node.
	Why string `json:"why,omitempty"`
	// Policies that hold for the pod, and what they changed.
	Policies []string          `json:"policies,omitempty"`
	Changed  map[string]string `json:"changed,omitempty"`
	// Fit is how many of all Nodes would take it.
	Fit   int `json:"fit"`
	Nodes int `json:"nodes"`
	// Groups are the nodes, alike ones together: those that fit first, the best of them first.
	Groups []Group  `json:"groups,omitempty"`
	Spread []Spread `json:"spread,omitempty"`
	// Zones of the nodes, where one of Spread is by hostname and the nodes have zones.
	Zones          []Zone          `json:"zones,omitempty"`
	Contradictions []Contradiction `json:"contradictions,omitempty"`
	Preemption     *Preemption     `json:"preemption,omitempty"`
	// Rollout is where so many pods of it would end up, if that was asked.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Notes are what may be otherwise, a sentence each.
	Notes []string `json:"notes,omitempty"`
}

// Group is nodes of which the same is said.
type Group struct {
	Fits bool `json:"fits"`
	// Plugin, Reasons and MayPreempt as for each of the nodes.
	Plugin     string   `json:"plugin,omitempty"`
	Reasons    []string `json:"reasons,omitempty"`
	MayPreempt bool     `json:"mayPreempt,omitempty"`
	// Scores and their sum, where they fit.
	Scores []Score `json:"scores,omitempty"`
	Total  int64   `json:"total,omitempty"`
	// Nodes by name.
	Nodes []string `json:"nodes"`
}

// Best returns how many nodes have the highest score, however it came to be.
func Best(all []Group) int {
	n := 0
	for _, g := range all {
		if g.Fits && g.Total == all[0].Total {
			n += len(g.Nodes)
		}
	}
	return n
}

// Score is what one plugin gives to a node: Score, from 0 to 100, is taken Weight times.
type Score struct {
	Plugin string `json:"plugin"`
	Score  int64  `json:"score"`
	Weight int64  `json:"weight"`
}

// Spread is what the scheduler counts for one of a pod's topology spread constraints.
type Spread struct {
	TopologyKey       string                               `json:"topologyKey"`
	MaxSkew           int32                                `json:"maxSkew"`
	WhenUnsatisfiable corev1.UnsatisfiableConstraintAction `json:"whenUnsatisfiable"`
	// MinDomains is 1 where the constraint does not say more.
	MinDomains int32 `json:"minDomains"`
	// Default: the pod has none, and it is one of the scheduler's configuration.
	Default bool `json:"default,omitempty"`
	// SelfMatch: the pod itself counts.
	SelfMatch bool `json:"selfMatch"`
	// Minimum is the smallest count of a domain, and 0 where there are fewer domains than MinDomains.
	Minimum int `json:"minimum"`
	// Domains are those of the nodes that count, by their value.
	Domains []Domain `json:"domains"`
}

// Skew is by how much the domain with most pods has more than the minimum.
func (s *Spread) Skew() int {
	if len(s.Domains) == 0 {
		return 0
	}
	return slices.MaxFunc(s.Domains, func(a, b Domain) int { return cmp.Compare(a.Count, b.Count) }).Count - s.Minimum
}

// Domain is a value of the topology key.
type Domain struct {
	Value string `json:"value"`
	// Count is the pods that the constraint selects there.
	Count int `json:"count"`
	// SkewAfter is the skew with the pod there: count + self match - minimum (KEP-895). More than maxSkew is too much.
	SkewAfter int `json:"skewAfter"`
}

// Contradiction is one hard spread constraint of a pod that can't be met on the nodes that the pod may have otherwise, or two that can only be met alone. If there is neither, it is three or more that can be met
// without one of them.
type Contradiction struct {
	// Constraints are their indices in the pod's topologySpreadConstraints: two, or one that stands against everything else, or more.
	Constraints []int `json:"constraints"`
	// Allows are for each of them the nodes that would take the pod if it were the only constraint.
	Allows [][]string `json:"allows"`
	// Ways are changes that were tried and get the pod a node. A single constraint may have no way out.
	Ways []Way `json:"ways,omitempty"`
}

// Way is one change of one constraint that gets the pod a node.
type Way struct {
	Constraint int `json:"constraint"`
	// NodeTaintsPolicy and NodeAffinityPolicy are Honor if the constraint counts no more nodes whose taints the pod does not tolerate, or outside its node affinity.
	NodeTaintsPolicy   corev1.NodeInclusionPolicy `json:"nodeTaintsPolicy,omitempty"`
	NodeAffinityPolicy corev1.NodeInclusionPolicy `json:"nodeAffinityPolicy,omitempty"`
	// MaxSkew is the smallest one that is enough. 0 without a policy of nodes: the constraint is made a wish (ScheduleAnyway).
	MaxSkew int32 `json:"maxSkew,omitempty"`
	// Nodes that take it then.
	Nodes []string `json:"nodes"`
}

// Changes is what a way out changes in its constraint, such as maxSkew 2.
func (w Way) Changes() string {
	var changes []string
	if w.NodeTaintsPolicy != "" {
		changes = append(changes, "nodeTaintsPolicy "+string(w.NodeTaintsPolicy))
	}
	if w.NodeAffinityPolicy != "" {
		changes = append(changes, "nodeAffinityPolicy "+string(w.NodeAffinityPolicy))
	}
	if w.MaxSkew > 0 {
		changes = append(changes, fmt.Sprintf("maxSkew %d", w.MaxSkew))
	}
	if len(changes) == 0 {
		return "ScheduleAnyway"
	}
	return strings.Join(changes, " and ")
}

// Preemption is what it would cost to make room for a pod.
type Preemption struct {
	// Refused is why the pod may not preempt others.
	Refused string `json:"refused,omitempty"`
	// Candidates are nodes that would take the pod without their victims: the scheduler's pick first, then the runner-up, then the others by name.
	Candidates []Candidate `json:"candidates,omitempty"`
	// Decided is the criterion that makes the pick better than the runner-up. Empty: there is no runner-up, or both are as good and the scheduler takes one by chance.
	Decided string `json:"decided,omitempty"`
}

// Candidate is a node, and who would have to go.
type Candidate struct {
	Node     string   `json:"node"`
	Criteria Criteria `json:"criteria"`
	Victims  []Victim `json:"victims"`
	// GoneWithin is the longest grace period of the victims, in seconds: until then there is no room.
	GoneWithin int64 `json:"goneWithinSeconds"`
}

// Victim is a pod that would be deleted, by a plain DELETE of the scheduler's.
type Victim struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Priority  int32  `json:"priority"`
	// Budget is how many more pods may go of the PodDisruptionBudget that leaves least; nil: none selects the pod. The scheduler prefers to keep to it and does not have to.
	Budget *int32 `json:"budget,omitempty"`
	// GraceSeconds is its time to stop. 0: it is removed at once, and may still run.
	GraceSeconds int64 `json:"graceSeconds"`
	// Terminating: it is being deleted already, and GraceSeconds are what is left of its time; 0: it should be gone.
	Terminating bool `json:"terminating,omitempty"`
	// Guard is why the removal guard would refuse the scheduler; empty: it would not.
	Guard string `json:"guard,omitempty"`
}

// Criteria of a candidate: less is better, but for the start, where later is better.
type Criteria struct {
	// Violations of PodDisruptionBudgets.
	Violations int64 `json:"violations"`
	// HighestPriority of a victim, and the sum of them all (taken from 0 on, so that a victim of negative priority counts, too).
	HighestPriority int32 `json:"highestPriority"`
	SumOfPriorities int64 `json:"sumOfPriorities"`
	Victims         int   `json:"victims"`
	// Start is when the first of the victims of the highest priority began, in seconds since 1970; now, if it has not.
	Start int64 `json:"start"`
}

// Zone is where domains of the key kubernetes.io/hostname are.
type Zone struct {
	// Name is the value of topology.kubernetes.io/zone.
	Name string `json:"name"`
	// Hostnames are those of its nodes (the label, which need not be the node's name), by name.
	Hostnames []string `json:"hostnames"`
}

// Rollout is where a workload's pods end up that are scheduled one after the other, each on the first by name of the best nodes.
type Rollout struct {
	Replicas int `json:"replicas"`
	// Down is what happens to the pods that are there, if they are more; nil: they are not.
	Down  *ScaleDown `json:"scaleDown,omitempty"`
	First Placement  `json:"first"`
	// Second is the same for the next revision of a Deployment, after an update with its own strategy. Nil: the workload is no Deployment.
	Second *Placement `json:"second,omitempty"`
	// MaxSurge and MaxUnavailable are the pods that the update may have more, and less. Both are 0 for the strategy Recreate.
	MaxSurge       int `json:"maxSurge,omitempty"`
	MaxUnavailable int `json:"maxUnavailable,omitempty"`
	// Left are pods of the first revision that an update which goes no further leaves running.
	Left int `json:"left,omitempty"`
}

// Placement is where pods are.
type Placement struct {
	// Placed pods, and those that fit nowhere; Why is said of the first of these.
	Placed  int    `json:"placed"`
	Pending int    `json:"pending"`
	Why     string `json:"why,omitempty"`
	// Contradictions are those of the spread constraints, if they alone are why a pod is pending and the preview does not have them yet.
	Contradictions []Contradiction `json:"contradictions,omitempty"`
	// Nodes that have some of them, by name.
	Nodes []Count `json:"nodes"`
	// Spread is what is counted for each constraint then.
	Spread []Spread `json:"spread,omitempty"`
}

// Count is how many pods are somewhere.
type Count struct {
	Value string `json:"value"`
	Pods  int    `json:"pods"`
}

// ScaleDown is which pods a workload loses that has more than are asked for.
type ScaleDown struct {
	// From is how many active pods it has, To how many it keeps.
	From int `json:"from"`
	To   int `json:"to"`
	// Removed are in the order of their removal.
	Removed []Removed `json:"removed"`
	// Left is where the others are.
	Left Placement `json:"left"`
}

// Removed is a pod that its controller removes, with what the controller goes by.
type Removed struct {
	Name string `json:"name"`
	// Node is empty for a pod that waits for one.
	Node  string `json:"node,omitempty"`
	Ready bool   `json:"ready"`
	// DeletionCost is the annotation controller.kubernetes.io/pod-deletion-cost; 0: it has none.
	DeletionCost int32 `json:"deletionCost,omitempty"`
	// OnNode is how many active pods of the workload its node has, with it.
	OnNode int `json:"onNode,omitempty"`
}

// Read reads what podgrace-preview printed. One of another version may say more than is known here, and nothing that means something else.
func Read(text []byte) (*Report, error) {
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("read the preview: %w", err)
	}
	if r.Kind != Kind || r.APIVersion != v1alpha1.GroupVersion.String() {
		return nil, fmt.Errorf("read the preview: it is %q of %q, and no %s of %s", r.Kind, r.APIVersion, Kind, v1alpha1.GroupVersion)
	}
	return &r, nil
}
