package review

import (
	"strings"
	"testing"
)

// The API server validates a template before there is a pod that a policy could change, and a bare pod after it was changed.
func TestInvalidTemplates(t *testing.T) {
	e := engineOf(t, web, shop, high, service)
	const sleeping = `containers: [{name: c, image: i, lifecycle: {preStop: {sleep: {seconds: 60}}}}]`
	constraint := func(c string) string {
		return `topologySpreadConstraints: [` + c + `], containers: ` + containers
	}
	const zone = `topologyKey: topology.kubernetes.io/zone`
	for name, test := range map[string]struct{ spec, says string }{
		"a sleep longer than the grace period":   {sleeping, "containers[0].lifecycle.preStop.sleep: Invalid value: 60: must be non-negative and less than terminationGracePeriodSeconds (30). Raise terminationGracePeriodSeconds of the template"},
		"a negative sleep":                       {strings.Replace(sleeping, "60", "-5", 1), "preStop.sleep: Invalid value: -5: must be non-negative"},
		"a sleep after the start":                {strings.Replace(sleeping, "preStop", "postStart", 1), "postStart.sleep: Invalid value: 60"},
		"a sleep of a sidecar":                   {`initContainers: [{name: s, image: i, restartPolicy: Always, lifecycle: {preStop: {sleep: {seconds: 60}}}}], containers: ` + containers, "initContainers[0].lifecycle.preStop.sleep: Invalid value: 60"},
		"a sleep within the grace period":        {"terminationGracePeriodSeconds: 60, " + sleeping, ""},
		"a probe's grace period of 0":            {`containers: [{name: c, image: i, livenessProbe: {terminationGracePeriodSeconds: 0, exec: {command: [a]}}}]`, "containers[0].livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0"},
		"a grace period of a readiness probe":    {`containers: [{name: c, image: i, readinessProbe: {terminationGracePeriodSeconds: 5, exec: {command: [a]}}}]`, "must not be set for readinessProbes"},
		"a constraint with only a key":           {constraint(`{` + zone + `}`), `[spec.template.spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero, spec.template.spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "": supported values: "DoNotSchedule", "ScheduleAnyway"]`},
		"no key":                                 {constraint(`{maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}`), "topologyKey: Required value: can not be empty"},
		"a misspelt action":                      {constraint(`{maxSkew: 1, ` + zone + `, whenUnsatisfiable: DoNotSchedulle}`), `Unsupported value: "DoNotSchedulle"`},
		"minDomains of a soft constraint":        {constraint(`{maxSkew: 1, minDomains: 3, ` + zone + `, whenUnsatisfiable: ScheduleAnyway}`), "minDomains: Invalid value: 3: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"},
		"one key twice":                          {constraint(`{maxSkew: 1, ` + zone + `, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, ` + zone + `, whenUnsatisfiable: DoNotSchedule}`), `Duplicate value: "{topology.kubernetes.io/zone, DoNotSchedule}"`},
		"another inclusion policy":               {constraint(`{maxSkew: 1, ` + zone + `, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Obey}`), `nodeTaintsPolicy: Unsupported value: "Obey"`},
		"matchLabelKeys without a selector":      {constraint(`{maxSkew: 1, ` + zone + `, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [app]}`), "matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"},
		"a selector with an operator of its own": {constraint(`{maxSkew: 1, ` + zone + `, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchExpressions: [{key: a, operator: Is}]}}`), `matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`},
		"a class that is no name":                {`priorityClassName: High_1, containers: ` + containers, "priorityClassName: Invalid value"},
	} {
		for kind, object := range map[string]string{
			"Deployment": `{apiVersion: apps/v1, kind: Deployment, metadata: {name: w, namespace: shop}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {` + test.spec + `}}}}`,
			"CronJob":    `{apiVersion: batch/v1, kind: CronJob, metadata: {name: w, namespace: shop}, spec: {schedule: "0 3 * * *", jobTemplate: {spec: {template: {metadata: {labels: {app: web}}, spec: {restartPolicy: Never, ` + test.spec + `}}}}}}`,
		} {
			t.Run(name+" of a "+kind, func(t *testing.T) {
				r := mustReview(t, e, object, Question{})
				says := test.says
				if kind == "CronJob" {
					says = strings.ReplaceAll(says, "spec.template.spec.", "spec.jobTemplate.spec.template.spec.")
				}
				if strings.Contains(r.Message, "-5") && strings.Contains(r.Message, "Raise") {
					t.Errorf("a higher grace period is offered where none is high enough: %s", r.Message)
				}
				if refused := r.Decision == Denied && r.Reason == "Invalid"; refused != (says != "") || !strings.Contains(r.Message, says) || refused && r.Via != "" {
					t.Errorf("%s %s: %s", r.Decision, r.Reason, r.Message)
				}
			})
		}
	}
}

// A bare pod is validated after the policies have changed it.
func TestInvalidPods(t *testing.T) {
	e := engineOf(t, web, shop, high, service)
	for spec, says := range map[string]string{
		`containers: [{name: c, image: i, livenessProbe: {terminationGracePeriodSeconds: -1, exec: {command: [a]}}}]`:             "must be greater than 0",
		`topologySpreadConstraints: [{maxSkew: 0, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}], containers: ` + containers: "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0",
		`containers: [{name: c, image: i, lifecycle: {preStop: {sleep: {seconds: -5}}}}]`:                                         "spec.containers[0].lifecycle.preStop.sleep: Invalid value: -5",
		`terminationGracePeriodSeconds: 60, containers: [{name: c, image: i, lifecycle: {preStop: {sleep: {seconds: 60}}}}]`:      "",
	} {
		r := mustReview(t, e, `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop, labels: {app: web}}, spec: {`+spec+`}}`, Question{})
		if (r.Decision == Denied) != (says != "") || !strings.Contains(r.Message, says) {
			t.Errorf("%s: %s %s", spec, r.Decision, r.Message)
		}
	}
}

// An explanation of a manifest has why the API server's validation refuses it.
func TestInvalidInAnExplanation(t *testing.T) {
	e := engineOf(t, web, shop, high, service)
	const (
		sleeping = `containers: [{name: c, image: i, lifecycle: {preStop: {sleep: {seconds: 60}}}}]`
		workload = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: w, namespace: shop}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {SPEC}}}}`
		pod      = `{apiVersion: v1, kind: Pod, metadata: {name: w, namespace: shop}, spec: {SPEC}}`
	)
	for text, says := range map[string]string{
		strings.Replace(workload, "SPEC", sleeping, 1):                                             "spec.template.spec.containers[0].lifecycle.preStop.sleep: Invalid value: 60",
		strings.Replace(workload, "SPEC", "terminationGracePeriodSeconds: 70, "+sleeping, 1):       "",
		strings.Replace(pod, "SPEC", strings.Replace(sleeping, "60", "-5", 1), 1):                  "spec.containers[0].lifecycle.preStop.sleep: Invalid value: -5",
		strings.Replace(pod, "SPEC", "terminationGracePeriodSeconds: 70, "+sleeping, 1):            "",
		strings.Replace(pod, "SPEC", "nodeName: n1, "+strings.Replace(sleeping, "60", "-5", 1), 1): "",
	} {
		in, err := e.Situation(t.Context(), document(t, text), Question{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(in.Invalid, says) || says == "" && in.Invalid != "" {
			t.Errorf("%q, want %q", in.Invalid, says)
		}
	}
}
