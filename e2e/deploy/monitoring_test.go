package deploy

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ruled are the rules of a PrometheusRule, alerts by name and records by name and slo.
func ruled(t *testing.T, all []*unstructured.Unstructured) map[string]map[string]any {
	t.Helper()
	groups, _, err := unstructured.NestedSlice(find(t, all, "PrometheusRule", "podgrace").Object, "spec", "groups")
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]map[string]any{}
	for _, g := range groups {
		for _, r := range g.(map[string]any)["rules"].([]any) {
			rule := r.(map[string]any)
			name, _ := rule["alert"].(string)
			if name == "" {
				slo, _, _ := unstructured.NestedString(rule, "labels", "slo")
				name = rule["record"].(string) + " " + slo
			}
			rules[name] = rule
		}
	}
	return rules
}

func text(t *testing.T, of any) string {
	t.Helper()
	b, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What values say of rules arrives in them, and in no other.
func TestRules(t *testing.T) {
	const refused = "monitoring.rules.alerts.PodgracePodsRefused"
	before := ruled(t, variant{values: []string{"monitoring.enabled=true"}}.templated(t, namespace))
	all := variant{values: []string{
		"monitoring.enabled=true", refused + ".threshold=200", refused + ".for=30m", refused + ".severity=info", "monitoring.rules.alerts.PodgraceWebhookSlow.threshold=0.25",
		"monitoring.rules.disabled={PodgraceEvictions,PodgraceNodePressure}", "monitoring.rules.runbooks=https://wiki.example.com/podgrace", "monitoring.rules.objectives.answers=0.95",
		"monitoring.scrape.interval=30s",
	}}.templated(t, namespace)
	after := ruled(t, all)
	for name, was := range before {
		rule, there := after[name]
		if gone := name == "PodgraceEvictions" || name == "PodgraceNodePressure"; gone == there {
			t.Errorf("%s is there: %t", name, there)
		}
		if !there {
			continue
		}
		want := text(t, was)
		replaced := func(old, with string) {
			if !strings.Contains(want, old) {
				t.Errorf("%s has no %s", name, old)
			}
			want = strings.Replace(want, old, with, 1)
		}
		switch name {
		case "PodgracePodsRefused":
			was["for"], was["labels"] = "30m", map[string]any{"severity": "info"}
			want = text(t, was)
			replaced(`\u003e 50`, `\u003e 200`)
		case "PodgraceWebhookSlow":
			replaced(`\u003e 1"`, `\u003e 0.25"`)
		case "podgrace_slo:objective answers":
			replaced("vector(0.999)", "vector(0.95)")
		}
		want = regexp.MustCompile(`https://github.com/[^#"]*`).ReplaceAllString(want, "https://wiki.example.com/podgrace")
		// Multi-line texts end by a line break, which a threshold at their end replaces.
		if got := text(t, rule); strings.ReplaceAll(got, `\n"`, `"`) != strings.ReplaceAll(want, `\n"`, `"`) {
			t.Errorf("%s is\n%s, want\n%s", name, got, want)
		}
	}
	for _, name := range []string{"podgrace-webhook", "podgrace-fencer", "podgrace-volumelock", "podgrace-nodeenforcer"} {
		if got := text(t, find(t, all, "PodMonitor", name).Object); !strings.Contains(got, `"interval":"30s"`) {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, value := range []string{"monitoring.rules.disabled={PodgraceWebhookDwn}", "monitoring.rules.alerts.PodgraceWebhookDwn.for=5m", "monitoring.rules.alerts.PodgraceWebhookDown.threshold=1"} {
		if out, err := helm(t, "template", "podgrace", chart, "--namespace", namespace, "--set", noRegistry, "--set", "monitoring.enabled=true", "--set", value); err == nil || !strings.Contains(err.Error(), "PodgraceWebhookDwn") && !strings.Contains(err.Error(), "this alert has none") {
			t.Errorf("%s: got %v %s", value, err, out)
		}
	}
}

// A cluster's label and jobs of another name are everywhere where ours were, in rules and dashboard, and nowhere else.
func TestNamesOfSeries(t *testing.T) {
	plain := []string{"monitoring.enabled=true", "monitoring.dashboard.enabled=true"}
	values := append(slices.Clone(plain), "monitoring.clusterLabel=k8s_cluster", "monitoring.jobs.webhook=gke/webhook", "monitoring.jobs.nodeEnforcer=gke/nodeenforcer")
	before, after := variant{values: plain}.templated(t, namespace), variant{values: values}.templated(t, namespace)
	word, job := regexp.MustCompile(`\bcluster\b`), regexp.MustCompile(`job=\\+"podgrace-(webhook|nodeenforcer)\\+"`)
	expressions := func(all []*unstructured.Unstructured) (exprs map[string]any) {
		exprs = map[string]any{}
		for name, rule := range ruled(t, all) {
			exprs[name] = rule["expr"]
		}
		return exprs
	}
	for what, of := range map[string]func([]*unstructured.Unstructured) any{
		"rules": func(all []*unstructured.Unstructured) any { return expressions(all) },
		"dashboard": func(all []*unstructured.Unstructured) any {
			return find(t, all, "ConfigMap", "podgrace-dashboard").Object["data"]
		},
	} {
		was, is := text(t, of(before)), text(t, of(after))
		if n := len(word.FindAllString(was, -1)); n < 50 || n != strings.Count(is, "k8s_cluster") {
			t.Errorf("%s: the label was there %d times, and the other one is %d times", what, n, strings.Count(is, "k8s_cluster"))
		}
		if n := len(job.FindAllString(was, -1)); n < 5 || n != strings.Count(is, "gke/") {
			t.Errorf("%s: jobs were there %d times, and others are %d times", what, n, strings.Count(is, "gke/"))
		}
		if strings.NewReplacer("k8s_cluster", "cluster", "gke/", "podgrace-").Replace(is) != was {
			t.Errorf("%s: more has changed", what)
		}
	}
}

// One cluster's chart has the rules for all; the others scrape. The dashboard takes no definitions of the operator's.
func TestPartsOfMonitoring(t *testing.T) {
	for values, want := range map[string][]string{
		"monitoring.enabled=true":                                    {"PodMonitor", "PodMonitor", "PodMonitor", "PodMonitor", "PrometheusRule"},
		"monitoring.enabled=true,monitoring.rules.enabled=false":     {"PodMonitor", "PodMonitor", "PodMonitor", "PodMonitor"},
		"monitoring.enabled=true,monitoring.scrape.enabled=false":    {"PrometheusRule"},
		"monitoring.dashboard.enabled=true":                          {"ConfigMap"},
		"monitoring.dashboard.enabled=true,monitoring.enabled=false": {"ConfigMap"},
	} {
		var got []string
		for _, o := range (variant{values: strings.Split(values, ",")}).templated(t, namespace) {
			if slices.Contains([]string{"PodMonitor", "PrometheusRule", "ConfigMap", "ServiceMonitor"}, o.GetKind()) {
				got = append(got, o.GetKind())
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", values, got, want)
		}
	}
	o := find(t, variant{values: []string{"monitoring.dashboard.enabled=true", "monitoring.dashboard.labels.grafana_dashboard=null", "monitoring.dashboard.labels.mine=x", "monitoring.dashboard.annotations.grafana_folder=Podgrace"}}.templated(t, namespace), "ConfigMap", "podgrace-dashboard")
	if _, there := o.GetLabels()["grafana_dashboard"]; there || o.GetLabels()["mine"] != "x" || o.GetAnnotations()["grafana_folder"] != "Podgrace" {
		t.Errorf("got labels %v, annotations %v", o.GetLabels(), o.GetAnnotations())
	}
}
