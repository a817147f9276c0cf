package apiserver

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// Who writes a node section is told in the policy's status whether any node can do it: not without a NodePolicy, not while that observes, and not more than its bounds let.
func TestPolicyTellsWhetherNodesEnforceIt(t *testing.T) {
	s := shared.Get(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "enforced-"}}
	s.Create(t, node)
	before := node.DeepCopy() // which the node lifecycle controller writes, too
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: enforcement.NodeConditionEnforced, Status: corev1.ConditionTrue, Reason: "AsPlanned"})
	if err := s.Client.Status().Patch(t.Context(), node, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	p := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{GenerateName: "enforced-"}, Spec: v1alpha1.PodPolicySpec{
		Match: &v1alpha1.PodMatch{NamespaceSelector: &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{corev1.LabelMetadataName: "nowhere"}}},
		Node:  &v1alpha1.Enforcement{CPU: &v1alpha1.WeightEnforcement{Weight: 500}},
	}}
	s.Create(t, p)
	says := func(status metav1.ConditionStatus, reasons, message string) {
		t.Helper()
		suite.Eventually(t, "status: "+message, func(ctx context.Context) (bool, error) {
			if err := s.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
				return false, err
			}
			c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionEnforced)
			return c != nil && c.Status == status && strings.Contains(reasons, c.Reason) && strings.Contains(c.Message, message), nil
		})
	}
	says(metav1.ConditionFalse, "No", "there is no NodePolicy")

	nodes := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{GenerateName: "enforced-"}, Spec: v1alpha1.NodePolicySpec{
		NodeSelector: &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{corev1.LabelHostname: v1alpha1.LabelValue(node.Name)}}, Weight: 1000, Mode: v1alpha1.NodeModeObserve,
	}}
	before = node.DeepCopy()
	node.Labels = map[string]string{corev1.LabelHostname: node.Name}
	if err := s.Client.Patch(t.Context(), node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	s.Create(t, nodes)
	says(metav1.ConditionFalse, "No", "NodePolicy "+nodes.Name+" holds: its mode Observe writes nothing")

	set := func(change func(*v1alpha1.NodePolicySpec)) {
		t.Helper()
		before := nodes.DeepCopy()
		change(&nodes.Spec)
		if err := s.Client.Patch(t.Context(), nodes, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	set(func(n *v1alpha1.NodePolicySpec) {
		n.Mode, n.Bounds = v1alpha1.NodeModeTune, &v1alpha1.EnforcementBounds{MaxCPUWeight: new(int32(200))}
	})
	says(metav1.ConditionFalse, "Partly", "NodePolicy "+nodes.Name+" holds: cpu.weight 500 is lowered to 200 (bounds.maxCPUWeight)")

	set(func(n *v1alpha1.NodePolicySpec) { n.Bounds = nil })
	suite.Eventually(t, "nothing is lacking on the node", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionEnforced)
		return err == nil && c != nil && c.Reason != v1alpha1.ReasonNo && !strings.Contains(c.Message, nodes.Name), err
	})
}
