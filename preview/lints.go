package preview

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/preview/scheduler"
)

// lints are why preemption does not help a pod whose priority would justify it: what it needs would be preempted, or pods of other nodes are in its way, which the scheduler leaves alone.
func (p *Previewer) lints(ctx context.Context, pod *corev1.Pod, v *scheduler.Verdict) ([]string, error) {
	if v.Preemption == nil || v.Preemption.Refused != "" || len(v.Preemption.Candidates) > 0 {
		return nil, nil
	}
	lower := scheduler.Lower(p.cluster, pod)
	if len(lower) == 0 {
		return nil, nil
	}
	needed, err := scheduler.Needs(p.cluster, pod, lower)
	if err != nil {
		return nil, err
	}
	if len(needed) > 0 {
		return []string{fmt.Sprintf("It requires affinity to pods of lower priority than its own (%s). Where these are preempted it does not fit either, so that no preemption is tried there: give them at least its priority.",
			named(needed))}, nil
	}
	alone, err := scheduler.JudgeIn(ctx, p.clusterFor(pod.Spec.SchedulerName).Without(lower...), pod)
	if err != nil || alone.Outcome != scheduling.Fits {
		return nil, err
	}
	return []string{fmt.Sprintf("It would fit on %s if pods of lower priority went from several nodes. The scheduler preempts on the pod's own node only, so that it stays pending.",
		console.Plural(alone.Fit(), "node", "nodes"))}, nil
}

// maxNamed are how many pods a note names.
const maxNamed = 3

func named(pods []*corev1.Pod) string {
	names := make([]string, 0, len(pods))
	for _, p := range pods {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	return console.Some(names, maxNamed, ", ")
}
