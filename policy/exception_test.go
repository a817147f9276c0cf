package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// What an exception can't lift: the protection from removal, whatever it names.
func TestExceptionsNeverUnprotect(t *testing.T) {
	policies := Compile(t, PodPolicy("guard", ZeroGrace(v1alpha1.ProtectAll, v1alpha1.ZeroGraceDeny)))
	without := policies.Removal(policy.Namespace{Name: "shop"}, Exempt)
	with := policies.Removal(policy.Namespace{Name: "shop", Exceptions: CompileExceptions(t, Exception("guard", v1alpha1.LiftZeroGrace)).InForce(Noon)}, Exempt)
	if diff := cmp.Diff(without, with); !without.Guards() || diff != "" {
		t.Error(diff)
	}
}

// What can't be read lifts nothing, and the error names the field.
func TestCompileException(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.PolicyExceptionSpec)
		says   string
	}{
		"fine":        {func(*v1alpha1.PolicyExceptionSpec) {}, ""},
		"no time":     {func(s *v1alpha1.PolicyExceptionSpec) { s.Until = "tomorrow" }, "spec.until"},
		"no such day": {func(s *v1alpha1.PolicyExceptionSpec) { s.Until = "2026-02-30T00:00:00Z" }, "spec.until"},
		"no pods":     {func(s *v1alpha1.PolicyExceptionSpec) { s.AllPods = false }, "spec.podSelector"},
		"bad selector": {func(s *v1alpha1.PolicyExceptionSpec) {
			s.PodSelector = v1alpha1.SetAsLabelSelector(map[string]string{"!": ""})
		}, "spec.podSelector"},
		"both of these": {func(s *v1alpha1.PolicyExceptionSpec) {
			s.PodSelector = v1alpha1.SetAsLabelSelector(map[string]string{"a": "b"})
		}, "spec.podSelector"},
	} {
		t.Run(name, func(t *testing.T) {
			x := Exception("base", v1alpha1.LiftMinSeconds)
			tc.change(&x.Spec)
			c, err := policy.CompileException(x)
			if (err == nil) != (tc.says == "") || (c == nil) != (err != nil) || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, %v", c, err)
			}
		})
	}
}

// One of which a field was written and is not read, such as one that would lift less, lifts nothing.
func TestExceptionFieldsThatAreNotRead(t *testing.T) {
	x := Exception("base", v1alpha1.LiftMinSeconds)
	for fields, says := range map[string]string{
		`"f:allPods":{},"f:policy":{}`: "",
		`"f:users":{}`:                 "spec.users: written, and not read: the CustomResourceDefinition or this program is older than the exception",
	} {
		x.ManagedFields = []metav1.ManagedFieldsEntry{{APIVersion: v1alpha1.GroupVersion.String(), FieldsV1: metav1.NewFieldsV1(`{"f:spec":{` + fields + `}}`)}}
		c, err := policy.CompileException(x)
		if (err == nil) != (says == "") || (c == nil) != (err != nil) || err != nil && !strings.HasSuffix(err.Error(), ": "+says) {
			t.Errorf("%s: got %v, %v", fields, c, err)
		}
	}
}

// What is told of an exception as a whole.
func TestExceptionState(t *testing.T) {
	base := Compile(t, PodPolicy("base", MinGrace(10)))
	for name, tc := range map[string]struct {
		change func(*v1alpha1.PolicyException)
		now    time.Time
		want   string
	}{
		"in force":       {func(*v1alpha1.PolicyException) {}, Noon, v1alpha1.ReasonInForce},
		"in part":        {func(x *v1alpha1.PolicyException) { x.Spec.Limits = append(x.Spec.Limits, v1alpha1.LiftMaxSeconds) }, Noon, v1alpha1.ReasonInForce},
		"ended":          {func(*v1alpha1.PolicyException) {}, Noon.Add(time.Hour), v1alpha1.ReasonEnded},
		"not granted":    {func(x *v1alpha1.PolicyException) { x.Status.Grant = nil }, Noon, v1alpha1.ReasonNotGranted},
		"changed since":  {func(x *v1alpha1.PolicyException) { x.Status.Grant.Generation = 2 }, Noon, v1alpha1.ReasonChanged},
		"made again":     {func(x *v1alpha1.PolicyException) { x.UID = "another" }, Noon, v1alpha1.ReasonChanged},
		"no such policy": {func(x *v1alpha1.PolicyException) { x.Spec.Policy = "bases" }, Noon, v1alpha1.ReasonUnknownPolicy},
		"no such limit":  {func(x *v1alpha1.PolicyException) { x.Spec.Limits = []v1alpha1.LiftedLimit{v1alpha1.LiftZeroGrace} }, Noon, v1alpha1.ReasonNothingToLift},
	} {
		t.Run(name, func(t *testing.T) {
			x := Exception("base", v1alpha1.LiftMinSeconds)
			tc.change(x)
			if got, message := CompileExceptions(t, x)[0].State(base, tc.now); got != tc.want || message == "" {
				t.Errorf("got %s, %s", got, message)
			}
		})
	}
	xs := CompileExceptions(t, Exception("base", v1alpha1.LiftMinSeconds))
	if next, ok := xs.NextEnd(Noon); !ok || !next.Equal(Noon.Add(time.Hour)) {
		t.Errorf("the next end is %v, %v", next, ok)
	}
	if _, ok := xs.NextEnd(Noon.Add(time.Hour)); ok {
		t.Error("what has ended ends again")
	}
}
