package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// enforcedEvery is how old may be what a policy's status says of nodes: they change often, and no policy waits for them.
const enforcedEvery = 30 * time.Second

// asksNodes reports whether a policy has a node section.
func asksNodes(p v1alpha1.PodPolicy) bool { return p.Spec.Node != nil }

// cluster is what the nodes of the cluster can do for policies with a node section.
func (s *PolicyStatus) cluster(ctx context.Context) ([]enforcement.Alike, error) {
	var policies v1alpha1.NodePolicyList
	if err := s.Client.List(ctx, &policies); err != nil {
		return nil, fmt.Errorf("list NodePolicies: %w", err)
	}
	var nodes corev1.NodeList
	if err := s.Nodes.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	pointers := make([]*v1alpha1.NodePolicy, len(policies.Items))
	for i := range policies.Items {
		pointers[i] = &policies.Items[i]
	}
	ready, _ := enforcement.Compile(pointers) // one that can't be read selects nothing, and who applied it was told
	all := make([]enforcement.Node, len(nodes.Items))
	for i := range nodes.Items {
		all[i] = enforcement.NodeOf(&nodes.Items[i])
	}
	return enforcement.Group(all, ready), nil
}

// tellEnforced says in the statuses of policies where their node section holds. It returns when it is to be said again; 0: on the next event.
func (s *PolicyStatus) tellEnforced(ctx context.Context, policies []v1alpha1.PodPolicy, statuses []v1alpha1.PodPolicyStatus) (time.Duration, error) {
	if s.Nodes == nil || !slices.ContainsFunc(policies, asksNodes) {
		for i := range statuses {
			meta.RemoveStatusCondition(&statuses[i].Conditions, v1alpha1.ConditionEnforced)
		}
		return 0, nil
	}
	cluster, err := s.cluster(ctx)
	if err != nil {
		return enforcedEvery, err
	}
	for i := range policies {
		if !asksNodes(policies[i]) {
			meta.RemoveStatusCondition(&statuses[i].Conditions, v1alpha1.ConditionEnforced)
			continue
		}
		meta.SetStatusCondition(&statuses[i].Conditions, conditionEnforced(enforcement.ReachOf(policies[i].Spec.Node, cluster), policies[i].Generation))
	}
	return enforcedEvery, nil
}

func conditionEnforced(r enforcement.Reach, generation int64) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionEnforced, ObservedGeneration: generation, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPartly, Message: r.String()}
	switch {
	case r.Nodes == 0:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonNoNodes
	case r.Whole == r.Nodes:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonFull
	case r.None == r.Nodes:
		c.Reason = v1alpha1.ReasonNo
	}
	return c
}

// sooner is the sooner of two times to come again; 0: not by itself.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
