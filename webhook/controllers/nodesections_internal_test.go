package controllers

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy/enforcement"
	"github.com/podgrace/podgrace/webhook"
)

// A policy with a node section says on which nodes that holds, and one without says nothing of it.
func TestPolicyStatusOfNodeSections(t *testing.T) {
	t.Parallel()
	asks := v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "asks", Generation: 3}, Spec: v1alpha1.PodPolicySpec{Node: &v1alpha1.Enforcement{CPU: &v1alpha1.WeightEnforcement{Weight: 500}}}}
	node := func(name string, conditions ...corev1.NodeConditionType) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, c := range conditions {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: c, Message: "as the enforcer says it"})
		}
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: enforcement.NodeConditionMemoryProtection, Reason: string(enforcement.ProtectorReset)})
		return n
	}
	readOnly := node("a", enforcement.NodeConditionEnforced)
	readOnly.Status.Conditions[0].Reason = enforcement.ReasonReadOnly
	protects := v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "protects"}, Spec: v1alpha1.PodPolicySpec{Node: &v1alpha1.Enforcement{Memory: &v1alpha1.MemoryEnforcement{Protection: v1alpha1.MemoryProtectionLow}}}}
	nodePolicy := func(mode v1alpha1.NodeMode) *v1alpha1.NodePolicy {
		return &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "workers"}, Spec: v1alpha1.NodePolicySpec{Mode: mode}}
	}
	for name, tc := range map[string]struct {
		policies []v1alpha1.PodPolicy
		cluster  []client.Object
		want     string // of the first policy
	}{
		"no node section":      {[]v1alpha1.PodPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "other"}}}, []client.Object{node("a")}, ""},
		"no node section here": {[]v1alpha1.PodPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, asks}, []client.Object{node("a")}, ""},
		"no nodes":             {[]v1alpha1.PodPolicy{asks}, nil, "Unknown NoNodes: the cluster has no nodes"},
		"no enforcer":          {[]v1alpha1.PodPolicy{asks}, []client.Object{node("a", corev1.NodeReady), nodePolicy(v1alpha1.NodeModeTune)}, "False No: the node section has no effect: on the only node there is no node enforcer"},
		"the kubelet resets": {[]v1alpha1.PodPolicy{protects}, []client.Object{node("a", enforcement.NodeConditionEnforced), nodePolicy(v1alpha1.NodeModeTune)},
			"False No: the node section has no effect: on the only node NodePolicy workers holds: nothing is done for memory.protection (the kubelet writes 0 each minute (MemoryQoS without a reservation, before 1.37))"},
		"observed":  {[]v1alpha1.PodPolicy{asks}, []client.Object{node("a", enforcement.NodeConditionEnforced), nodePolicy(v1alpha1.NodeModeObserve)}, "False No: the node section has no effect: on the only node NodePolicy workers holds: its mode Observe writes nothing"},
		"read-only": {[]v1alpha1.PodPolicy{asks}, []client.Object{readOnly, nodePolicy(v1alpha1.NodeModeTune)}, "False No: the node section has no effect: on the only node the node enforcer is installed read-only (" + enforcement.ReadOnlyRemedy + ")"},
		"on one of two": {[]v1alpha1.PodPolicy{asks}, []client.Object{node("a", corev1.NodeReady, enforcement.NodeConditionEnforced), node("b", corev1.NodeReady), nodePolicy(v1alpha1.NodeModeTune)},
			"False Partly: the node section holds as it is on 1 of 2 nodes: on 1 of 2 nodes there is no node enforcer"},
		"on all": {[]v1alpha1.PodPolicy{asks}, []client.Object{node("a", enforcement.NodeConditionEnforced), node("b", enforcement.NodeConditionEnforced), nodePolicy(v1alpha1.NodeModeRepair)}, "True Full: the node section holds on all 2 nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(tc.cluster...).Build()
			s := &PolicyStatus{Client: kube, Nodes: kube}
			statuses := make([]v1alpha1.PodPolicyStatus, len(tc.policies))
			meta.SetStatusCondition(&statuses[0].Conditions, metav1.Condition{Type: v1alpha1.ConditionEnforced, Reason: "Before", Status: metav1.ConditionTrue})
			again, err := s.tellEnforced(t.Context(), tc.policies, statuses)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if c := meta.FindStatusCondition(statuses[0].Conditions, v1alpha1.ConditionEnforced); c != nil {
				got = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
				if c.ObservedGeneration != tc.policies[0].Generation {
					t.Errorf("of generation %d", c.ObservedGeneration)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if asked := tc.want != "" || len(tc.policies) > 1; (again == enforcedEvery) != asked || !asked && again != 0 {
				t.Errorf("again after %s", again)
			}
		})
	}
}
