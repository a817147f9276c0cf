package docs_test

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// The threat model leaves no resource out that the webhook has a right on.
func TestWebhooksRightsAreTold(t *testing.T) {
	_, section, found := strings.Cut(readPage(t, "threat-model.md"), "\n## A compromised webhook\n")
	if !found {
		t.Fatal("threat-model.md has no section on the webhook")
	}
	section, _, _ = strings.Cut(strings.ToLower(section), "\n## ")
	roles := 0
	for _, file := range []string{"../deploy/webhook/rbac.yaml", "../deploy/components/selfmanaged/rbac.yaml"} {
		for document := range strings.SplitSeq(readPage(t, file), "\n---\n") {
			var role rbacv1.ClusterRole // a Role has the same fields
			if err := yaml.Unmarshal([]byte(document), &role); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(role.Name, "podgrace-webhook") || len(role.Rules) == 0 {
				continue
			}
			roles++
			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					if resource, _, _ = strings.Cut(resource, "/"); !strings.Contains(section, resource) {
						t.Errorf("%s: %s may %v %s, and threat-model.md doesn't say so", file, role.Name, rule.Verbs, resource)
					}
				}
			}
		}
	}
	if roles != 4 {
		t.Errorf("looked at %d roles, not at its ClusterRole, its Roles in two namespaces and its CA's", roles)
	}
}
