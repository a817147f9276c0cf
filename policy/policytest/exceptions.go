package policytest

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// Noon is when tests of exceptions take place.
var Noon = time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC)

// Exception from limits of a policy that was granted, for all pods of the namespace shop, until an hour after Noon.
func Exception(policy string, limits ...v1alpha1.LiftedLimit) *v1alpha1.PolicyException {
	return &v1alpha1.PolicyException{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "batch", Generation: 3},
		Spec:       v1alpha1.PolicyExceptionSpec{Policy: policy, Limits: limits, AllPods: true, Reason: "the vendor's image", Owner: "team shop", Until: "2026-06-01T13:00:00Z"},
		Status:     v1alpha1.PolicyExceptionStatus{Grant: &v1alpha1.Grant{By: "eve", Generation: 3}},
	}
}

// CompileExceptions makes exceptions ready and orders them. One that can't be read ends the test.
func CompileExceptions(t rapid.TB, all ...*v1alpha1.PolicyException) policy.Exceptions {
	t.Helper()
	var compiled []*policy.Exception
	for _, x := range all {
		c, err := policy.CompileException(x)
		if err != nil {
			t.Fatalf("compile: %v", err)
		}
		compiled = append(compiled, c)
	}
	return policy.SortExceptions(compiled)
}

// Limits are all that an exception can lift.
var Limits = []v1alpha1.LiftedLimit{v1alpha1.LiftAllowedClassNames, v1alpha1.LiftMinSeconds, v1alpha1.LiftMaxSeconds, v1alpha1.LiftPreStopMarginSeconds, v1alpha1.LiftZeroGrace}

// NamedException from the minimum of policy p for all pods of the namespace shop, granted, until an hour after Noon.
func NamedException(name string, change ...func(*v1alpha1.PolicyException)) *v1alpha1.PolicyException {
	x := Exception("p", v1alpha1.LiftMinSeconds)
	x.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PolicyException"}
	x.Name, x.UID, x.Generation = name, types.UID(name), 1
	x.Status.Grant = &v1alpha1.Grant{By: "eve", UID: x.UID, Generation: 1}
	for _, c := range change {
		c(x)
	}
	return x
}

// Ungranted takes an exception's grant away.
func Ungranted(x *v1alpha1.PolicyException) { x.Status.Grant = nil }
