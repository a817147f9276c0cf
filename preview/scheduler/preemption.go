package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/podgrace/podgrace/cli/scheduling"
)

// Preemption is what it would cost to make room.
type Preemption struct {
	// Refused is why the pod may not preempt others at all.
	Refused string `json:"refused,omitempty"`
	// Candidates are the nodes that would take the pod without some of their pods: the scheduler's pick first, then the one that it would pick without the first, then
	// the others by name. The scheduler looks at some of them only where there are many, from a random one on (DefaultPreemptionArgs).
	Candidates []Candidate `json:"candidates,omitempty"`
}

// Candidate is a node that would take the pod without its victims.
type Candidate struct {
	Node string `json:"node"`
	// Victims are in descending order of importance.
	Victims []*corev1.Pod `json:"-"`
	// Criteria are those by which the scheduler compares candidates, the first one first (pickOneNodeForPreemption in pkg/scheduler/framework/preemption, 1.36.3).
	Criteria scheduling.Criteria `json:"criteria"`
}

// preempt is the framework's dry run over all nodes where it could help.
func (c *cycle) preempt(ctx context.Context) (*Preemption, error) {
	if c.preemption == nil {
		return &Preemption{Refused: "the profile has no plugin " + names.DefaultPreemption}, nil
	}
	ev := c.preemption.Evaluator
	if ok, why := ev.PodEligibleToPreemptOthers(ctx, c.pod, c.refused.Get(c.pod.Status.NominatedNodeName)); !ok {
		return &Preemption{Refused: why}, nil
	}
	nodes, err := c.refused.NodesForStatusCode(c.snapshot.NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return nil, fmt.Errorf("find the nodes where preemption could help: %w", err)
	}
	if len(nodes) == 0 {
		return &Preemption{}, nil
	}
	var budgets []*policyv1.PodDisruptionBudget
	if budgets, err = ev.PdbLister.List(labels.Everything()); err != nil {
		return nil, fmt.Errorf("list the budgets: %w", err)
	}
	found, _, err := ev.DryRunPreemption(ctx, c.state, c.pod, nodes, budgets, 0, int32(len(nodes)))
	if err != nil && len(found) == 0 { // of one node it says nothing of the others (Preempt in pkg/scheduler/framework/preemption/preemption.go, 1.36.3)
		return nil, fmt.Errorf("try preemption: %w", err)
	}
	slices.SortFunc(found, func(a, b preemption.Candidate) int { return cmp.Compare(a.Name(), b.Name()) })
	p, now := &Preemption{}, time.Now()
	for range min(2, len(found)) { // the pick and the runner-up
		pick := pick(ctx, ev, found, now)
		p.Candidates = append(p.Candidates, candidateOf(pick, now))
		found = slices.DeleteFunc(found, func(c preemption.Candidate) bool { return c.Name() == pick.Name() })
	}
	for _, f := range found {
		p.Candidates = append(p.Candidates, candidateOf(f, now))
	}
	return p, nil
}

// pick is the scheduler's, and of those that are as good the first by name: it takes one of them by chance.
func pick(ctx context.Context, ev *preemption.Evaluator, from []preemption.Candidate, now time.Time) preemption.Candidate {
	as := criteriaOf(ev.SelectCandidate(ctx, from).Victims(), now)
	return from[slices.IndexFunc(from, func(c preemption.Candidate) bool { return criteriaOf(c.Victims(), now) == as })]
}

func candidateOf(c preemption.Candidate, now time.Time) Candidate {
	return Candidate{Node: c.Name(), Victims: c.Victims().Pods, Criteria: criteriaOf(c.Victims(), now)}
}

// criteriaOf has victims that have not begun begin now, all at once. The scheduler asks a clock for each, and so ranks them by chance.
func criteriaOf(v *extenderv1.Victims, now time.Time) scheduling.Criteria {
	c := scheduling.Criteria{Violations: v.NumPDBViolations, Victims: len(v.Pods)}
	for i, p := range v.Pods {
		priority := corev1helpers.PodPriority(p)
		if i == 0 || priority > c.HighestPriority {
			c.HighestPriority = priority
		}
		c.SumOfPriorities += int64(priority) + 1<<31
	}
	if start := util.GetEarliestPodStartTime(v); start != nil {
		c.Start = min(start.Unix(), now.Unix())
	}
	return c
}
