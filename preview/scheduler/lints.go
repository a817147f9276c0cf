package scheduler

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Lower are the pods of a cluster that a pod could preempt by its priority.
func Lower(c Cluster, pod *corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(c.Pods), func(p *corev1.Pod) bool {
		return p.Spec.NodeName == "" || corev1helpers.PodPriority(p) >= corev1helpers.PodPriority(pod)
	})
}

// Needs are those of some pods that a pod's required affinity wants to be near. Where they are preempted it does not fit any more, and the scheduler tries nothing else (SelectVictimsOnNode in
// plugins/defaultpreemption, 1.36.3).
func Needs(c Cluster, pod *corev1.Pod, among []*corev1.Pod) ([]*corev1.Pod, error) {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return nil, fmt.Errorf("read the affinity of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	namespaces := map[string]labels.Set{}
	for _, o := range c.Objects {
		if ns, ok := o.(*corev1.Namespace); ok {
			namespaces[ns.Name] = ns.Labels
		}
	}
	var needed []*corev1.Pod
	for _, p := range among {
		for _, term := range info.GetRequiredAffinityTerms() {
			if term.Matches(p, namespaces[p.Namespace]) {
				needed = append(needed, p)
				break
			}
		}
	}
	return needed, nil
}

// Without is a cluster without some of its pods.
func (c Cluster) Without(pods ...*corev1.Pod) Cluster {
	gone := map[*corev1.Pod]bool{}
	for _, p := range pods {
		gone[p] = true
	}
	c.Pods = slices.DeleteFunc(slices.Clone(c.Pods), func(p *corev1.Pod) bool { return gone[p] })
	return c
}

// JudgeIn is Judge in a cluster that is asked about once.
func JudgeIn(ctx context.Context, c Cluster, pod *corev1.Pod) (*Verdict, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := New(ctx, c)
	if err != nil {
		return nil, err
	}
	return s.Judge(ctx, pod)
}
