package review_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/enforcement"
	"github.com/podgrace/podgrace/review"
)

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
