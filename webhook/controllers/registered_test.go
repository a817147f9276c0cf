package controllers_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/deploy"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// configurationsOfDeploy are both as they are installed.
func configurationsOfDeploy(t *testing.T) (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	t.Helper()
	m, v := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(deploy.WebhookConfigurations), 4096)
	for _, into := range []any{m, v} {
		if err := decoder.Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	if m.Kind != "MutatingWebhookConfiguration" || v.Kind != "ValidatingWebhookConfiguration" {
		t.Fatalf("got %s and %s", m.Kind, v.Kind)
	}
	return m, v
}

// excluding is what a webhook excludes that runs where the manifests have it.
func excluding(t *testing.T, patterns ...string) policy.Exempt {
	t.Helper()
	exempt, err := policy.ExemptIn("podgrace-system").Excluding(patterns...)
	if err != nil {
		t.Fatal(err)
	}
	return exempt
}

// lacksOf is what is told of configurations, but for what lacks nothing.
func lacksOf(t *testing.T, exempt policy.Exempt, configurations ...client.Object) map[string]string {
	t.Helper()
	lacking, told := map[string]string{}, 0
	r := controllers.Registered{
		Client:        fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(configurations...).Build(),
		Configuration: "podgrace", Want: deploy.WebhookConfigurations, Exempt: exempt, Tell: func(lacks map[string]string) {
			told = len(lacks)
			for name, lack := range lacks {
				if lack != "" {
					lacking[name] = lack
				}
			}
		},
	}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	if m, v := configurationsOfDeploy(t); told != len(m.Webhooks)+len(v.Webhooks) {
		t.Errorf("of %d entries told, %d there are", told, len(m.Webhooks)+len(v.Webhooks))
	}
	return lacking
}

