package controllers_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/policytest"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// The leader says of each exception whether it is granted and in force, leaves the grant alone, and comes again when the next one ends.
func TestExceptionStatus(t *testing.T) {
	clock := testclock.NewFakePassiveClock(policytest.Noon)
	kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithStatusSubresource(&v1alpha1.PolicyException{}).WithReturnManagedFields().
		WithObjects(minimum("p", 20), policytest.NamedException("in-force"), policytest.NamedException("asked", policytest.Ungranted), policytest.NamedException("edited", func(x *v1alpha1.PolicyException) { x.Generation = 2 }),
			policytest.NamedException("newer", func(x *v1alpha1.PolicyException) {
				x.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: v1alpha1.GroupVersion.String(), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:users":{}}}`)}}
			})).Build()
	s := &controllers.ExceptionStatus{Client: kube, Exceptions: kube, Clock: clock}
	check := func(want map[string]string, again time.Duration) {
		t.Helper()
		for name, states := range want {
			result, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: name}})
			if err != nil || result.RequeueAfter != again {
				t.Errorf("%s: %+v, %v", name, result, err)
			}
			var x v1alpha1.PolicyException
			if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, &x); err != nil {
				t.Fatal(err)
			}
			granted, inForce := meta.FindStatusCondition(x.Status.Conditions, v1alpha1.ConditionGranted), meta.FindStatusCondition(x.Status.Conditions, v1alpha1.ConditionInForce)
			if granted == nil || inForce == nil {
				t.Fatalf("%s: %+v", name, x.Status)
			}
			if got := fmt.Sprintf("%s %s, %s %s", granted.Status, granted.Reason, inForce.Status, inForce.Reason); got != states {
				t.Errorf("%s: %s, want %s", name, got, states)
			}
			if (x.Status.Grant == nil) != (name == "asked") || x.Status.ObservedGeneration != x.Generation {
				t.Errorf("%s: %+v", name, x.Status)
			}
		}
	}
	check(map[string]string{"in-force": "True Granted, True InForce", "asked": "False NotGranted, False NotGranted", "edited": "False ChangedSince, False ChangedSince"}, time.Hour)
	check(map[string]string{"newer": "False FieldsUnread, False FieldsUnread"}, 0)
	clock.SetTime(policytest.Noon.Add(time.Hour))
	check(map[string]string{"in-force": "True Granted, False Ended", "asked": "False NotGranted, False Ended"}, 0)
	if _, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "gone"}}); err != nil {
		t.Error(err)
	}
}

// Exceptions in force are compiled with the limits that they lift, and taken out when they have ended.
func TestLimitsWithExceptions(t *testing.T) {
	clock := testclock.NewFakePassiveClock(policytest.Noon)
	p := minimum("p", 20)
	kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(p, policytest.NamedException("a"), policytest.NamedException("b", policytest.Ungranted)).Build()
	l := &controllers.Limits{Client: kube, Exempt: policy.ExemptIn("ours"), Exceptions: kube, Clock: clock}
	policies := policytest.Compile(t, p)
	result, err := l.Reconcile(t.Context(), reconcile.Request{})
	if err != nil || result.RequeueAfter != time.Hour {
		t.Errorf("%+v, %v", result, err)
	}
	wantStored(t, kube, controllers.CompileLimits(policies, policytest.CompileExceptions(t, policytest.NamedException("a")), policy.ExemptIn("ours"), ""))
	clock.SetTime(policytest.Noon.Add(time.Hour))
	reconcileLimits(t, l)
	wantStored(t, kube, controllers.CompileLimits(policies, nil, policy.ExemptIn("ours"), ""))
}
