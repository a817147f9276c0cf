package controllers_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/deploy"
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

// A configuration that is gone, and one that matches less than its manifest, is told of; what installation and platforms change is not.
func TestRegistered(t *testing.T) {
	const pods, removal = "pods.mutate.podgrace.dev", "delete.removal.podgrace.dev"
	fails := admissionregistrationv1.Ignore
	type mutating = admissionregistrationv1.MutatingWebhook
	type validating = admissionregistrationv1.ValidatingWebhook
	for what, tc := range map[string]struct {
		mutate   func(*mutating)
		validate func(*validating)
		want     map[string]string
	}{
		"as they are installed": {},
		"a bundle, allowed actors and namespaces that are excluded": {
			mutate: func(w *mutating) {
				w.ClientConfig.CABundle = []byte("x")
				w.NamespaceSelector.MatchExpressions = append(w.NamespaceSelector.MatchExpressions, metav1.LabelSelectorRequirement{Key: "control-plane", Operator: metav1.LabelSelectorOpDoesNotExist})
			},
			validate: func(w *validating) {
				w.MatchConditions = append(w.MatchConditions, admissionregistrationv1.MatchCondition{Name: "not-an-allowed-actor", Expression: "true"})
				w.NamespaceSelector.MatchExpressions[0].Values = append(w.NamespaceSelector.MatchExpressions[0].Values, "calico-system")
			},
		},
		"a rule with wildcards": {
			mutate: func(w *mutating) {
				w.Rules = []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"*"}, Rule: admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}}}}
			},
		},
		"no rules":          {validate: func(w *validating) { w.Rules = nil }, want: map[string]string{removal: "a rule for DELETE of pods"}},
		"another operation": {mutate: func(w *mutating) { w.Rules[0].Operations[0] = "UPDATE" }, want: map[string]string{pods: "a rule for CREATE of pods"}},
		"another group":     {mutate: func(w *mutating) { w.Rules[0].APIGroups = []string{"apps"} }, want: map[string]string{pods: "a rule for CREATE of pods"}},
		"it fails open":     {validate: func(w *validating) { w.FailurePolicy = &fails }, want: map[string]string{removal: "failurePolicy Fail"}},
		"some objects": {validate: func(w *validating) {
			w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, want: map[string]string{removal: "objects that its objectSelector leaves out"}},
		"some namespaces": {mutate: func(w *mutating) { w.NamespaceSelector.MatchLabels = map[string]string{"a": "b"} }, want: map[string]string{pods: "namespaces that its namespaceSelector does not include"}},
		"a condition of others": {validate: func(w *validating) {
			w.MatchConditions = append(w.MatchConditions, admissionregistrationv1.MatchCondition{Name: "incident"})
		}, want: map[string]string{removal: "what the match condition incident leaves out"}},
		"another name": {validate: func(w *validating) { w.Name = "gone" }, want: map[string]string{removal: "the entry"}},
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
			var told map[string]string
			r := controllers.Registered{
				Client:        fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(m, v).Build(),
				Configuration: "podgrace", Want: deploy.WebhookConfigurations, Tell: func(lacks map[string]string) { told = lacks },
			}
			if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil {
				t.Fatal(err)
			}
			if len(told) != len(m.Webhooks)+len(v.Webhooks) {
				t.Errorf("of %d entries told, %d there are", len(told), len(m.Webhooks)+len(v.Webhooks))
			}
			for name, lacks := range told {
				if diff := cmp.Diff(tc.want[name], lacks); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
		})
	}
}

// What the chart adds to match conditions is no lack.
func TestConditionsOfTheChart(t *testing.T) {
	templates, err := os.ReadFile("../../deploy/chart/podgrace/templates/_helpers.tpl")
	if err != nil {
		t.Fatal(err)
	}
	m, v := configurationsOfDeploy(t)
	names := regexp.MustCompile(`"name" "([a-z-]+)" "expression"`).FindAllSubmatch(templates, -1)
	if len(names) < 2 {
		t.Fatalf("the chart adds %q: this test no longer sees them", names)
	}
	for _, name := range names {
		v.Webhooks[0].MatchConditions = append(v.Webhooks[0].MatchConditions, admissionregistrationv1.MatchCondition{Name: string(name[1]), Expression: "true"})
	}
	r := controllers.Registered{
		Client:        fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(m, v).Build(),
		Configuration: "podgrace", Want: deploy.WebhookConfigurations, Tell: func(lacks map[string]string) {
			if lack := lacks[v.Webhooks[0].Name]; lack != "" {
				t.Errorf("it lacks %s", lack)
			}
		},
	}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
}

// Of configurations that are gone every entry is told, and by the metric.
func TestNothingIsRegistered(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := controllers.NewRegisteredMetric(registry)
	_, v := configurationsOfDeploy(t)
	r := controllers.Registered{
		Client:        fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(v).Build(),
		Configuration: "podgrace", Want: deploy.WebhookConfigurations, Tell: m.Set,
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
