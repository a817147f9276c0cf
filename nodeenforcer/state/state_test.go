package state_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/state"
)

func nodePolicy(name string, weight int32, selector map[string]string) *v1alpha1.NodePolicy {
	p := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodePolicySpec{Weight: weight}}
	if selector != nil {
		p.Spec.NodeSelector = v1alpha1.SetAsLabelSelector(selector)
	}
	return p
}

func TestPolicyFor(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pool": "gpu"}}}
	gpu, all := map[string]string{"pool": "gpu"}, map[string]string{}
	broken := nodePolicy("broken", 100, nil)
	broken.Spec.NodeSelector = &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	for name, tc := range map[string]struct {
		policies []*v1alpha1.NodePolicy
		want     string
	}{
		"none":               {nil, ""},
		"of other nodes":     {[]*v1alpha1.NodePolicy{nodePolicy("a", 9, map[string]string{"pool": "web"})}, ""},
		"the heaviest":       {[]*v1alpha1.NodePolicy{nodePolicy("a", 1, gpu), nodePolicy("b", 2, all)}, "b"},
		"a tie by name":      {[]*v1alpha1.NodePolicy{nodePolicy("b", 1, nil), nodePolicy("a", 1, gpu)}, "a"},
		"heavier, not ours":  {[]*v1alpha1.NodePolicy{nodePolicy("a", 1, nil), nodePolicy("b", 2, map[string]string{"pool": "web"})}, "a"},
		"a broken selector":  {[]*v1alpha1.NodePolicy{broken, nodePolicy("a", 1, nil)}, "a"},
		"a negative weight":  {[]*v1alpha1.NodePolicy{nodePolicy("a", -1, nil)}, "a"},
		"lighter than none?": {[]*v1alpha1.NodePolicy{nodePolicy("a", -2147483648, nil), nodePolicy("b", 2147483647, nil)}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := state.PolicyFor(node, tc.policies)
			got := ""
			if p != nil {
				got = p.Name
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if named := err != nil && strings.Contains(err.Error(), "NodePolicy broken"); named != (name == "a broken selector") {
				t.Errorf("got error %v", err)
			}
		})
	}
}

func TestMode(t *testing.T) {
	policy := func(mode v1alpha1.NodeMode) *v1alpha1.NodePolicy {
		return &v1alpha1.NodePolicy{Spec: v1alpha1.NodePolicySpec{Mode: mode}}
	}
	for name, tc := range map[string]struct {
		set   v1alpha1.NodeMode
		state state.State
		want  v1alpha1.NodeMode
	}{
		"no policy":          {"", state.State{}, "Observe"},
		"the policy's":       {"", state.State{Policy: policy("Tune")}, "Tune"},
		"set":                {"Repair", state.State{Policy: policy("Tune")}, "Repair"},
		"set, no policy":     {"Tune", state.State{}, "Tune"},
		"not known yet":      {"Repair", state.State{PolicyUnknown: true}, "Observe"},
		"guessed":            {"", state.State{Policy: policy("Repair"), Guessed: true}, "Tune"},
		"guessed and set":    {"Repair", state.State{Guessed: true}, "Tune"},
		"guessed, observing": {"", state.State{Policy: policy("Observe"), Guessed: true}, "Observe"},
	} {
		if got := tc.state.Mode(tc.set); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}
