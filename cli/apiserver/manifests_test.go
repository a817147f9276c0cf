package apiserver

import (
	"strings"
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/deploy"
	"github.com/podgrace/podgrace/policy"
)

// What is not modelled here must not be passed over when somebody writes it into the manifests.
func TestManifestsThatAreNotModelled(t *testing.T) {
	webhooks, policies := string(deploy.WebhookConfigurations), string(deploy.AdmissionPolicies)
	for name, tc := range map[string]struct{ in, from, to, want string }{
		"no YAML":                {webhooks, "kind: Mut", "\tkind: Mut", "webhook configurations:"},
		"unknown field":          {webhooks, "sideEffects: None\n", "sideEffect: None\n", `unknown field "webhooks[0].sideEffect"`},
		"of another group":       {webhooks, "admissionregistration.k8s.io/v1\n", "v1\n", "decode webhook configurations:"},
		"a policy":               {policies, "", "", "is none"},
		"objectSelector":         {webhooks, "  sideEffects: None\n", "  sideEffects: None\n  objectSelector: {matchLabels: {a: b}}\n", "webhook pods.mutate.podgrace.dev: an objectSelector"},
		"matchPolicy":            {webhooks, "matchPolicy: Equivalent", "matchPolicy: Exact", "matchPolicy Exact"},
		"bad namespaceSelector":  {webhooks, "operator: NotIn", "operator: Near", "namespaceSelector"},
		"no path":                {webhooks, "path: /mutate-pods", "port: 1", "names no path"},
		"no binding":             {policies, "policyName: enforcement", "policyName: other", "enforcement.podgrace.dev: it has no binding"},
		"a warning only":         {policies, "[Deny]", "[Warn]", "validationActions"},
		"bound to some":          {policies, "validationActions: [Deny]", "validationActions: [Deny]\n  matchResources: {}", "matchResources of a binding"},
		"by name":                {policies, "paramRef: {selector: {}", "paramRef: {name: x", "paramRef"},
		"excluded":               {policies, "    resourceRules:", "    excludeResourceRules: [{apiGroups: [x]}]\n    resourceRules:", "excludeResourceRules"},
		"resource names":         {policies, "scope: Namespaced}", "scope: Namespaced, resourceNames: [x]}", "resourceNames"},
		"object selector of one": {policies, "    resourceRules:", "    objectSelector: {matchLabels: {a: b}}\n    resourceRules:", "objectSelector"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(tc.in, tc.from, tc.to, 1)
			var err error
			if strings.HasPrefix(tc.in, policies[:30]) && tc.from != "" {
				_, err = ReadPolicies([]byte(text))
			} else {
				_, err = readWebhooks([]byte(text), nil, policy.ExemptIn("podgrace-system"))
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// Everything that is shipped compiles. At run time a request for what does not would fail.
func TestEverythingCompiles(t *testing.T) {
	w, err := NewWebhooks(policy.InForce([]v1alpha1.PodPolicy{{Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{AllowedActors: []string{"somebody"}}}}}), policy.ExemptIn("podgrace-system"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPolicies(nil, policy.ExemptIn("podgrace-system"))
	if err != nil {
		t.Fatal(err)
	}
	conditions := 0
	for _, h := range append(w.mutating, w.validating...) {
		matcher, err := h.matcher()
		if err != nil {
			t.Error(err)
		}
		if matcher != nil {
			conditions++
		}
	}
	for i := range p.policies {
		if _, err := p.policies[i].validator(); err != nil {
			t.Error(err)
		}
	}
	if len(w.mutating) < 2 || len(w.validating) < 10 || conditions < 10 || len(p.policies) < 5 {
		t.Errorf("%d mutating and %d validating webhooks, %d with conditions, %d policies: some were lost", len(w.mutating), len(w.validating), conditions, len(p.policies))
	}
	for name, tc := range map[string][2]string{
		"match condition": {"'system:nodes' in request.userInfo.groups", "1 + 'a'"},
		"validation":      {"object.metadata.?annotations['podgrace.dev/enforcement'] ==", "1 + 'a' =="},
		"variable":        {"namespaceObject.metadata.?labels.orValue({})", "nothing"},
		"message":         {"'terminationGracePeriodSeconds is 0 in", "1 + 'terminationGracePeriodSeconds is 0 in"},
	} {
		bad, err := ReadPolicies([]byte(strings.ReplaceAll(string(deploy.AdmissionPolicies), tc[0], tc[1])))
		if err != nil {
			t.Fatal(err)
		}
		failed := false
		for i := range bad.policies {
			_, err := bad.policies[i].validator()
			failed = failed || err != nil
		}
		if !failed {
			t.Errorf("a bad %s compiles", name)
		}
	}
}
