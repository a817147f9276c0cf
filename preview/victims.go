package preview

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/preview/scheduler"
)

// preemptor is the user who deletes victims.
const preemptor = "system:kube-scheduler"

func (p *Previewer) preemption(ctx context.Context, found *scheduler.Preemption) *scheduling.Preemption {
	told := &scheduling.Preemption{Refused: found.Refused}
	for _, c := range found.Candidates {
		candidate := scheduling.Candidate{Node: c.Node, Criteria: c.Criteria}
		for _, pod := range c.Victims {
			v := p.victim(pod)
			candidate.Victims = append(candidate.Victims, v)
			candidate.GoneWithin = max(candidate.GoneWithin, v.GraceSeconds)
		}
		told.Candidates = append(told.Candidates, candidate)
	}
	if len(told.Candidates) > 0 {
		pick := &told.Candidates[0]
		for i := range pick.Victims { // of the others nobody asks
			pick.Victims[i].Guard = p.guard(ctx, found.Candidates[0].Victims[i])
		}
	}
	if len(told.Candidates) > 1 {
		told.Decided = decided(told.Candidates[0].Criteria, told.Candidates[1].Criteria)
	}
	return told
}

func (p *Previewer) victim(pod *corev1.Pod) scheduling.Victim {
	v := scheduling.Victim{Namespace: pod.Namespace, Name: pod.Name, Priority: corev1helpers.PodPriority(pod), Budget: p.budgets.left(pod)}
	v.GraceSeconds, v.Terminating = timeOf(pod, p.now())
	return v
}

// timeOf is how long a pod has from now on that is deleted now, or was before.
func timeOf(pod *corev1.Pod, now time.Time) (seconds int64, terminating bool) {
	deletion := graceperiod.Delete(pod, nil, now)
	if !deletion.Pending {
		return deletion.Seconds, false
	}
	return max(int64(math.Ceil(pod.DeletionTimestamp.Sub(now).Seconds())), 0), true
}

// guard is what the removal guard says of the scheduler's DELETE.
func (p *Previewer) guard(ctx context.Context, pod *corev1.Pod) string {
	d, err := Document(pod)
	if err != nil {
		return ""
	}
	result, wrong := p.engine.Review(ctx, d, review.Question{Operation: review.OperationDelete, User: authenticationv1.UserInfo{Username: preemptor, Groups: []string{"system:authenticated"}}})
	if wrong != nil || result == nil || result.Decision != review.Denied {
		return ""
	}
	return result.Message
}

// decided is the first criterion in which one candidate is better than another.
func decided(a, b scheduling.Criteria) string {
	switch {
	case a.Violations != b.Violations:
		return fmt.Sprintf("%s, against %d", console.Plural(int(a.Violations), "violated PodDisruptionBudget", "violated PodDisruptionBudgets"), b.Violations)
	case a.HighestPriority != b.HighestPriority:
		return fmt.Sprintf("%d as the highest priority of a victim, against %d", a.HighestPriority, b.HighestPriority)
	case a.SumOfPriorities != b.SumOfPriorities && a.Victims == b.Victims:
		return "a smaller sum of the victims' priorities"
	case a.SumOfPriorities != b.SumOfPriorities || a.Victims != b.Victims:
		return fmt.Sprintf("%s, against %d", console.Plural(a.Victims, "victim", "victims"), b.Victims)
	case a.Start != b.Start:
		return "its victims began later"
	}
	return ""
}

// budgets are the PodDisruptionBudgets by namespace.
type budgets struct{ of map[string][]budget }

type budget struct {
	selects labels.Selector
	left    int32
}

func newBudgets(s *review.State) *budgets {
	b := &budgets{map[string][]budget{}}
	for _, o := range review.Objects[*policyv1.PodDisruptionBudget](s) {
		if selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector); err == nil { // else it selects nothing
			b.of[o.Namespace] = append(b.of[o.Namespace], budget{selector, o.Status.DisruptionsAllowed})
		}
	}
	return b
}

// left is how many more pods may go by the budget that leaves least.
func (b *budgets) left(pod *corev1.Pod) *int32 {
	mine := slices.DeleteFunc(slices.Clone(b.of[pod.Namespace]), func(b budget) bool { return !b.selects.Matches(labels.Set(pod.Labels)) })
	if len(mine) == 0 {
		return nil
	}
	least := slices.MinFunc(mine, func(a, b budget) int { return cmp.Compare(a.left, b.left) })
	return &least.left
}
