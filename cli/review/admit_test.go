package review

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook"
)

// What a handler decides is in the result as it was decided: a long value whole, and the reasons of what is refused, too.
func TestTake(t *testing.T) {
	long := strings.Repeat("x", 500)
	changes := []defaulting.Change{
		{Section: "node", Policy: "p", Operation: defaulting.OperationAdd, Path: "/metadata/annotations/podgrace.dev~1enforcement", Value: long, Why: "PodPolicy p"},
		{Section: "priority", Policy: "p", Operation: defaulting.OperationRemove, Path: "/spec/preemptionPolicy", Before: "Never", Why: "PodPolicy p: high says nothing (of it)"},
		{Operation: defaulting.OperationAdd, Path: "/deleteOptions", Value: map[string]int64{"gracePeriodSeconds": 30}},
	}
	why := map[string]string{"enforcement": long + " (PodPolicy p)", "preemptionPolicy": "removed (PodPolicy p: high says nothing (of it))"}
	want := []Change{
		{Path: changes[0].Path, Name: "enforcement", Value: long, Why: "PodPolicy p"},
		{Path: changes[1].Path, Name: "preemptionPolicy", Value: "removed", Why: "PodPolicy p: high says nothing (of it)"},
	}
	patch := []Operation{
		{Op: "add", Path: changes[0].Path, Value: []byte(`"` + long + `"`)},
		{Op: "remove", Path: changes[1].Path},
		{Op: "add", Path: changes[2].Path, Value: []byte(`{"gracePeriodSeconds":30}`)},
	}
	refused := defaulting.Result{Changes: changes, Denials: []defaulting.Denial{{Reason: policy.Reason{Code: "No"}, Message: "never"}}}
	for name, tc := range map[string]struct {
		decided defaulting.Result
		want    Result
	}{
		"allowed": {defaulting.Result{Changes: changes}, Result{Decision: Allowed, Patch: patch, Changes: want, Why: why}},
		"refused": {refused, Result{Decision: Denied, Reason: "No", Message: "never", Changes: want, Why: why}},
	} {
		s := &step{result: &Result{Decision: Allowed}}
		d := webhook.Decision{Result: tc.decided}
		s.take(d, webhook.Answer(d, nil))
		if diff := cmp.Diff(&tc.want, s.result); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}
