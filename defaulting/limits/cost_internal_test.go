package limits

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// What exceptions are said to cost is no less than what the API server's estimator says.
func TestCostOfExcept(t *testing.T) {
	t.Parallel()
	env, err := untyped()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	rapid.Check(t, func(t *rapid.T) {
		p, err := policy.Compile(&v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(20))}}})
		if err != nil {
			t.Fatal(err)
		}
		var all []*policy.Exception
		for i := range rapid.IntRange(1, 12).Draw(t, "exceptions") {
			x := &v1alpha1.PolicyException{ObjectMeta: metav1.ObjectMeta{Namespace: rapid.SampledFrom([]string{"n", "a-much-longer-namespace"}).Draw(t, "namespace"), Name: fmt.Sprint(i)}, Spec: v1alpha1.PolicyExceptionSpec{
				Policy: "a", Limits: []v1alpha1.LiftedLimit{v1alpha1.LiftMinSeconds}, Until: time.Unix(1_900_000_000, 0).UTC().Format(time.RFC3339), PodSelector: &v1alpha1.LabelSelector{}}}
			for j := range rapid.IntRange(0, 8).Draw(t, "requirements") {
				r := v1alpha1.LabelSelectorRequirement{Key: fmt.Sprint("k", j), Operator: rapid.SampledFrom([]metav1.LabelSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist"}).Draw(t, "operator")}
				if strings.HasSuffix(string(r.Operator), "In") {
					for v := range rapid.IntRange(1, 16).Draw(t, "values") {
						r.Values = append(r.Values, strings.Repeat("v", rapid.SampledFrom([]int{1, 60}).Draw(t, "length"))+fmt.Sprint(v))
					}
				}
				x.Spec.PodSelector.MatchExpressions = append(x.Spec.PodSelector.MatchExpressions, r)
			}
			compiled, err := policy.CompileException(x)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, compiled)
		}
		for _, v := range Compile(policy.Policies{p}, Cluster{Exceptions: policy.SortExceptions(all)}).Policy.Spec.Variables {
			if isExcept(v) {
				seen++
				if said, is := costOfExcept(v.Expression), costOf(env, v.Expression, ofOurs); said < is {
					t.Fatalf("%d is said, it is %d: %s", said, is, v.Expression)
				}
			}
		}
	})
	if seen == 0 {
		t.Error("no case")
	}
}

// The match condition takes no policy from those that are compiled: of too many it does not look at the pod.
func TestCostOfBeyond(t *testing.T) {
	env, err := untyped()
	if err != nil {
		t.Fatal(err)
	}
	for n, looks := range map[int]bool{1: true, 40: true, 400: false} {
		var policies policy.Policies
		for i := range n {
			p, err := policy.Compile(&v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%03d", i)}, Spec: v1alpha1.PodPolicySpec{
				Match:       &v1alpha1.PodMatch{PodSelector: v1alpha1.SetAsLabelSelector(map[string]string{"app": fmt.Sprint(i), "track": "stable"})},
				GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(20))},
			}})
			if err != nil {
				t.Fatal(err)
			}
			policies = append(policies, p)
		}
		c := Compile(policies, Cluster{Exempt: policy.ExemptIn("podgrace-system")})
		for name, v := range c.Verdicts {
			if len(v.Compiled) != 1 {
				t.Fatalf("of %d: %s: %s", n, name, v.Message())
			}
		}
		expression := c.Policy.Spec.MatchConditions[0].Expression
		if cost := costOf(env, expression, ofOurs); cost > apiservercel.PerCallLimit/2 || strings.Contains(expression, "object.spec") != looks {
			t.Errorf("of %d policies it costs %d: %.200s", n, cost, expression)
		}
	}
}
