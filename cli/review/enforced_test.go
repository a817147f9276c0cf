package review_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// A threshold above half of a node is told of, of quantities by the smallest node that the policy selects.
func TestRemarksOnThresholds(t *testing.T) {
	t.Parallel()
	node := func(name, memory string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": name}}, Status: corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}}}
	}
	state := review.NewState()
	state.Set(node("small", "8Gi"))
	state.Set(node("large", "64Gi"))
	engine, err := review.NewEngine(state)
	if err != nil {
		t.Fatal(err)
	}
	for pool, want := range map[string]string{"small": "NodePolicy p: eviction.hard memory.available of 10Gi is more than half of a node's memory, 8Gi", "large": ""} {
		engine.NodePolicies = []*v1alpha1.NodePolicy{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.NodePolicySpec{
			NodeSelector: &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"pool": v1alpha1.LabelValue(pool)}},
			Eviction:     &v1alpha1.NodeEviction{Hard: []v1alpha1.EvictionThreshold{{Signal: v1alpha1.SignalMemoryAvailable, Value: "10Gi"}}},
		}}}
		got := ""
		for _, r := range engine.Remarks(nil) {
			got += "NodePolicy " + r.NodePolicy + ": " + r.Message
		}
		if want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q", pool, got)
		}
	}
}

// A node section that no NodePolicy makes true is told of: of files by what their NodePolicies do, of a cluster on how many of its nodes.
func TestRemarksOnNodeSections(t *testing.T) {
	t.Parallel()
	asks := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "asks"}, Spec: v1alpha1.PodPolicySpec{Node: &v1alpha1.Enforcement{CPU: &v1alpha1.WeightEnforcement{Weight: 500}}}}
	nodes := func(name string, mode v1alpha1.NodeMode) *v1alpha1.NodePolicy {
		return &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodePolicySpec{Mode: mode}}
	}
	enforced := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: enforcement.NodeConditionEnforced}}}}
	for name, tc := range map[string]struct {
		beside []*v1alpha1.NodePolicy
		state  []client.Object
		live   bool
		want   string
	}{
		"nothing known":         {},
		"observed":              {beside: []*v1alpha1.NodePolicy{nodes("a", "")}, want: "no NodePolicy here lets all of its node section hold: NodePolicy a holds: its mode Observe writes nothing"},
		"one of two writes":     {beside: []*v1alpha1.NodePolicy{nodes("a", "")}, state: []client.Object{nodes("b", v1alpha1.NodeModeTune)}},
		"the same in the state": {beside: []*v1alpha1.NodePolicy{nodes("a", "")}, state: []client.Object{nodes("a", v1alpha1.NodeModeTune)}, want: "NodePolicy a holds: its mode Observe writes nothing"},
		"a cluster without":     {state: []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}, live: true, want: "the node section has no effect: on the only node there is no node enforcer"},
		"a cluster with":        {state: []client.Object{enforced, nodes("b", v1alpha1.NodeModeTune)}, live: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := review.NewState()
			for _, o := range tc.state {
				state.Set(o)
			}
			if tc.live {
				state.Complete(&corev1.Node{})
				state.Complete(&v1alpha1.NodePolicy{})
			}
			engine, err := review.NewEngine(state, asks)
			if err != nil {
				t.Fatal(err)
			}
			engine.NodePolicies = tc.beside
			got := ""
			for _, r := range engine.Remarks(nil) {
				got += r.Policy + ": " + r.Message
			}
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