// A configuration that is gone, and one that matches less than its manifest, is told of; what installation and platforms change is not.
func TestRegistered(t *testing.T) {
	const pods, removal = "pods.mutate.podgrace.dev", "delete.removal.podgrace.dev"
	type mutating = admissionregistrationv1.MutatingWebhook
	type validating = admissionregistrationv1.ValidatingWebhook
	and := func(s *metav1.LabelSelector, key string, operator metav1.LabelSelectorOperator, values ...string) {
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values})
	}
	conditioned := func(name, expression string) func(*validating) {
		return func(w *validating) {
			w.MatchConditions = append(w.MatchConditions, admissionregistrationv1.MatchCondition{Name: name, Expression: expression})
		}
	}
	leavesOut := func(condition string) map[string]string {
		return map[string]string{removal: "what the match condition " + condition + " leaves out"}
	}
	for what, tc := range map[string]struct {
		excluded []string
		mutate   func(*mutating)
		validate func(*validating)
		want     map[string]string
	}{
		"as they are installed": {},
		"a bundle, allowed actors and what AKS leaves out": {
			mutate: func(w *mutating) {
				w.ClientConfig.CABundle = []byte("x")
				and(w.NamespaceSelector, "control-plane", metav1.LabelSelectorOpDoesNotExist)
			},
			validate: func(w *validating) {
				conditioned("not-an-allowed-actor", `!(request.userInfo.username in ["a", "system:serviceaccount:b:c\"d"])`)(w)
				and(w.NamespaceSelector, "kubernetes.azure.com/managedby", metav1.LabelSelectorOpNotIn, "aks")
			},
		},
		"namespaces that are excluded": {
			excluded: []string{"calico-system", "openshift-*"},
			mutate: func(w *mutating) {
				w.NamespaceSelector.MatchExpressions[0].Values = append(w.NamespaceSelector.MatchExpressions[0].Values, "calico-system", "openshift-dns")
			},
			validate: conditioned("not-excluded", "!['openshift-'].exists(prefix, request.?namespace.orValue('').startsWith(prefix))"),
		},
		"no beginnings, as kustomize writes them": {validate: conditioned("not-excluded", "true")},
		"a rule with wildcards": {
			mutate: func(w *mutating) {
				w.Rules = []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"*"}, Rule: admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}}}}
			},
		},
		"no rules":          {validate: func(w *validating) { w.Rules = nil }, want: map[string]string{removal: "a rule for DELETE of pods"}},
		"another operation": {mutate: func(w *mutating) { w.Rules[0].Operations[0] = "UPDATE" }, want: map[string]string{pods: "a rule for CREATE of pods"}},
		"another group":     {mutate: func(w *mutating) { w.Rules[0].APIGroups = []string{"apps"} }, want: map[string]string{pods: "a rule for CREATE of pods"}},
		"it fails open":     {validate: func(w *validating) { w.FailurePolicy = new(admissionregistrationv1.Ignore) }, want: map[string]string{removal: "failurePolicy Fail"}},
		"one version":       {validate: func(w *validating) { w.MatchPolicy = new(admissionregistrationv1.Exact) }, want: map[string]string{removal: "matchPolicy Equivalent"}},
		"another Service":   {validate: func(w *validating) { w.ClientConfig.Service.Name = "yes" }, want: map[string]string{removal: "a call of Service podgrace-system/podgrace-webhook/validate-removal"}},
		"another path":      {validate: func(w *validating) { w.ClientConfig.Service.Path = new("/readyz") }, want: map[string]string{removal: "a call of Service podgrace-system/podgrace-webhook/validate-removal"}},
		"an address": {mutate: func(w *mutating) {
			w.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: new("https://yes")}
		}, want: map[string]string{pods: "a call of Service podgrace-system/podgrace-webhook/mutate-pods"}},
		"some objects": {validate: func(w *validating) {
			w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, want: map[string]string{removal: "objects that its objectSelector leaves out"}},
		"some namespaces": {mutate: func(w *mutating) { w.NamespaceSelector.MatchLabels = map[string]string{"a": "b"} }, want: map[string]string{pods: "namespaces that its namespaceSelector does not include"}},
		"no namespace": {validate: func(w *validating) {
			and(w.NamespaceSelector, "kubernetes.io/metadata.name", metav1.LabelSelectorOpDoesNotExist)
		}, want: map[string]string{removal: "namespaces that its namespaceSelector leaves out by the label kubernetes.io/metadata.name"}},
		"those with a label": {validate: func(w *validating) { and(w.NamespaceSelector, "team", metav1.LabelSelectorOpNotIn, "shop") }, want: map[string]string{removal: "namespaces that its namespaceSelector leaves out by the label team"}},
		"one namespace more": {mutate: func(w *mutating) {
			and(w.NamespaceSelector, "kubernetes.io/metadata.name", metav1.LabelSelectorOpNotIn, "prod")
		}, want: map[string]string{pods: "namespace prod, which its namespaceSelector leaves out"}},
		"beginnings":                      {validate: conditioned("not-excluded", "!['prod-'].exists(prefix, request.?namespace.orValue('').startsWith(prefix))"), want: leavesOut("not-excluded")},
		"all, as if excluded":             {validate: conditioned("not-excluded", "false"), want: leavesOut("not-excluded")},
		"a condition of others":           {validate: conditioned("incident", "true"), want: leavesOut("incident")},
		"a condition of limits":           {validate: conditioned("kept", "false"), want: leavesOut("kept")},
		"all actors":                      {validate: conditioned("not-an-allowed-actor", "false"), want: leavesOut("not-an-allowed-actor")},
		"more than some actors":           {validate: conditioned("not-an-allowed-actor", `!(request.userInfo.username in ["a"] || "b" in ["b"])`), want: leavesOut("not-an-allowed-actor")},
		"a condition of its own, changed": {validate: func(w *validating) { w.MatchConditions[0].Expression = "false" }, want: leavesOut("not-by-its-kubelet")},
		"another name":                    {validate: func(w *validating) { w.Name = "gone" }, want: map[string]string{removal: "the entry"}},
	} {
		t.Run(what, func(t *testing.T) {
			m, v := configurationsOfDeploy(t)
			for i := range m.Webhooks {
				if w := &m.Webhooks[i]; w.Name == pods && tc.mutate != nil {
					tc.mutate(w)
				}
			}
			for i := range v.Webhooks {
				if w := &v.Webhooks[i]; w.Name == removal && tc.validate != nil {
					tc.validate(w)
				}
			}
			if tc.want == nil {
				tc.want = map[string]string{}
			}
			if diff := cmp.Diff(tc.want, lacksOf(t, excluding(t, tc.excluded...), m, v)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is for one entry is not taken from another one: the node enforcers' is for all namespaces, and no actor is let through there; nor is any while an eviction is changed.
func TestEntriesThatTakeLess(t *testing.T) {
	m, v := configurationsOfDeploy(t)
	actors := admissionregistrationv1.MatchCondition{Name: "not-an-allowed-actor", Expression: `!(request.userInfo.username in ["a"])`}
	for i := range v.Webhooks {
		switch w := &v.Webhooks[i]; w.Name {
		case "enforcer.removal.podgrace.dev":
			w.NamespaceSelector = policy.ExemptIn("podgrace-system").Selector()
		case "workloads.validate.podgrace.dev":
			w.MatchConditions = append(w.MatchConditions, actors)
		}
	}
	for i := range m.Webhooks {
		if w := &m.Webhooks[i]; w.Name == "plain-eviction.removal.podgrace.dev" {
			w.MatchConditions = append(w.MatchConditions, actors)
		}
	}
	if diff := cmp.Diff(map[string]string{
		"enforcer.removal.podgrace.dev":       "namespace kube-system, which its namespaceSelector leaves out",
		"workloads.validate.podgrace.dev":     "what the match condition not-an-allowed-actor leaves out",
		"plain-eviction.removal.podgrace.dev": "what the match condition not-an-allowed-actor leaves out",
	}, lacksOf(t, excluding(t), m, v)); diff != "" {
		t.Error(diff)
	}
}

// Podgrace may run in another namespace, which its configurations then name.
func TestRegisteredElsewhere(t *testing.T) {
	m, v := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(bytes.ReplaceAll(deploy.WebhookConfigurations, []byte("podgrace-system"), []byte("ours"))), 4096)
	for _, into := range []any{m, v} {
		if err := decoder.Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	if lacks := lacksOf(t, policy.ExemptIn("ours"), m, v); len(lacks) > 0 {
		t.Error(lacks)
	}
	if lacks := lacksOf(t, policy.ExemptIn("podgrace-system"), m, v); len(lacks) != len(m.Webhooks)+len(v.Webhooks) {
		t.Errorf("that others' Service is called is told of %d entries", len(lacks))
	}
}

// What has limits fail closed is no lack of the entries that hold limits, as the component and the chart write it, and one of all others.
func TestLimitsThatFailClosed(t *testing.T) {
	component, err := os.ReadFile("../../deploy/components/limits-fail-closed/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	chart, err := os.ReadFile("../../deploy/chart/podgrace/templates/_helpers.tpl")
	if err != nil {
		t.Fatal(err)
	}
	conditions := map[string]admissionregistrationv1.MatchCondition{}
	for _, found := range regexp.MustCompile(`- name: (\S+)\n +expression: "(.*)"\n`).FindAllSubmatch(component, -1) {
		c := admissionregistrationv1.MatchCondition{Name: string(found[1]), Expression: string(found[2])}
		conditions[c.Name] = c
		if !bytes.Contains(chart, []byte(`"`+strings.ReplaceAll(c.Expression, "podgrace-system", "%[1]s")+`"`)) {
			t.Errorf("the chart writes %s otherwise than %s", c.Name, c.Expression)
		}
	}
	names := regexp.MustCompile(`"name" "([a-z-]+)" "expression"`).FindAllSubmatch(chart, -1)
	if len(conditions) != 2 || len(names) != 3 {
		t.Fatalf("the component adds %v and the chart %q: this test no longer sees them", conditions, names)
	}
	m, v := configurationsOfDeploy(t)
	for i := range v.Webhooks {
		switch w := &v.Webhooks[i]; w.Name {
		case "pods.validate.podgrace.dev":
			w.MatchConditions = append(w.MatchConditions, conditions["no-mirror-pod"], conditions["armed"])
		case "pod-groups.validate.podgrace.dev":
			w.MatchConditions = append(w.MatchConditions, conditions["armed"])
		case "delete.removal.podgrace.dev":
			w.MatchConditions = append(w.MatchConditions, conditions["armed"])
		case "status.removal.podgrace.dev":
			w.MatchConditions = append(w.MatchConditions, conditions["no-mirror-pod"])
		}
	}
	if diff := cmp.Diff(map[string]string{
		"delete.removal.podgrace.dev": "what the match condition armed leaves out",
		"status.removal.podgrace.dev": "what the match condition no-mirror-pod leaves out",
	}, lacksOf(t, excluding(t), m, v)); diff != "" {
		t.Error(diff)
	}
}

// A flag that somebody forgot, or a configuration of an older one, is told of once, whichever entry it is.
func TestConfigurationThatExcludesOthers(t *testing.T) {
	m, v := configurationsOfDeploy(t)
	c := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(m, v).Build()
	var told []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { told = append(told, args) }, funcr.Options{}))
	exempt := excluding(t, "calico-system", "openshift-*")
	r := controllers.Registered{Client: c, Configuration: "podgrace", Want: deploy.WebhookConfigurations, Exempt: exempt, Tell: func(map[string]string) {}}
	reconciled := func(want ...string) {
		t.Helper()
		told = nil
		if _, err := r.Reconcile(ctx, reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
		all := strings.Join(told, "\n")
		if (len(want) == 0) != (all == "") {
			t.Errorf("told %q, want %q", all, want)
		}
		for _, want := range want {
			if !strings.Contains(all, want) {
				t.Errorf("told %q, want %q", all, want)
			}
		}
	}
	reconciled("excludes other namespaces than the webhook", "pods.mutate.podgrace.dev", "delete.removal.podgrace.dev")
	reconciled()
	controllers.RenderExempt(m, exempt)
	controllers.RenderExempt(v, exempt)
	update := func() {
		t.Helper()
		for _, o := range []client.Object{m, v} {
			if err := c.Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	update()
	reconciled()
	for i := range v.Webhooks {
		if w := &v.Webhooks[i]; w.Name == "delete.removal.podgrace.dev" {
			w.NamespaceSelector.MatchExpressions[0].Values = append(w.NamespaceSelector.MatchExpressions[0].Values, "prod")
		}
	}
	m.Webhooks[0].MatchConditions = nil
	update()
	reconciled("pods.mutate.podgrace.dev", "delete.removal.podgrace.dev", `\"prod\"`, "namespace prod, which its namespaceSelector leaves out")
}

// Of configurations that are gone every entry is told, and by the metric.
func TestNothingIsRegistered(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := controllers.NewRegisteredMetric(registry)
	_, v := configurationsOfDeploy(t)
	r := controllers.Registered{
		Client:        fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(v).Build(),
		Configuration: "podgrace", Want: deploy.WebhookConfigurations, Exempt: excluding(t), Tell: m.Set,
	}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	var gone []string
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			if metric.GetGauge().GetValue() == 0 {
				gone = append(gone, metric.GetLabel()[0].GetValue())
			}
		}
	}
	if diff := cmp.Diff("evictions.mutate nodes.mutate plain-eviction.removal pods.mutate", strings.ReplaceAll(strings.Join(gone, " "), ".podgrace.dev", "")); diff != "" {
		t.Error(diff)
	}
	m.Reset()
	if n := testutil.CollectAndCount(registry); n != 0 {
		t.Errorf("%d series are left", n)
	}
}
