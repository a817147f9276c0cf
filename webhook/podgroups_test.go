package webhook_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/webhook"
)

// A PodGroup's class counts in place of its pods': it is held to the same list. A Workload makes PodGroups, which are refused then.
func TestValidatePodGroups(t *testing.T) {
	e := newEngine(t, cluster(namespace("shop")), nil, podPolicy("p", v1alpha1.PodPolicySpec{
		Match: &v1alpha1.PodMatch{NamespaceSelector: v1alpha1.SetAsLabelSelector(map[string]string{"team": "shop"})}, Priority: &v1alpha1.PrioritySection{AllowedClassNames: []string{"low"}},
	}))
	of := func(version, kind string) metav1.GroupVersionKind {
		return metav1.GroupVersionKind{Group: "scheduling.k8s.io", Version: version, Kind: kind}
	}
	for name, tc := range map[string]struct {
		kind   metav1.GroupVersionKind
		object string
		denied bool
		warned string
	}{
		"allowed":           {of("v1alpha2", "PodGroup"), `{"spec":{"priorityClassName":"low"}}`, false, ""},
		"not allowed":       {of("v1alpha2", "PodGroup"), `{"spec":{"priorityClassName":"high"}}`, true, ""},
		"a later version":   {of("v1", "PodGroup"), `{"spec":{"priorityClassName":"high","later":true}}`, true, ""},
		"none":              {of("v1alpha2", "PodGroup"), `{"spec":{}}`, false, ""},
		"a Workload":        {of("v1alpha2", "Workload"), `{"spec":{"podGroupTemplates":[{"name":"a","priorityClassName":"low"},{"name":"b","priorityClassName":"high"}]}}`, false, `its PodGroups of template b will be refused: PriorityClass "high" is not allowed here`},
		"a Workload, fine":  {of("v1alpha2", "Workload"), `{"spec":{"podGroupTemplates":[{"name":"a"}]}}`, false, ""},
		"a pod":             {pods, `{}`, true, ""},
		"somebody else's":   {metav1.GroupVersionKind{Group: "x.example", Version: "v1", Kind: "PodGroup"}, `{}`, true, ""},
		"what is no object": {of("v1alpha2", "PodGroup"), `[`, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := webhook.Handler(e.ValidatePodGroups).Handle(t.Context(), review(tc.kind, tc.object))
			if got.Allowed == tc.denied || strings.HasPrefix(tc.kind.Kind, "PodGroup") && tc.denied && message(got) == "" {
				t.Errorf("allowed %v: %s", got.Allowed, message(got))
			}
			if all := strings.Join(got.Warnings, "\n"); (tc.warned == "") != (all == "") || !strings.Contains(all, tc.warned) {
				t.Errorf("warned %q, want %q", all, tc.warned)
			}
		})
	}
	e.Ready = func() bool { return false }
	if got := webhook.Handler(e.ValidatePodGroups).Handle(t.Context(), review(of("v1alpha2", "PodGroup"), `{"spec":{"priorityClassName":"high"}}`)); !got.Allowed || len(got.Warnings) != 1 {
		t.Errorf("before the informers have synced: %+v", got)
	}
}
