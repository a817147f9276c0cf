package policy

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// What a namespace is called is known even of one that could not be looked up.
func TestSelectsUnknownNamespace(t *testing.T) {
	byName := map[string]v1alpha1.LabelValue{"kubernetes.io/metadata.name": "legacy"}
	notIn := v1alpha1.LabelSelectorRequirement{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"legacy", "old"}}
	team := v1alpha1.LabelSelectorRequirement{Key: "team", Operator: metav1.LabelSelectorOpExists}
	for name, test := range map[string]struct {
		selector          *v1alpha1.LabelSelector
		namespace         string
		selected, decided bool
	}{
		"no selector":              {nil, "legacy", true, true},
		"an empty one":             {&v1alpha1.LabelSelector{}, "legacy", true, true},
		"its name":                 {&v1alpha1.LabelSelector{MatchLabels: byName}, "legacy", true, true},
		"another's name":           {&v1alpha1.LabelSelector{MatchLabels: byName}, "shop", false, true},
		"exempt":                   {&v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{notIn}}, "old", false, true},
		"not exempt":               {&v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{notIn}}, "shop", true, true},
		"by another label":         {&v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{team}}, "shop", false, false},
		"by its name, and another": {&v1alpha1.LabelSelector{MatchLabels: byName, MatchExpressions: []v1alpha1.LabelSelectorRequirement{team}}, "legacy", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Compile(&v1alpha1.PodPolicy{Spec: v1alpha1.PodPolicySpec{Match: &v1alpha1.PodMatch{NamespaceSelector: test.selector}}})
			if err != nil {
				t.Fatal(err)
			}
			ns := Namespace{Name: test.namespace, Unknown: true}
			if selected, known := p.selects(ns); selected != test.selected || known != test.decided || p.Undecided(ns) == test.decided {
				t.Errorf("selected %v, known %v", selected, known)
			}
			if p.Guards(ns) != (test.selected || !test.decided) {
				t.Error("a removal is judged by a policy that may be for the namespace, and by no other")
			}
		})
	}
}
