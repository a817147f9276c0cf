package review

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// What the API server would not store is no workload, and nothing is said of its pods.
func TestNoWorkload(t *testing.T) {
	e := engineOf(t, web, shop, high, service)
	spec := `selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c}]}}`
	for name, test := range map[string]struct{ text, says string }{
		"a patch of a Deployment":     {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3}}`, "Deployment web: spec.selector is missing"},
		"one of its containers":       {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {spec: {containers: [{name: c, image: b}]}}}}`, "spec.selector is missing"},
		"a patch of a StatefulSet":    {`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {template: {spec: {priorityClassName: high, containers: [{name: c}]}}}}`, "spec.selector is missing"},
		"a patch of a DaemonSet":      {`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}, spec: {template: {spec: {containers: [{name: c}]}}}}`, "spec.selector is missing"},
		"a patch of a CronJob":        {`{apiVersion: batch/v1, kind: CronJob, metadata: {name: c}, spec: {schedule: "@daily"}}`, "spec.jobTemplate.spec.template.spec.containers is missing"},
		"a patch of a Job":            {`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {spec: {nodeSelector: {a: b}}}}}`, "spec.template.spec.containers is missing"},
		"an empty selector":           {strings.Replace(`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r}, spec: {SPEC}}`, "SPEC", strings.Replace(spec, "{matchLabels: {app: web}}", "{}", 1), 1), "spec.selector is missing"},
		"one of other labels":         {strings.Replace(`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r}, spec: {SPEC}}`, "SPEC", strings.Replace(spec, "{app: web}", "{app: api}", 1), 1), "spec.selector (app=api) does not select"},
		"one that can't be read":      {strings.Replace(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: r}, spec: {SPEC}}`, "SPEC", strings.Replace(spec, "{matchLabels: {app: web}}", "{matchExpressions: [{key: a, operator: Near}]}", 1), 1), `spec.selector: "Near"`},
		"a controller without labels": {`{apiVersion: v1, kind: ReplicationController, metadata: {name: rc}, spec: {template: {spec: {containers: [{name: c}]}}}}`, "spec.selector is missing"},
	} {
		for _, q := range []Question{{}, {Operation: OperationDelete}} {
			r, wrong := e.Review(t.Context(), document(t, test.text), q)
			if r != nil || wrong == nil || !strings.Contains(wrong.Message, test.says) {
				t.Errorf("%s: %v, %+v", name, wrong, r)
			}
		}
		if _, err := e.Situation(t.Context(), document(t, test.text), Question{}); err == nil {
			t.Errorf("%s: it is explained", name)
		}
	}
}

// The selector of a ReplicationController may be left out: the API server takes its template's labels.
func TestReplicationControllerWithoutSelector(t *testing.T) {
	const old = `
apiVersion: v1
kind: ReplicationController
metadata: {name: es, namespace: shop}
spec:
  SELECTOR
  template: {metadata: {labels: {app: es, tier: LABEL}}, spec: {containers: [{name: c}]}}
