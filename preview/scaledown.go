package preview

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	"k8s.io/kubernetes/pkg/controller"

	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/preview/scheduler"
)

// scaleDown is what a workload loses if only the number of its pods changes; nil: it does not have more, or its controller is none of those that remove pods of a template.
func (p *Previewer) scaleDown(ctx context.Context, v *Preview, replicas int) (*scheduling.ScaleDown, error) {
	pods := slices.DeleteFunc(p.owned(v), func(pod *corev1.Pod) bool { return !controller.IsPodActive(pod) })
	if len(pods) <= replicas {
		return nil, nil
	}
	if n := revisionsOf(pods); n > 1 && v.strategy != nil {
		v.Notes = append(v.Notes, fmt.Sprintf("Its %d pods are of %d revisions. Which of them go is not shown: during an update the Deployment controller scales all revisions in proportion.", len(pods), n))
		return nil, nil
	}
	order := p.removal(v, pods, replicas)
	if len(order) == 0 {
		return nil, nil
	}
	down := &scheduling.ScaleDown{From: len(pods), To: len(pods) - len(order), Removed: make([]scheduling.Removed, 0, len(order))}
	on := onNodes(pods)
	delete(on, "") // which is no node
	for _, pod := range order {
		cost, _ := helper.GetDeletionCostFromPodAnnotations(pod.Annotations) // one that can't be read counts as 0
		down.Removed = append(down.Removed, scheduling.Removed{Name: pod.Name, Node: pod.Spec.NodeName, Ready: podutil.IsPodReady(pod), DeletionCost: cost, OnNode: on[pod.Spec.NodeName]})
	}
	left := &revision{pod: v.Pod}
	if v.strategy != nil {
		left.pod = of(v.Pod, pods[0].Labels[hashLabel])
	}
	for _, pod := range pods {
		switch {
		case slices.Contains(order, pod):
		case pod.Spec.NodeName == "":
			left.pending = append(left.pending, pod)
		default:
			left.placed = append(left.placed, pod)
		}
	}
	s, err := scheduler.New(ctx, p.clusterFor(v.Pod.Spec.SchedulerName).Without(order...))
	if err != nil {
		return nil, err
	}
	down.Left, err = (&rollout{Scheduler: s, ctx: ctx}).end(left)
	return down, err
}

// removal are the pods that go, the first to go first. Other controllers than these have no number of replicas, or another rule.
func (p *Previewer) removal(v *Preview, pods []*corev1.Pod, replicas int) []*corev1.Pod {
	switch metav1.GetControllerOfNoCopy(v.Pod).Kind {
	case "ReplicaSet", "ReplicationController": // the controller of ReplicationControllers is that of ReplicaSets (pkg/controller/replication, 1.36.3)
		return leaving(pods, pods, metav1.NewTime(p.now()))[:len(pods)-replicas]
	case "StatefulSet":
		return condemned(pods, max(ordinalOf(v.Pod), 0), replicas)
	}
	return nil
}

// leaving are the pods of a ReplicaSet in the order in which its controller removes them: those without a node, that are not ready, of a lower deletion cost, on a node with more related
// pods, and the younger ones first (getPodsToDelete and getPodsRankedByRelatedPodsOnSameNode in pkg/controller/replicaset/replica_set.go, 1.36.3). Related are the pods of all ReplicaSets of
// its Deployment. Pods are counted once, before the first goes.
func leaving(pods, related []*corev1.Pod, now metav1.Time) []*corev1.Pod {
	on := onNodes(related)
	ranked := controller.ActivePodsWithRanks{Pods: slices.Clone(pods), Now: now}
	for _, p := range pods {
		ranked.Rank = append(ranked.Rank, on[p.Spec.NodeName])
	}
	sort.Stable(ranked)
	return ranked.Pods
}

// condemned are the pods of a StatefulSet whose ordinals it does not ask for, the highest first (updateStatefulSet in pkg/controller/statefulset/stateful_set_control.go, 1.36.3).
func condemned(pods []*corev1.Pod, start, replicas int) []*corev1.Pod {
	gone := slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool {
		n := ordinalOf(p)
		return n < 0 || n >= start && n < start+replicas
	})
	slices.SortFunc(gone, func(a, b *corev1.Pod) int { return cmp.Compare(ordinalOf(b), ordinalOf(a)) })
	return gone
}

// now is the time by which pods are young or old.
func (p *Previewer) now() time.Time {
	if c := p.engine.Clock; c != nil {
		return c.Now()
	}
	return time.Now()
}

func onNodes(pods []*corev1.Pod) map[string]int {
	on := map[string]int{}
	for _, p := range pods {
		on[p.Spec.NodeName]++
	}
	return on
}

// revisionsOf is how many controllers pods have.
func revisionsOf(pods []*corev1.Pod) int {
	owners := map[string]bool{}
	for _, p := range pods {
		owners[metav1.GetControllerOfNoCopy(p).Name] = true
	}
	return len(owners)
}
