package state_test

import (
	"testing"

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
		"guessed":            {"", state.State{Policy: policy("Repair"), Guessed: true}, "Observe"},
		"guessed and set":    {"Repair", state.State{Guessed: true}, "Observe"},
		"by a checkpoint":    {"", state.State{Policy: policy("Repair"), Old: true}, "Tune"},
		"guessed, observing": {"", state.State{Policy: policy("Observe"), Guessed: true}, "Observe"},
	} {
		if got := tc.state.Mode(tc.set); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}
