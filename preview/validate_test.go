package preview

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/internal/manifest"
)

// template of a pod whose sleep leaves no time for it to stop.
const template = `{metadata: {labels: {app: a}}, spec: {restartPolicy: RESTART, containers: [{name: c, image: i, lifecycle: {preStop: {sleep: {seconds: 60}}}}]}}`

const tooLong = "lifecycle.preStop.sleep: Invalid value: 60: must be non-negative and less than terminationGracePeriodSeconds (30)"

// asked is a document, and the preview and the result of it as far as its validation reads them.
func asked(t *testing.T, text string) (*manifest.Document, *Preview, *review.Result) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var r manifest.Resource
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	r.Namespace = "shop"
	return &manifest.Document{APIVersion: r.APIVersion, Kind: r.Kind, JSON: raw}, &Preview{Preview: scheduling.Preview{Resource: r}}, &review.Result{After: raw}
}

// Every kind that makes pods is validated with its template, where the API server says so.
func TestInvalidTemplates(t *testing.T) {
	for kind, test := range map[string]struct{ text, at string }{
		"ReplicationController": {`{apiVersion: v1, kind: ReplicationController, metadata: {name: w}, spec: {selector: {app: a}, template: TEMPLATE}}`, "spec.template.spec.containers[0]."},
		"Deployment":            {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: w}, spec: {selector: {matchLabels: {app: a}}, template: TEMPLATE}}`, "spec.template.spec.containers[0]."},
		"ReplicaSet":            {`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: w}, spec: {selector: {matchLabels: {app: a}}, template: TEMPLATE}}`, "spec.template.spec.containers[0]."},
		"StatefulSet":           {`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: w}, spec: {serviceName: w, selector: {matchLabels: {app: a}}, template: TEMPLATE}}`, "spec.template.spec.containers[0]."},
		"DaemonSet":             {`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: w}, spec: {selector: {matchLabels: {app: a}}, template: TEMPLATE}}`, "spec.template.spec.containers[0]."},
		"Job":                   {`{apiVersion: batch/v1, kind: Job, metadata: {name: w}, spec: {template: TEMPLATE}}`, "spec.template.spec.containers[0]."},
		"a Job's own selector":  {`{apiVersion: batch/v1, kind: Job, metadata: {name: w}, spec: {manualSelector: true, selector: {matchLabels: {app: a}}, template: TEMPLATE}}`, "spec.template.spec.containers[0]."},
		"a stored Job":          {`{apiVersion: batch/v1, kind: Job, metadata: {name: w, uid: u}, spec: {selector: {matchLabels: {batch.kubernetes.io/controller-uid: u}}, template: TEMPLATE}}`, "spec.template.spec.containers[0]."},
		"CronJob":               {`{apiVersion: batch/v1, kind: CronJob, metadata: {name: w}, spec: {schedule: "@daily", jobTemplate: {spec: {template: TEMPLATE}}}}`, "spec.jobTemplate.spec.template.spec.containers[0]."},
	} {
		restart := "Always"
		if strings.Contains(kind, "Job") {
			restart = "Never"
		}
		text := strings.Replace(test.text, "TEMPLATE", strings.Replace(template, "RESTART", restart, 1), 1)
		d, v, result := asked(t, text)
		if got, err := v.invalid(d, result); err != nil || got != "the API server refuses it: "+test.at+tooLong {
			t.Errorf("%s: %q, %v", kind, got, err)
		}
		d, v, result = asked(t, strings.Replace(text, "seconds: 60", "seconds: 20", 1))
		if got, err := v.invalid(d, result); err != nil || got != "" {
			t.Errorf("%s with a hook that is short enough: %q, %v", kind, got, err)
		}
	}
}

// A bare pod is validated as policies left it, another object as it was written.
func TestInvalidPods(t *testing.T) {
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: w, UID}, spec: {terminationGracePeriodSeconds: GRACE, containers: [{name: c, image: i, lifecycle: {preStop: {sleep: {seconds: 60}}}}]}}`
	of := func(uid, grace string) string { return strings.NewReplacer("UID", uid, "GRACE", grace).Replace(pod) }
	for name, test := range map[string]struct {
		text, after, want string
	}{
		"as it is":                  {of("", "30"), of("", "30"), "spec.containers[0]." + tooLong},
		"of a manifest":             {of("", "30"), of("uid: review", "30"), "spec.containers[0]." + tooLong},
		"a policy raises it":        {of("", "30"), of("", "70"), ""},
		"a policy refuses it first": {of("", "30"), "", ""},
		"stored":                    {of("uid: u", "30"), of("uid: u", "30"), ""},
		"a custom kind":             {`{apiVersion: example.com/v1, kind: Web, metadata: {name: w}}`, of("", "30"), ""},
		"a kind without pods":       {`{apiVersion: v1, kind: ConfigMap, metadata: {name: w}}`, "", ""},
		"a request":                 {`{apiVersion: admission.k8s.io/v1, kind: AdmissionReview}`, of("", "30"), ""},
		"a template in bytes that no API server decodes": {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: w}, spec: {replicas: many}}`, "", "cannot unmarshal"},
	} {
		d, v, result := asked(t, test.text)
		result.After = nil
		if test.after != "" {
			_, _, result = asked(t, test.after)
		}
		got, err := v.invalid(d, result)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
