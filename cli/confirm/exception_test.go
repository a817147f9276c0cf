package confirm_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/confirm"
)

// granter is a cluster with one exception.
type granter struct {
	fake

	facts   confirm.ExceptionFacts
	granted []string
}

func (g *granter) Exception(context.Context, string, string) (confirm.ExceptionFacts, error) {
	return g.facts, nil
}

func (g *granter) Grant(_ context.Context, x *v1alpha1.PolicyException, by string) error {
	g.granted = append(g.granted, x.Name+" by "+by)
	return g.err
}

func exceptionFacts(change ...func(*confirm.ExceptionFacts)) confirm.ExceptionFacts {
	f := confirm.ExceptionFacts{
		Now: time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC),
		Exception: &v1alpha1.PolicyException{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "batch", Generation: 3},
			Spec: v1alpha1.PolicyExceptionSpec{Policy: "base", Limits: []v1alpha1.LiftedLimit{v1alpha1.LiftMinSeconds, v1alpha1.LiftZeroGrace}, Reason: "the vendor's image\x1b[31m", Owner: "team shop",
				Until: "2026-06-03T12:00:00Z", PodSelector: v1alpha1.SetAsLabelSelector(map[string]string{"app": "batch"})},
		},
		Policy: &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}, Spec: v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(20))}}},
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

// What is shown, asked and written of an exception.
func TestGrant(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*confirm.ExceptionFacts)
		answer  string
		lacks   bool
		dryRun  bool
		fails   error
		granted bool
		writes  int
		says    []string
	}{
		"agreed": {nil, "batch\n", false, false, nil, true, 1, []string{"team shop", "the vendor's image", "gracePeriod.minSeconds", "at least 20 s", "the policy has no such limit", "pods of namespace shop with app=batch",
			"2026-06-03T12:00:00Z (in 2d)", "generation 3", "GRANTED", "kubectl delete policyexceptions.podgrace.dev -n shop batch"}},
		"declined":        {nil, "no\n", false, false, nil, false, 0, nil},
		"nothing typed":   {nil, "", false, false, nil, false, 0, nil},
		"not permitted":   {nil, "batch\n", true, false, nil, false, 0, []string{"REFUSED", "except on podpolicies.podgrace.dev, patch on policyexceptions.podgrace.dev/status in namespace shop", "podgrace-exceptions-granter"}},
		"a dry run":       {nil, "", false, true, nil, true, 0, []string{"It would grant generation 3"}},
		"can't write":     {nil, "batch\n", false, false, errors.New("away"), false, 1, nil},
		"already":         {func(f *confirm.ExceptionFacts) { f.Exception.Status.Grant = &v1alpha1.Grant{By: "eve", Generation: 3} }, "", false, false, nil, true, 0, []string{"was granted already, by eve"}},
		"changed since":   {func(f *confirm.ExceptionFacts) { f.Exception.Status.Grant = &v1alpha1.Grant{By: "eve", Generation: 2} }, "batch\n", false, false, nil, true, 1, []string{"eve granted generation 2, which is void"}},
		"ended":           {func(f *confirm.ExceptionFacts) { f.Now = f.Now.Add(48 * time.Hour) }, "batch\n", false, false, nil, false, 0, []string{"REFUSED", "to grant it would lift nothing"}},
		"not to be read":  {func(f *confirm.ExceptionFacts) { f.Exception.Spec.Until = "soon" }, "batch\n", false, false, nil, false, 0, []string{"REFUSED", "can't be read"}},
		"no policy":       {func(f *confirm.ExceptionFacts) { f.Policy = nil }, "batch\n", false, false, nil, true, 1, []string{"base, which is not there", "GRANTED exception shop/batch is granted, but it lifts nothing: there is no PodPolicy base."}},
		"nothing to lift": {func(f *confirm.ExceptionFacts) { f.Policy.Spec.GracePeriod = nil }, "batch\n", false, false, nil, true, 1, []string{"is granted, but it lifts nothing: PodPolicy base has no"}},
		"policy not read": {func(f *confirm.ExceptionFacts) { f.Policy, f.PolicyUnknown = nil, "you may not read it" }, "batch\n", false, false, nil, true, 1, []string{"GRANTED exception shop/batch is granted until 2026-06-03T12:00:00Z."}},
	} {
		t.Run(name, func(t *testing.T) {
			g := &granter{fake: fake{lacks: tc.lacks, err: tc.fails}, facts: exceptionFacts()}
			if tc.change != nil {
				tc.change(&g.facts)
			}
			var out, errs bytes.Buffer
			s := &confirm.Session{In: strings.NewReader(tc.answer), Out: &out, Err: &errs, DryRun: tc.dryRun}
			granted, err := s.Grant(t.Context(), g, "shop", "batch")
			if granted != tc.granted || (err != nil) != (tc.fails != nil) || len(g.granted) != tc.writes {
				t.Errorf("%v, %v, wrote %v\n%s%s", granted, err, g.granted, out.String(), errs.String())
			}
			text := strings.Join(strings.Fields(out.String()), " ")
			for _, want := range tc.says {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in\n%s", want, out.String())
				}
			}
			if strings.Contains(out.String(), "\x1b") {
				t.Errorf("%q", out.String())
			}
		})
	}
}
