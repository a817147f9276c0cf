package explain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/explain"
	"github.com/podgrace/podgrace/policy"
)

// A limit that an exception lifts is not told as one that holds, but who lifts it and until when.
func TestExceptions(t *testing.T) {
	p, err := policy.Compile(&v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}, Spec: v1alpha1.PodPolicySpec{
		GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(20)), MaxSeconds: new(int64(60))},
		Priority:    &v1alpha1.PrioritySection{AllowedClassNames: []string{"low"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	x, err := policy.CompileException(&v1alpha1.PolicyException{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "batch", Generation: 1},
		Spec: v1alpha1.PolicyExceptionSpec{Policy: "base", Limits: []v1alpha1.LiftedLimit{v1alpha1.LiftMinSeconds, v1alpha1.LiftAllowedClassNames, v1alpha1.LiftZeroGrace},
			PodSelector: v1alpha1.SetAsLabelSelector(map[string]string{"app": "batch"}), Reason: "r", Owner: "o", Until: "2026-06-01T13:00:00Z"},
		Status: v1alpha1.PolicyExceptionStatus{Grant: &v1alpha1.Grant{By: "eve", Generation: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	in := explain.Input{
		Pod:      &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", Labels: map[string]string{"app": "batch"}}, Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(5)), Containers: []corev1.Container{{Name: "c"}}}},
		Policies: policy.Policies{p}, Namespace: policy.Namespace{Name: "shop", Exceptions: policy.Exceptions{x}.InForce(time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC))},
	}
	got := explain.Explain(in)
	if want := []string{"at most 60 s (PodPolicy base)", "gracePeriod.minSeconds of PodPolicy base is lifted until 2026-06-01T13:00:00Z, by PolicyException batch"}; !slices.Equal(got.Grace.Limits, want) {
		t.Errorf("grace: %q", got.Grace.Limits)
	}
	if want := []string{"priority.allowedClassNames of PodPolicy base is lifted until 2026-06-01T13:00:00Z, by PolicyException batch"}; !slices.Equal(got.Priority.Limits, want) {
		t.Errorf("class: %q", got.Priority.Limits)
	}
	if !slices.ContainsFunc(got.Warnings, func(w string) bool { return strings.HasPrefix(w, "PolicyException batch holds for this pod until") }) {
		t.Errorf("warnings: %q", got.Warnings)
	}
	in.ExceptionsUnknown, in.Namespace.Exceptions = true, nil
	if got := explain.Explain(in); !slices.ContainsFunc(got.Unknown, func(u string) bool { return strings.HasPrefix(u, "exceptions of namespace shop could not be read") }) {
		t.Errorf("unknown: %q", got.Unknown)
	}
}
