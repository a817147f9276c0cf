package defaulting_test

import (
	"strings"
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
)

func TestValidatePodGroup(t *testing.T) {
	t.Parallel()
	unknown := policy.Namespace{Name: "shop", Unknown: true}
	const refused = `PriorityClass "high" is not allowed here: PodPolicy p allows batch, low. A PodGroup's class counts in place of its pods'`
	for name, tt := range map[string]struct {
		options   []policyOption
		class     string
		namespace policy.Namespace
		want      string
	}{
		"not in the list":             {nil, "high", shop, refused},
		"in the list":                 {nil, "low", shop, ""},
		"no class is 0":               {nil, "", shop, ""},
		"of the namespace":            {[]policyOption{inNamespaces("team", "shop")}, "high", shop, refused},
		"of another namespace":        {[]policyOption{inNamespaces("team", "bank")}, "high", shop, ""},
		"of an unknown namespace":     {[]policyOption{inNamespaces("team", "shop")}, "high", unknown, ""},
		"for every namespace":         {nil, "high", unknown, refused},
		"kube-system":                 {nil, "high", policy.Namespace{Name: "kube-system"}, ""},
		"our own":                     {nil, "high", policy.Namespace{Name: ownNamespace}, ""},
		"for some pods: by label":     {[]policyOption{forPods("app", "web")}, "high", shop, ""},
		"for some pods: by owner":     {[]policyOption{forOwners("Job")}, "high", shop, ""},
		"for some pods: conditions":   {[]policyOption{where("true")}, "high", shop, ""},
		"all pods, by an empty one":   {[]policyOption{func(s *v1alpha1.PodPolicySpec) { match(s).PodSelector = &v1alpha1.LabelSelector{} }}, "high", shop, refused},
		"the namespaces that are all": {[]policyOption{func(s *v1alpha1.PodPolicySpec) { match(s).NamespaceSelector = &v1alpha1.LabelSelector{} }}, "high", unknown, refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policies := compile(t, podPolicy("p", append(tt.options, allows("low", "batch"))...), podPolicy("none", maxGrace(5)))
			got := defaulting.ValidatePodGroup(policies, tt.class, tt.namespace, ownNamespace)
			switch {
			case tt.want == "" && len(got.Denials) > 0:
				t.Errorf("refused: %+v", got.Denials)
			case tt.want != "" && (len(got.Denials) != 1 || got.Denials[0].Reason.Code != "PriorityClassNotAllowed" || !strings.HasPrefix(got.Denials[0].Message, tt.want)):
				t.Errorf("got %+v", got.Denials)
			}
		})
	}
	both := compile(t, podPolicy("a", allows("low", "high")), podPolicy("b", allows("low")))
	if got := defaulting.ValidatePodGroup(both, "high", shop, ""); len(got.Denials) != 1 || !strings.Contains(got.Denials[0].Message, "PodPolicy a and b allows low. ") {
		t.Errorf("of two policies: %+v", got)
	}
}
