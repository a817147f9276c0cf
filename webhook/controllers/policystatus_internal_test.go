package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// What a later version's CustomResourceDefinition lets through is told by its path.
func TestUnknownFieldsOfAPolicy(t *testing.T) {
	for name, test := range map[string]struct {
		spec map[string]any
		want []string
	}{
		"none":         {map[string]any{"gracePeriod": map[string]any{"minSeconds": int64(5)}}, nil},
		"two":          {map[string]any{"surge": true, "gracePeriod": map[string]any{"minSeconds": int64(5), "later": map[string]any{"x": int64(1)}}}, []string{"spec.gracePeriod.later", "spec.surge"}},
		"another type": {map[string]any{"gracePeriod": "long"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "podgrace.dev/v1alpha1", "kind": "PodPolicy", "metadata": map[string]any{"name": "p"}, "spec": test.spec}}
			if diff := cmp.Diff(test.want, unknownFieldsOf(p)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// As long as a policy is not guarded its status is looked at again, whatever keeps it so: the events by which that ends may be handled here before they are where the guard is armed.
func TestGuardAgain(t *testing.T) {
	t.Parallel()
	p, err := policy.Compile(&v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny}}})
	if err != nil {
		t.Fatal(err)
	}
	for state, guarded := range map[GuardState]bool{GuardWaiting: false, GuardIdle: false, GuardSwitchedOff: false, GuardArmed: true} {
		status := v1alpha1.PodPolicyStatus{}
		ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonValid}
		if problems := notInForce(p, state); len(problems) > 0 {
			ready.Status, ready.Reason = metav1.ConditionFalse, problems[0].Reason
		}
		meta.SetStatusCondition(&status.Conditions, ready)
		if again := lookAgain(&status); (again == 0) != guarded {
			t.Errorf("%s: again after %s", state, again)
		}
	}
}
