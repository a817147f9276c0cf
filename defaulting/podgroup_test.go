package defaulting_test

import (
	"strings"
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

func TestValidatePodGroup(t *testing.T) {
	t.Parallel()
	unknown := policy.Namespace{Name: "shop", Unknown: true}
	const refused = `PriorityClass "high" is not allowed here: PodPolicy p allows batch, low. A PodGroup's class counts in place of its pods'`
	for name, tt := range map[string]struct {
		options   []PolicyOption
		class     string
		namespace policy.Namespace
		want      string
	}{
		"not in the list":             {nil, "high", Shop, refused},
		"in the list":                 {nil, "low", Shop, ""},
		"no class is 0":               {nil, "", Shop, ""},
		"of the namespace":            {[]PolicyOption{InNamespaces("team", "shop")}, "high", Shop, refused},
		"of another namespace":        {[]PolicyOption{InNamespaces("team", "bank")}, "high", Shop, ""},
		"of an unknown namespace":     {[]PolicyOption{InNamespaces("team", "shop")}, "high", unknown, ""},
		"for every namespace":         {nil, "high", unknown, refused},
		"kube-system":                 {nil, "high", policy.Namespace{Name: "kube-system"}, ""},
		"our own":                     {nil, "high", policy.Namespace{Name: OwnNamespace}, ""},
		"for some pods: by label":     {[]PolicyOption{ForPods("app", "web")}, "high", Shop, ""},
		"for some pods: by owner":     {[]PolicyOption{ForOwners("Job")}, "high", Shop, ""},
		"for some pods: conditions":   {[]PolicyOption{Where("true")}, "high", Shop, ""},
		"all pods, by an empty one":   {[]PolicyOption{func(s *v1alpha1.PodPolicySpec) { Match(s).PodSelector = &v1alpha1.LabelSelector{} }}, "high", Shop, refused},
		"the namespaces that are all": {[]PolicyOption{func(s *v1alpha1.PodPolicySpec) { Match(s).NamespaceSelector = &v1alpha1.LabelSelector{} }}, "high", unknown, refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policies := Compile(t, PodPolicy("p", append(tt.options, Allows("low", "batch"))...), PodPolicy("none", MaxGrace(5)))
			got := defaulting.ValidatePodGroup(policies, tt.class, tt.namespace, Exempt)
			switch {
			case tt.want == "" && len(got.Denials) > 0:
				t.Errorf("refused: %+v", got.Denials)
			case tt.want != "" && (len(got.Denials) != 1 || got.Denials[0].Reason.Code != "PriorityClassNotAllowed" || !strings.HasPrefix(got.Denials[0].Message, tt.want)):
				t.Errorf("got %+v", got.Denials)
			}
		})
	}
	both := Compile(t, PodPolicy("a", Allows("low", "high")), PodPolicy("b", Allows("low")))
	if got := defaulting.ValidatePodGroup(both, "high", Shop, policy.Exempt{}); len(got.Denials) != 1 || !strings.Contains(got.Denials[0].Message, "PodPolicy a and b allows low. ") {
		t.Errorf("of two policies: %+v", got)
	}
}
