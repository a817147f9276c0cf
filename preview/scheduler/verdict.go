package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/podgrace/podgrace/cli/scheduling"
)

// Verdict is what the scheduler finds for a pod.
type Verdict struct {
	Outcome scheduling.Outcome `json:"outcome"`
	// Why is said of the pod as a whole, where no node is at fault: a claim that is missing, a gate.
	Why string `json:"why,omitempty"`
	// Nominated is the node that was said to be for this pod before, if it fits: the scheduler looks at no other.
	Nominated string `json:"nominated,omitempty"`
	// Nodes are all of them: those that fit first, the best of them first; then by name.
	Nodes []Node `json:"nodes"`
	// Spread has a table for each constraint of the pod.
	Spread []scheduling.Spread `json:"spread,omitempty"`
	// Contradictions are those of the spread constraints, where they alone are why there is no node.
	Contradictions []scheduling.Contradiction `json:"contradictions,omitempty"`
	// Preemption is nil where a node fits.
	Preemption *Preemption `json:"preemption,omitempty"`
}

// Node is what the scheduler finds for a pod on one node.
type Node struct {
	Name string `json:"name"`
	Fits bool   `json:"fits"`
	// Plugin is the first one that refuses the node, and Reasons its words, as in the Event FailedScheduling.
	Plugin  string   `json:"plugin,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
	// MayPreempt: it could be otherwise without pods of lower priority on this node (Unschedulable, and not UnschedulableAndUnresolvable).
	MayPreempt bool `json:"mayPreempt,omitempty"`
	// Scores of the plugins, for a node that fits, and their sum. The scheduler takes a node with the highest one.
	Scores []scheduling.Score `json:"scores,omitempty"`
	Total  int64              `json:"total,omitempty"`
}

// Best are the nodes of which the scheduler takes one, by chance where there are several.
func (v *Verdict) Best() []Node {
	if i := slices.IndexFunc(v.Nodes, func(n Node) bool { return n.Name == v.Nominated }); i >= 0 {
		return v.Nodes[i : i+1]
	}
	n := 0
	for n < len(v.Nodes) && v.Nodes[n].Fits && v.Nodes[n].Total == v.Nodes[0].Total {
		n++
	}
	return v.Nodes[:n]
}

// Fit is how many nodes fit.
func (v *Verdict) Fit() int {
	n := slices.IndexFunc(v.Nodes, func(n Node) bool { return !n.Fits })
	if n < 0 {
		return len(v.Nodes)
	}
	return n
}

// Judge asks the scheduler about a pod that has no node yet. The error is a plugin's own: nothing can be said then.
func (s *Scheduler) Judge(ctx context.Context, pod *corev1.Pod) (*Verdict, error) {
	if why := s.gated(ctx, pod); why != "" {
		return &Verdict{Outcome: scheduling.Gated, Why: why}, nil
	}
	v := &Verdict{Outcome: scheduling.Nowhere}
	var err error
	if v.Spread, err = s.spread.table(ctx, pod); err != nil {
		return nil, err
	}
	pod = s.spread.explicit(pod)
	c, err := s.cycle(pod)
	if err != nil {
		return nil, err
	}
	if v.Why, err = c.filter(ctx); err != nil {
		return nil, err
	}
	if len(c.fit) > 0 {
		v.Outcome, v.Nominated = scheduling.Fits, c.nominated()
	} else if v.Preemption, err = c.preempt(ctx); err != nil {
		return nil, err
	} else if len(v.Preemption.Candidates) > 0 {
		v.Outcome = scheduling.Preempts
	} else if v.Contradictions, err = s.contradictions(ctx, pod); err != nil {
		return nil, err
	}
	v.Nodes, err = c.nodes(ctx)
	return v, err
}

// gated is why the pod does not even come into the scheduler's queue.
func (s *Scheduler) gated(ctx context.Context, pod *corev1.Pod) string {
	for _, p := range s.framework.PreEnqueuePlugins() {
		if status := p.PreEnqueue(ctx, pod); !status.IsSuccess() {
			return status.Message()
		}
	}
	return ""
}

// cycle is one pod's way through the framework (schedulePod in pkg/scheduler/schedule_one.go, 1.36.3).
type cycle struct {
	*Scheduler
	pod     *corev1.Pod
	state   fwk.CycleState
	all     []fwk.NodeInfo
	fit     []fwk.NodeInfo
	refused *framework.NodeToStatus
}

func (s *Scheduler) cycle(pod *corev1.Pod) (*cycle, error) {
	all, err := s.snapshot.NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	return &cycle{Scheduler: s, pod: identified(pod), state: framework.NewCycleState(), all: all, refused: framework.NewDefaultNodeToStatus()}, nil
}

// filter finds the nodes that fit, and why the others don't. It returns what was said of the pod as a whole.
func (c *cycle) filter(ctx context.Context) (string, error) {
	if len(c.all) == 0 {
		return "no nodes available to schedule pods", nil
	}
	result, status, by := c.framework.RunPreFilterPlugins(ctx, c.state, c.pod)
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return "", fmt.Errorf("plugin %s: %w", status.Plugin(), status.AsError())
		}
		c.refused.SetAbsentNodesStatus(status)
		return status.Message(), nil
	}
	nodes := c.all
	if !result.AllNodes() {
		// The pod's own node is tried all the same (evaluateNominatedNode in pkg/scheduler/schedule_one.go, 1.36.3).
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(n fwk.NodeInfo) bool {
			return !result.NodeNames.Has(n.Node().Name) && n.Node().Name != c.pod.Status.NominatedNodeName
		})
	}
	statuses := make([]*fwk.Status, len(nodes))
	c.framework.Parallelizer().Until(ctx, len(nodes), func(i int) {
		statuses[i] = c.framework.RunFilterPluginsWithNominatedPods(ctx, c.state, c.pod, nodes[i])
	}, "preview")
	for i, status := range statuses {
		switch {
		case status.IsSuccess():
			c.fit = append(c.fit, nodes[i])
		case status.IsRejected():
			c.refused.Set(nodes[i].Node().Name, status)
		default:
			return "", fmt.Errorf("plugin %s on node %s: %w", status.Plugin(), nodes[i].Node().Name, status.AsError())
		}
	}
	if !result.AllNodes() {
		if own := c.pod.Status.NominatedNodeName; own != "" && c.refused.Get(own).Plugin() != "" {
			by.Insert(c.refused.Get(own).Plugin()) // it was tried first
		}
		c.refused.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(by))))
	}
	return "", ctx.Err()
}

// nominated is the pod's own node, if it fits: the scheduler tries it before all others.
func (c *cycle) nominated() string {
	for _, n := range c.fit {
		if name := n.Node().Name; name == c.pod.Status.NominatedNodeName {
			return name
		}
	}
	return ""
}

// nodes tells of all nodes.
func (c *cycle) nodes(ctx context.Context) ([]Node, error) {
	scored, err := c.score(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Node, 0, len(c.all))
	for _, info := range c.all {
		name := info.Node().Name
		if n, ok := scored[name]; ok {
			all = append(all, n)
			continue
		}
		status := c.refused.Get(name)
		all = append(all, Node{Name: name, Plugin: status.Plugin(), Reasons: status.Reasons(), MayPreempt: status.Code() == fwk.Unschedulable})
	}
	slices.SortFunc(all, func(a, b Node) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

func rank(n Node) int {
	if n.Fits {
		return 1
	}
	return 0
}

// score has the plugins rank the nodes that fit. The scheduler does not do so for one alone; here it is told all the same, unless a plugin can't: then the node has
// no scores.
func (c *cycle) score(ctx context.Context) (map[string]Node, error) {
	scored := map[string]Node{}
	if len(c.fit) == 0 {
		return scored, nil
	}
	status := c.framework.RunPreScorePlugins(ctx, c.state, c.pod, c.fit)
	var scores []fwk.NodePluginScores
	if status.IsSuccess() {
		scores, status = c.framework.RunScorePlugins(ctx, c.state, c.pod, c.fit)
	}
	if !status.IsSuccess() {
		if len(c.fit) > 1 && c.nominated() == "" {
			return nil, fmt.Errorf("plugin %s: %w", status.Plugin(), status.AsError())
		}
		for _, n := range c.fit {
			scored[n.Node().Name] = Node{Name: n.Node().Name, Fits: true}
		}
	}
	for _, of := range scores {
		n := Node{Name: of.Name, Fits: true, Total: of.TotalScore}
		for _, s := range of.Scores {
			weight := max(c.weights[s.Name], 1)
			n.Scores = append(n.Scores, scheduling.Score{Plugin: s.Name, Score: s.Score / weight, Weight: weight})
		}
		slices.SortFunc(n.Scores, func(a, b scheduling.Score) int { return cmp.Compare(a.Plugin, b.Plugin) })
		scored[of.Name] = n
	}
	return scored, nil
}
