package doctor

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/pod/graceperiod/deadline"
)

// gracePeriods: who stops a node waits as long as the policies have pods take.
func gracePeriods(s *Snapshot) (found []Finding) {
	longest, by := longestGrace(s.PodPolicies)
	if longest == 0 {
		return nil
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(longest / time.Second))}}
	var autoscaler *time.Duration
	for i := range s.Deployments {
		if waits := deadline.AutoscalerOf(&s.Deployments[i]); waits != nil {
			autoscaler = waits
		}
	}
	nodes, order := map[deadline.Deadline][]string{}, []deadline.Deadline{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		f := deadline.Facts{Labels: n.Labels, Kubelet: s.Kubelets[n.Name], Autoscaler: autoscaler}
		for j := range s.NodePools {
			if p := &s.NodePools[j]; n.Labels[deadline.LabelNodePool] == p.Name {
				f.Pool = p
			}
		}
		for _, d := range deadline.Short(pod, f) {
			if nodes[d] == nil {
				order = append(order, d)
			}
			nodes[d] = append(nodes[d], n.Name)
		}
	}
	for _, d := range order {
		found = append(found, ofNodes(nodes[d], Finding{
			Severity: Warning, Message: fmt.Sprintf("%s leaves a pod %d s at most, where PodPolicy %s gives it %d s", d.Of, d.Seconds, by, int64(longest/time.Second)),
			Remedy: d.Remedy + ", or lower what the policy gives",
		})...)
	}
	return found
}

// longestGrace is the longest grace period that a policy gives, by default or as a minimum, and which policy does. 0: none.
func longestGrace(policies []v1alpha1.PodPolicy) (longest time.Duration, by string) {
	for _, p := range policies {
		if p.Spec.GracePeriod == nil {
			continue
		}
		for _, seconds := range []*int64{p.Spec.GracePeriod.DefaultSeconds, p.Spec.GracePeriod.MinSeconds} {
			if seconds == nil {
				continue
			}
			if d := time.Duration(*seconds) * time.Second; d > longest {
				longest, by = d, p.Name
			}
		}
	}
	return longest, by
}
