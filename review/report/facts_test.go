package report

import (
	"encoding/json"
	"testing"

	"github.com/podgrace/podgrace/review"
)

func TestSubject(t *testing.T) {
	for want, r := range map[string]review.Result{
		"Pod shop/db-0": {Operation: "CREATE"},
		"delete Pod shop/db-0 as alice@example.com":    {Operation: "DELETE", User: "alice@example.com"},
		"update status of Pod shop/db-0":               {Operation: "UPDATE", Subresource: "status"},
		"create eviction of Pod shop/db-0 as \\x1beve": {Operation: "CREATE", Subresource: "eviction", User: "\x1beve"},
	} {
		r.Resource = review.Resource{Kind: "Pod", Namespace: "shop", Name: "db-0"}
		if got := subject(&r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestReason(t *testing.T) {
	for name, tc := range map[string]struct {
		operation review.Operation
		key, why  string
		want      string
	}{
		"number":         {review.Operation{Op: "add", Path: "/spec/priority", Value: json.RawMessage(`7`)}, "priority", "7 (PodPolicy a: x (y))", "PodPolicy a: x (y)"},
		"string":         {review.Operation{Op: "add", Path: "/spec/priorityClassName", Value: json.RawMessage(`"a (b"`)}, "priorityClassName", "a (b (PodPolicy a)", "PodPolicy a"},
		"removal":        {review.Operation{Op: "remove", Path: "/spec/preemptionPolicy"}, "preemptionPolicy", "removed (PodPolicy a)", "PodPolicy a"},
		"annotations":    {review.Operation{Op: "add", Path: "/metadata/annotations", Value: json.RawMessage(`{"x":1}`)}, "enforcement", `{"x":1} (PodPolicy a)`, "PodPolicy a"},
		"one annotation": {review.Operation{Op: "add", Path: "/metadata/annotations/podgrace.dev~1enforcement", Value: json.RawMessage(`"{}"`)}, "enforcement", "{} (PodPolicy a)", "PodPolicy a"},
		"the record":     {review.Operation{Op: "add", Path: "/metadata/annotations/podgrace.dev~1protected", Value: json.RawMessage(`"Job.batch/x"`)}, "protected", "Job.batch/x (PodPolicy a)", "PodPolicy a"},
		"the first one":  {review.Operation{Op: "add", Path: "/metadata/annotations", Value: json.RawMessage(`{"podgrace.dev/protected":"Job.batch/x"}`)}, "protected", `{"podgrace.dev/protected":"Job.batch/x"} (PodPolicy a)`, "PodPolicy a"},
		"a probe":        {review.Operation{Op: "add", Path: "/spec/containers/0/startupProbe/terminationGracePeriodSeconds", Value: json.RawMessage(`7`)}, "containers.0.startupProbe", "7 (PodPolicy a: x)", "PodPolicy a: x"},
		"no map":         {review.Operation{Op: "add", Path: "/metadata/annotations", Value: json.RawMessage(`7`)}, "enforcement", `7 (PodPolicy a)`, "PodPolicy a"},
		"shortened":      {review.Operation{Op: "add", Path: "/spec/x", Value: json.RawMessage(`[1,2,3]`)}, "x", "[1,... (PodPolicy a: why)", "PodPolicy a: why"},
		"other form":     {review.Operation{Op: "add", Path: "/spec/x", Value: json.RawMessage(`1`)}, "x", "because", "because"},
		"none":           {review.Operation{Op: "add", Path: "/spec/x", Value: json.RawMessage(`1`)}, "y", "1 (no)", ""},
		"no path":        {review.Operation{Op: "add"}, "", "because", "because"},
	} {
		r := &review.Result{Why: map[string]string{tc.key: tc.why}}
		if got := reason(r, tc.operation); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestFieldName(t *testing.T) {
	for pointer, want := range map[string]string{
		"/spec/priority": "spec.priority",
		"/metadata/annotations/podgrace.dev~1enforcement": "metadata.annotations[podgrace.dev/enforcement]",
		"/spec/containers/0/image":                        "spec.containers[0].image",
		"/a~01b":                                          "a~1b",
		"":                                                "",
	} {
		if got := fieldName(pointer); got != want {
			t.Errorf("%s: got %s, want %s", pointer, got, want)
		}
	}
}
