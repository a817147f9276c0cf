package webhook_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/webhook"
)

func ofPolicies(kind string) metav1.GroupVersionKind {
	return metav1.GroupVersionKind{Group: "podgrace.dev", Version: "v1alpha1", Kind: kind}
}

// What the schema does not see is refused, with the field and the reason.
func TestValidatePolicies(t *testing.T) {
	long := strings.Repeat("a", 260) + "/b"
	e := newEngine(t, cluster(), nil)
	for name, tc := range map[string]struct {
		kind, spec string
		want       map[string]string // by field
	}{
		"fine":                  {"PodPolicy", `{"match":{"matchConditions":[{"name":"a","expression":"object.metadata.name == 'b'"}]}}`, nil},
		"CEL":                   {"PodPolicy", `{"match":{"matchConditions":[{"name":"a","expression":"true"},{"name":"b","expression":"object.metadata.name =="}]}}`, map[string]string{"spec.match.matchConditions[1].expression": "compilation failed"}},
		"a field of ours":       {"PodPolicy", `{"match":{"matchConditions":[{"name":"a","expression":"object.spec.priority == 0"}]}}`, map[string]string{"spec.match.matchConditions[0].expression": "is written by Podgrace"}},
		"a selector":            {"PodPolicy", `{"match":{"podSelector":{"matchExpressions":[{"key":"` + long + `","operator":"Exists"}]}}}`, map[string]string{"spec.match.podSelector": "253"}},
		"two things":            {"PodPolicy", `{"match":{"namespaceSelector":{"matchLabels":{"` + long + `":""}},"matchConditions":[{"name":"a","expression":"1"}]}}`, map[string]string{"spec.match.namespaceSelector": "253", "spec.match.matchConditions[0].expression": "must evaluate to bool"}},
		"a class by class":      {"PodPolicy", `{"match":{"priorityClassNames":["a"]},"priority":{"className":"b"}}`, map[string]string{"spec.priority": "selects by priority"}},
		"a NodePolicy":          {"NodePolicy", `{"nodeSelector":{"matchLabels":{"a":"b"}}}`, nil},
		"a NodePolicy's nodes":  {"NodePolicy", `{"nodeSelector":{"matchExpressions":[{"key":"` + long + `","operator":"Exists"}]}}`, map[string]string{"spec.nodeSelector": "253"}},
		"a field that is newer": {"PodPolicy", `{"later":1}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := webhook.Handler(e.ValidatePolicies).Handle(t.Context(), review(ofPolicies(tc.kind), `{"metadata":{"name":"p"},"spec":`+tc.spec+`}`))
			if got.Allowed != (tc.want == nil) {
				t.Fatalf("got %v: %s", got.Allowed, message(got))
			}
			if got.Allowed {
				return
			}
			fields := map[string]string{}
			for _, c := range got.Result.Details.Causes {
				if want := tc.want[c.Field]; want != "" && strings.Contains(c.Message, want) {
					fields[c.Field] = want
				}
				if !strings.Contains(message(got), c.Field) {
					t.Errorf("the message does not name %s: %s", c.Field, message(got))
				}
			}
			if diff := cmp.Diff(tc.want, fields); diff != "" || got.Result.Code != 422 || got.Result.Reason != v1alpha1.ReasonInvalidSpec {
				t.Errorf("got %d %s: %s", got.Result.Code, got.Result.Reason, diff)
			}
		})
	}
	got := webhook.Handler(e.ValidatePolicies).Handle(t.Context(), review(ofPolicies("NodePolicy"), `{"metadata":{"name":"p"},"spec":{"eviction":{"hard":[{"signal":"memory.available","value":"90%"}]}}}`))
	if !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "memory.available of 90% is more than half") {
		t.Errorf("a threshold of 90%%: %v %q", got.Allowed, got.Warnings)
	}
	for name, request := range map[string]func() bool{
		"a pod": func() bool {
			return webhook.Handler(e.ValidatePolicies).Handle(t.Context(), review(pods, plainPod)).Allowed
		},
		"no policy": func() bool {
			return webhook.Handler(e.ValidatePolicies).Handle(t.Context(), review(ofPolicies("Fence"), `{}`)).Allowed
		},
		"no JSON": func() bool {
			return webhook.Handler(e.ValidatePolicies).Handle(t.Context(), review(ofPolicies("PodPolicy"), `{`)).Allowed
		},
		"no JSON, NodePolicy": func() bool {
			return webhook.Handler(e.ValidatePolicies).Handle(t.Context(), review(ofPolicies("NodePolicy"), `{`)).Allowed
		},
		"of which nothing is left": func() bool {
			return webhook.Handler(e.ValidatePolicies).Handle(t.Context(), review(ofPolicies("PodPolicy"), ``)).Allowed
		},
	} {
		if request() {
			t.Errorf("%s is allowed", name)
		}
	}
}

// Who writes what is newer than the CustomResourceDefinition or the webhook is told, whatever kind of policy it is.
func TestFieldsThatAreNotReadAreTold(t *testing.T) {
	e := newEngine(t, cluster(), nil)
	for kind, spec := range map[string]string{
		"PodPolicy":       `{}`,
		"NodePolicy":      `{}`,
		"PolicyException": `{"policy":"p","limits":["minSeconds"],"allPods":true,"until":"2126-12-31T00:00:00Z"}`,
	} {
		got := webhook.Handler(e.ValidatePolicies).Handle(t.Context(), review(ofPolicies(kind), `{"metadata":{"namespace":"shop","name":"p","managedFields":[{"apiVersion":"podgrace.dev/v1alpha1","fieldsV1":{"f:spec":{"f:later":{}}}}]},"spec":`+spec+`}`))
		if !got.Allowed || !strings.Contains(strings.Join(got.Warnings, ""), "written, and not read: spec.later.") {
			t.Errorf("%s: allowed %t (%s), told %q", kind, got.Allowed, message(got), got.Warnings)
		}
	}
}

// Who applies a policy is told what its status would say, beside the policies that are there; of itself it is no other.
func TestRemarksOnPolicies(t *testing.T) {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "there"}}
	e := newEngine(t, cluster(class), nil, podPolicy("other", v1alpha1.PodPolicySpec{Priority: &v1alpha1.PrioritySection{ClassName: "there"}}), podPolicy("p", v1alpha1.PodPolicySpec{}))
	told := func(spec string) []string {
		t.Helper()
		got := webhook.Handler(e.ValidatePolicies).Handle(t.Context(), review(ofPolicies("PodPolicy"), `{"metadata":{"name":"p"},"spec":`+spec+`}`))
		if !got.Allowed {
			t.Fatal(message(got))
		}
		return got.Warnings
	}
	const spec = `{"priority":{"className":"gone"}}`
	want := []string{
		`PriorityClass "gone" does not exist: pods keep what they have until it does`,
		"PodPolicy other has the same weight 0 and gives the same kind of default: where both match, the first by name decides (other)",
	}
	if diff := cmp.Diff(want, told(spec)); diff != "" {
		t.Error(diff)
	}
	if got := told(`{"weight":1,"priority":{"className":"there"}}`); len(got) > 0 {
		t.Errorf("said %q", got)
	}
	many := `{"priority":{"allowedClassNames":["a","b","c","d","e","f","g"]}}`
	if got := told(many); len(got) != 6 || got[5] != "2 more in its status: kubectl get podpolicies p -o yaml" {
		t.Errorf("said %q", got)
	}
	// Before the informers have synced what is there is not known.
	e.Ready = func() bool { return false }
	if diff := cmp.Diff([]string(nil), told(spec), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// Who writes a policy that lacks what somebody wrote before is told, and not refused: an older definition may have dropped it, and he may mean it so.
func TestWhatWasWrittenBeforeIsTold(t *testing.T) {
	e := newEngine(t, cluster(), nil)
	got := webhook.Handler(e.ValidatePolicies).Handle(t.Context(), review(ofPolicies("PodPolicy"),
		`{"metadata":{"name":"p","managedFields":[{"apiVersion":"podgrace.dev/v1alpha1","fieldsV1":{"f:spec":{"f:removal":{"f:protect":{}}}}}]},"spec":{}}`))
	if !got.Allowed || !slices.ContainsFunc(got.Warnings, func(w string) bool {
		return strings.Contains(w, "not read: spec.removal. Is the CustomResourceDefinition older than the policy, or this webhook?")
	}) {
		t.Errorf("got %v, %q", got.Allowed, got.Warnings)
	}
}
