package policy_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

func excluding(t interface{ Fatal(...any) }, patterns ...string) policy.Exempt {
	e, err := Exempt.Excluding(patterns...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestExempt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		exempt    policy.Exempt
		namespace string
		want      bool
		by        string
	}{
		"kube-system":                       {policy.Exempt{}, "kube-system", true, ""},
		"Podgrace's own":                    {Exempt, OwnNamespace, true, ""},
		"its own, where it is nowhere":      {policy.Exempt{}, OwnNamespace, false, ""},
		"nobody's":                          {Exempt, "", false, ""},
		"another one":                       {Exempt, "shop", false, ""},
		"by its name":                       {excluding(t, "shop"), "shop", true, "shop"},
		"no more than its name":             {excluding(t, "shop"), "shop-2", false, ""},
		"by its beginning":                  {excluding(t, "shop-*"), "shop-2", true, "shop-*"},
		"what is like it":                   {excluding(t, "shop-*"), "shopping", false, ""},
		"the beginning itself is a name":    {excluding(t, "openshift-*"), "openshift", false, ""},
		"nobody's, with a beginning":        {excluding(t, "a-*"), "", false, ""},
		"the ones that are always exempt":   {excluding(t, "shop"), "kube-system", true, ""},
		"named though it is exempt anyway":  {excluding(t, OwnNamespace), OwnNamespace, true, ""},
		"excluded later, beside the others": {must(excluding(t, "shop").Excluding("till-*")), "shop", true, "shop"},
	} {
		if got, by := tc.exempt.Has(tc.namespace), tc.exempt.By(tc.namespace); got != tc.want || by != tc.by {
			t.Errorf("%s: got %v by %q, want %v by %q", name, got, by, tc.want, tc.by)
		}
	}
}

func must(e policy.Exempt, err error) policy.Exempt {
	if err != nil {
		panic(err)
	}
	return e
}

// A star opens no more than one dash begins, and nothing gets into the expression that the API server evaluates but what a name has.
func TestPatternsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"", "*", "-*", "a*", "*-a", "a-*-b", "a-**", "A-*", "a.b", "a-", "a--'-*", "a_b-*", strings.Repeat("a", 64), strings.Repeat("a", 64) + "-*", " a"} {
		if e, err := Exempt.Excluding("shop", pattern); err == nil || !strings.Contains(err.Error(), "openshift-*") {
			t.Errorf("%q: got %q, %v", pattern, e.Excluded(), err)
		}
	}
}

// What the API server is told is what Has says, and is read back as the same.
func TestExemptOfTheAPIServer(t *testing.T) {
	t.Parallel()
	name := rapid.StringMatching(`(kube-system|podgrace-system|a|b|ab|a-b|a-b-c|b-a)`)
	rapid.Check(t, func(t *rapid.T) {
		e := excluding(t, rapid.SliceOfN(rapid.StringMatching(`(kube-system|podgrace-system|(a|b|ab|a-b)(-\*)?)`), 0, 4).Draw(t, "patterns")...)
		read, err := policy.ReadExempt(OwnNamespace, e.Selector(), e.Condition())
		if err != nil || !slices.Equal(read.Excluded(), e.Excluded()) || read.Own() != e.Own() {
			t.Fatalf("%q is read back as %q: %v", e.Excluded(), read.Excluded(), err)
		}
		namespace := name.Draw(t, "namespace")
		selector, err := metav1.LabelSelectorAsSelector(e.Selector())
		if err != nil {
			t.Fatal(err)
		}
		left := !selector.Matches(labels.Set{"kubernetes.io/metadata.name": namespace})
		for _, pattern := range e.Excluded() {
			if prefix, many := strings.CutSuffix(pattern, "*"); many && strings.HasPrefix(namespace, prefix) {
				left = true // e2e/apiserver asks the expression itself
			}
		}
		if left != e.Has(namespace) {
			t.Errorf("%s with %q: the API server leaves it out: %v", namespace, e.Excluded(), left)
		}
	})
}

func TestReadExemptRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, condition := range []string{"false", "!['a-'].exists(p, request.namespace.startsWith(p))", "!['b-', 'a-'].exists(prefix, request.?namespace.orValue('').startsWith(prefix))"} {
		if e, err := policy.ReadExempt(OwnNamespace, Exempt.Selector(), condition); err == nil {
			t.Errorf("%s: read as %q", condition, e.Excluded())
		}
	}
	if _, err := policy.ReadExempt(OwnNamespace, Exempt.Selector(), "true"); err != nil { // as kustomize writes where there are no beginnings
		t.Error(err)
	}
}

func TestRemovalIsNotGuardedWhereExcluded(t *testing.T) {
	t.Parallel()
	policies := Compile(t, PodPolicy("p", Removal(v1alpha1.RemovalSection{})))
	for _, ns := range []policy.Namespace{{Name: "calico-system"}, {Name: "calico-system", Unknown: true}, {Name: "openshift-dns"}} {
		if got := policies.Removal(ns, excluding(t, "calico-system", "openshift-*")); len(got.Names) > 0 {
			t.Errorf("%+v: guarded by %q", ns, got.Names)
		}
	}
}

func TestRemarksOnExemptNamespaces(t *testing.T) {
	t.Parallel()
	exempt := excluding(t, "calico-system", "openshift-*")
	in := func(names ...string) *v1alpha1.LabelSelector {
		return &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: names}}}
	}
	for name, tc := range map[string]struct {
		selector *v1alpha1.LabelSelector
		want     string
	}{
		"none":     {nil, ""},
		"another":  {in("shop"), ""},
		"one":      {v1alpha1.SetAsLabelSelector(map[string]string{"kubernetes.io/metadata.name": "calico-system"}), "no policy is for pods of calico-system: this one is for no pod"},
		"some":     {in("shop", "openshift-dns"), "no policy is for pods of openshift-dns"},
		"many":     {in("kube-system", "openshift-a", "openshift-b", "openshift-c", "openshift-d"), "no policy is for pods of kube-system, openshift-a, openshift-b and 2 more: this one is for no pod"},
		"but them": {&v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"}}}}, ""},
		"a label":  {v1alpha1.SetAsLabelSelector(map[string]string{"team": "calico-system"}), ""},
	} {
		p := PodPolicy("p", DefaultGrace(45))
		if tc.selector != nil {
			p.Spec.Match = &v1alpha1.PodMatch{NamespaceSelector: tc.selector}
		}
		want := []string{"match.namespaceSelector names an exempt namespace: " + tc.want}
		if tc.want == "" {
			want = nil
		}
		if got := Compile(t, p)[0].Remarks(nil, exempt); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
