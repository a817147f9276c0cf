package controllers

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

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
		if problems := unguarded(p, state); len(problems) > 0 {
			ready.Status, ready.Reason = metav1.ConditionFalse, problems[0].Reason
		}
		meta.SetStatusCondition(&status.Conditions, ready)
		if again := guardAgain(&status); (again == 0) != guarded {
			t.Errorf("%s: again after %s", state, again)
		}
	}
}