`
	e := engineOf(t, web, shop, high, service)
	for _, label := range []string{"data", "master"} {
		text := strings.Replace(old, "LABEL", label, 1)
		without := mustReview(t, e, strings.Replace(text, "SELECTOR", "replicas: 1", 1), Question{})
		with := mustReview(t, e, strings.Replace(text, "SELECTOR", "selector: {app: es, tier: "+label+"}", 1), Question{})
		const path = "/spec/topologySpreadConstraints"
		if got := patchOf(without)[path]; got == "" || got != patchOf(with)[path] || !strings.Contains(got, label) || len(without.Warnings) > 0 {
			t.Errorf("%s, with a selector %s; %v", got, patchOf(with)[path], without.Warnings)
		}
	}
	// One in the state, whose pod asks for its selector.
	if err := e.State.Add(document(t, strings.Replace(strings.Replace(old, "SELECTOR", "replicas: 1", 1), "LABEL", "data", 1)), ""); err != nil {
		t.Fatal(err)
	}
	r := mustReview(t, e, `{apiVersion: v1, kind: Pod, metadata: {name: es-1, namespace: shop, labels: {app: es, tier: data}, ownerReferences: [{apiVersion: v1, kind: ReplicationController, name: es, uid: u, controller: true}]}, spec: {containers: [{name: c}]}}`, Question{})
	if got := patchOf(r)["/spec/topologySpreadConstraints"]; !strings.Contains(got, `{"app":"es","tier":"data"}`) {
		t.Errorf("%s %v", got, r.Warnings)
	}
}

// What an operator makes is judged: nothing above it says what its pods are.
func TestOwnedWorkloads(t *testing.T) {
	e := engineOf(t, web, shop, high, service)
	body := map[string]string{
		"Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "ReplicaSet": "apps/v1", "Job": "batch/v1", "ReplicationController": "v1",
	}
	for _, owner := range []string{"monitoring.coreos.com/v1 Prometheus", "acid.zalan.do/v1 postgresql", "argoproj.io/v1alpha1 Rollout", "example.com/v1 Deployment", "example.com/v1 CronJob"} {
		apiVersion, kind, _ := strings.Cut(owner, " ")
		for made, version := range body {
			m := map[string]any{
				"apiVersion": version, "kind": made,
				"metadata": map[string]any{"name": "w", "namespace": "shop", "ownerReferences": []any{map[string]any{"apiVersion": apiVersion, "kind": kind, "name": "o", "uid": "u", "controller": true}}},
			}
			spec := map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "w"}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "c"}}, "terminationGracePeriodSeconds": 10}}}
			switch made {
			case "Job":
			case "ReplicationController":
				spec["selector"] = map[string]any{"app": "w"}
			default:
				spec["selector"] = map[string]any{"matchLabels": map[string]any{"app": "w"}}
			}
			m["spec"] = spec
			text, err := yaml.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			r := mustReview(t, e, string(text), Question{})
			if r == nil || patchOf(r)["/spec/terminationGracePeriodSeconds"] != "20" {
				t.Errorf("%s of %s: %+v", made, owner, r)
			}
			r = mustReview(t, e, string(text), Question{Operation: OperationDelete, GracePeriodSeconds: new(int64(0))})
			if r == nil || r.Decision != Denied {
				t.Errorf("%s of %s, force delete: %+v", made, owner, r)
			}
		}
	}
}

// The first pod of a StatefulSet has the labels by which a Service for one pod selects it, and constraints that follow it spread nothing.
func TestServiceOfOnePod(t *testing.T) {
	set := strings.Replace(statefulSet, "serviceName: db", "serviceName: db, ordinals: {start: 3}", 1)
	for name, test := range map[string]struct{ set, selector, says string }{
		"by its name":          {statefulSet, "{app: db, statefulset.kubernetes.io/pod-name: db-0}", "statefulset.kubernetes.io/pod-name"},
		"by its index":         {statefulSet, `{app: db, apps.kubernetes.io/pod-index: "0"}`, "apps.kubernetes.io/pod-index"},
		"that does not begin":  {strings.Replace(set, "serviceName: db, ordinals: {start: 3}", "ordinals: {start: 3}", 1), "{statefulset.kubernetes.io/pod-name: db-3}", "statefulset.kubernetes.io/pod-name"},
		"of another pod of it": {statefulSet, "{app: db, statefulset.kubernetes.io/pod-name: db-1}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := engineOf(t, web, shop, high, strings.Replace(service, "{app: web}", test.selector, 1))
			r := mustReview(t, e, test.set, Question{})
			spread, warned := patchOf(r)["/spec/topologySpreadConstraints"], strings.Join(r.Warnings, "\n")
			if test.says == "" && (strings.Contains(spread, "pod-name") || strings.Contains(warned, "spread nothing")) {
				t.Errorf("%s\n%s", spread, warned)
			}
			if test.says != "" && (!strings.Contains(spread, test.says) || !strings.Contains(warned, "the topology spread constraints spread nothing") || !strings.Contains(warned, test.says)) {
				t.Errorf("%s\n%s", spread, warned)
			}
		})
	}
}

// Whether a hard constraint can be met is not known where no Node is.
func TestHardConstraintsWithoutNodes(t *testing.T) {
	const policy = `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: hard}
spec:
  topologySpread:
    onInfeasible: ACTION
    constraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule DOMAINS}]
`
	zoned := `{apiVersion: v1, kind: Node, metadata: {name: n2, labels: {topology.kubernetes.io/zone: a}}}`
	for name, test := range map[string]struct {
		action, domains string
		state           []string
		want            string
	}{
		"Deny, no Node":               {"Deny", "", nil, "Nodes"},
		"Soften, no Node":             {"Soften", "", nil, "Nodes"},
		"Warn, no Node":               {"Warn", "", nil, "Nodes"},
		"minDomains, no Node":         {"Deny", ", minDomains: 2", nil, "Nodes"},
		"a Node":                      {"Deny", "", []string{zoned}, ""},
		"minDomains, a Node, no Pod":  {"Deny", ", minDomains: 2", []string{zoned}, "Pods of Namespace shop"},
		"minDomains, a Node and Pods": {"Deny", ", minDomains: 2", []string{zoned, running}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("ACTION", test.action, "DOMAINS", test.domains).Replace(policy)
			r := mustReview(t, engineOf(t, text, append(test.state, shop, service)...), deployment, Question{})
			if got := strings.Join(r.Unknown, ", "); got != test.want {
				t.Errorf("not known: %q; %s %v", got, r.Message, r.Warnings)
			}
		})
	}
	soft := strings.NewReplacer("onInfeasible: ACTION", "onInfeasible: Deny", "DoNotSchedule DOMAINS", "ScheduleAnyway").Replace(policy)
	if r := mustReview(t, engineOf(t, soft, shop, service), deployment, Question{}); len(r.Unknown) > 0 {
		t.Errorf("nothing hard: %v", r.Unknown)
	}
}
