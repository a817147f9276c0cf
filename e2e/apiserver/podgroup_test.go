package apiserver

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/suite"
)

// grouping is an API server of its own that has PodGroups, which are alpha in 1.36 and off.
var grouping = &suite.Shared{Options: cluster.Options{APIServerArgs: []string{
	"--feature-gates=GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true",
}}}

// The class of a PodGroup counts in place of its pods': a limit on classes can't be evaded by one. The in-tree plugin resolves it before the
// webhook is asked (plugin/pkg/admission/priority/admission.go admitPodGroup, 1.36.3).
func TestClassOfPodGroups(t *testing.T) {
	shared.Get(t).Since(t, 36, "PodGroups that are preempted as one")
	s := grouping.Get(t)
	t.Cleanup(func() {
		if err := grouping.Stop(); err != nil {
			t.Error(err)
		}
	})
	of := func(kind, ns string, spec map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1alpha2", Kind: kind})
		o.SetNamespace(ns)
		o.SetName("g")
		return o
	}
	basic := func() map[string]any { return map[string]any{"basic": map[string]any{}} }
	group := func(ns, class string) *unstructured.Unstructured {
		return of("PodGroup", ns, map[string]any{"schedulingPolicy": basic(), "priorityClassName": class})
	}
	ns := s.Namespace(t)
	newClass(t, s, "group-low", 10)
	newClass(t, s, "group-high", 1000)
	if err := s.Client.Create(t.Context(), group(ns, "group-high"), client.DryRunAll); meta.IsNoMatchError(err) {
		t.Skip("this cluster has no PodGroups")
	} else if err != nil {
		t.Fatalf("without a policy: %v", err)
	}
	s.Policy(t, ns, v1alpha1.PodPolicySpec{
		Removal:  &v1alpha1.RemovalSection{}, // its status says that the API server has got an answer; without one it lets PodGroups go
		Priority: &v1alpha1.PrioritySection{AllowedClassNames: []string{"group-low"}},
	})
	if err := s.Client.Create(t.Context(), group(ns, "group-high"), client.DryRunAll); err == nil || !strings.Contains(err.Error(), `PriorityClass "group-high" is not allowed here`) {
		t.Errorf("a PodGroup evades the limit: %v", err)
	}
	allowed := group(ns, "group-low")
	if err := s.Client.Create(t.Context(), allowed, client.DryRunAll); err != nil {
		t.Errorf("an allowed class: %v", err)
	}
	if value, _, err := unstructured.NestedInt64(allowed.Object, "spec", "priority"); value != 10 || err != nil {
		t.Errorf("the group has priority %d (%v): is the feature on?", value, err)
	}
	kube, warnings := s.Warned(t, "")
	workload := of("Workload", ns, map[string]any{"podGroupTemplates": []any{map[string]any{"name": "workers", "schedulingPolicy": basic(), "priorityClassName": "group-high"}}})
	if err := kube.Create(t.Context(), workload, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(warnings.Take(), "\n"); !strings.Contains(got, "its PodGroups of template workers will be refused") {
		t.Errorf("warned %q", got)
	}
}
