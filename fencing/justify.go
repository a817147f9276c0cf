package fencing

import (
	"fmt"
	"time"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// stake is the pod for which a silent node is worth a fence.
type stake struct {
	pod *Pod
	// wait is how long the node must have been silent; due: it has been.
	wait time.Duration
	due  bool
	why  string
}

// atStake returns the pod for which the node is worth a fence first; nil: none is. Of pods for which that is now, it is the one of the highest priority.
func atStake(n *Node, by *v1alpha1.FenceJustification) *stake {
	var best *stake
	for i := range n.Pods {
		s := patience(&n.Pods[i], by)
		if s == nil {
			continue
		}
		s.due = n.Silent >= s.wait
		if best == nil || s.before(best) {
			best = s
		}
	}
	return best
}

func (s *stake) before(o *stake) bool {
	switch {
	case s.due != o.due:
		return s.due
	case !s.due && s.wait != o.wait:
		return s.wait < o.wait
	case s.pod.Priority != o.pod.Priority:
		return s.pod.Priority > o.pod.Priority
	}
	return s.pod.Namespace+"/"+s.pod.Name < o.pod.Namespace+"/"+o.pod.Name
}

// patience is how long a pod waits for a silent node; nil: for ever, or it does not count.
func patience(p *Pod, by *v1alpha1.FenceJustification) *stake {
	if by == nil {
		by = &v1alpha1.FenceJustification{}
	}
	if !p.Protected || p.Finished || p.Forced || by.MinPriority != nil && p.Priority < *by.MinPriority {
		return nil
	}
	name := "protected pod " + p.Namespace + "/" + p.Name
	switch {
	case p.Deleting:
		return &stake{pod: p, why: name + " is being deleted, and waits for it"}
	case by.BrokenBudget && p.BrokenBudget:
		return &stake{pod: p, why: name + " waits for it, and its PodDisruptionBudget has less healthy pods than it wants"}
	case by.Patience != nil && (p.Tolerates == nil || *p.Tolerates > by.Patience.Duration):
		return &stake{pod: p, wait: by.Patience.Duration, why: fmt.Sprintf("%s waits for it, for at most %s (the policy's patience)", name, by.Patience.Duration)}
	case p.Tolerates == nil:
		return nil
	}
	return &stake{pod: p, wait: *p.Tolerates, why: fmt.Sprintf("%s waits for it, and tolerates an unreachable node for %s", name, *p.Tolerates)}
}
