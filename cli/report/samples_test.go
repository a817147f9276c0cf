package report

import (
	"encoding/json"
	"strings"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
)

// samples are the reports that every format prints.
func samples() map[string]*review.Report {
	return map[string]*review.Report{
		"mixed": review.NewReport(3, 7, []review.Result{impatient(), checkout(), frontend(), forceDeleted(), unknownNamespace(), calm()}, []*manifest.Error{
			{File: "manifests/broken.yaml", Line: 12, Message: "mapping values are not allowed in this context"},
			{File: "manifests/logo.png", Message: "neither YAML nor JSON: it holds a NUL byte"},
		}),
		"clean":     review.NewReport(1, 0, []review.Result{calm()}, nil),
		"unjudged":  unjudged(),
		"pending":   review.NewReport(1, 0, []review.Result{pending(), tight(), calm()}, nil),
		"no-nodes":  unplaced(),
		"remarks":   remarked("spec.match <b>\n::error::"),
		"empty":     review.NewReport(2, 9, nil, nil),
		"bad-input": review.NewReport(1, 0, nil, []*manifest.Error{{File: "-", Line: 3, Message: "half a document"}}),
		"hostile":   review.NewReport(1, 0, []review.Result{hostile()}, []*manifest.Error{{File: "a\n::error::b|c.yaml", Line: 1, Message: "\x1b[2J<script>"}}),
	}
}

func workload(name string, line int) review.Result {
	return review.Result{
		Resource: manifest.Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: name},
		Source:   manifest.Source{File: "manifests/workloads.yaml", Line: line},
		Via:      review.ViaTemplate, Operation: "CREATE", Decision: review.Allowed,
		Warnings: []string{}, Patch: []review.Operation{}, Policies: []string{"production-web"},
	}
}

// impatient is refused, and warned about.
func impatient() review.Result {
	r := workload("impatient", 41)
	r.Decision, r.Reason = review.Denied, "PriorityClassNotAllowed"
	r.Message = `PriorityClass "system-cluster-critical" is not allowed here: PodPolicy production-web allows web-high, web-low. Name one of these in spec.priorityClassName, or ask the owner of the policy`
	r.Warnings = []string{"container impatient: a probe's terminationGracePeriodSeconds is longer than the pod's 45 s: a probe failure stops it more slowly than a delete"}
	return r
}

// checkout is warned about and changed.
func checkout() review.Result {
	r := workload("checkout", 22)
	r.Warnings = []string{"terminationGracePeriodSeconds is now 35, not 25: PodPolicy production-web: preStop of container checkout takes 20 s plus a margin of 15 s"}
	set(&r, "/spec/terminationGracePeriodSeconds", `35`, "terminationGracePeriodSeconds", "PodPolicy production-web: preStop of container checkout takes 20 s plus a margin of 15 s")
	r.Before = json.RawMessage(`{"metadata":{"name":"checkout"},"spec":{"containers":[{"name":"checkout"}],"priorityClassName":"web-low","terminationGracePeriodSeconds":25}}`)
	r.After = json.RawMessage(`{"metadata":{"name":"checkout"},"spec":{"containers":[{"name":"checkout"}],"priorityClassName":"web-low","terminationGracePeriodSeconds":35}}`)
	return r
}

// frontend gets every default.
func frontend() review.Result {
	const (
		spread      = `[{"labelSelector":{"matchLabels":{"app":"frontend"}},"matchLabelKeys":["pod-template-hash"],"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"ScheduleAnyway"}]`
		enforcement = `{"podgrace.dev/enforcement":"{\"memory\":{\"protection\":\"Low\"},\"cpu\":{\"weight\":200},\"oom\":{\"rank\":20}}"}`
	)
	r := workload("frontend", 2)
	set(&r, "/spec/priorityClassName", `"web-high"`, "priorityClassName", "PodPolicy production-web: the pod named no class")
	set(&r, "/spec/priority", `100000`, "priority", "PodPolicy production-web: the value of web-high")
	set(&r, "/spec/topologySpreadConstraints", spread, "topologySpreadConstraints", "PodPolicy production-web: the pod has no constraints; selector app=frontend")
	set(&r, "/spec/terminationGracePeriodSeconds", `45`, "terminationGracePeriodSeconds", "PodPolicy production-web: default 45 s (30 counts as unset)")
	set(&r, "/metadata/annotations", enforcement, "enforcement", "PodPolicy production-web")
	r.Before = json.RawMessage(`{"metadata":{"labels":{"app":"frontend"}},"spec":{"containers":[{"name":"nginx"}],"priority":0,"terminationGracePeriodSeconds":30}}`)
	r.After = json.RawMessage(`{"metadata":{"annotations":` + enforcement + `,"labels":{"app":"frontend"}},"spec":{"containers":[{"name":"nginx"}],"priority":100000,"priorityClassName":"web-high",` +
		`"terminationGracePeriodSeconds":45,"topologySpreadConstraints":` + spread + `}}`)
	return r
}

// set adds what a policy changes.
func set(r *review.Result, path, value, name, why string) {
	r.Patch = append(r.Patch, review.Operation{Op: "add", Path: path, Value: json.RawMessage(value)})
	r.Changes = append(r.Changes, review.Change{Path: path, Name: name, Value: strings.Trim(value, `"`), Why: why})
	if r.Why == nil {
		r.Why = map[string]string{}
	}
	r.Why[name] = strings.Trim(value, `"`) + " (" + why + ")"
}

// forceDeleted is a what-if.
func forceDeleted() review.Result {
	r := workload("db-0", 3)
	r.Resource.APIVersion, r.Resource.Kind, r.Source.File, r.Via = "v1", "Pod", "manifests/stateful/db.yaml", ""
	r.Operation, r.User = "DELETE", "alice"
	r.Decision, r.Reason = review.Denied, "Unsafe"
	r.Message = "pod shop/db-0 may still run on worker-3 (whose state could not be read): it has a stable identity (StatefulSet db), so its replacement could run beside it. " +
		"Ways on: try again when its node's state can be read; if you accept that it may run twice: kubectl podgrace confirm -n shop db-0, and repeat. (PodPolicy stateful)"
	r.Unknown, r.Policies = []string{"node worker-3"}, []string{"stateful"}
	return r
}

func unknownNamespace() review.Result {
	r := workload("worker", 60)
	r.Resource.Namespace = "jobs"
	r.Unknown = []string{"namespace jobs and its labels", "PriorityClass batch-low"}
	r.Policies = []string{}
	return r
}

func calm() review.Result { return workload("calm", 80) }

// pending is changed, and fits nowhere; tight only where another one goes.
func pending() review.Result {
	r := checkout()
	r.Warnings = []string{}
	r.Pending = &review.Pending{
		Reason:  "Unschedulable",
		Message: "would be pending: 0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints; the constraints on topology.kubernetes.io/zone and kubernetes.io/hostname contradict each other (the first allows n3, the second n2)",
	}
	return r
}

func tight() review.Result {
	r := workload("tight", 90)
	r.Warnings = []string{"terminationGracePeriodSeconds of 1 is short"}
	r.Pending = &review.Pending{Reason: "NeedsPreemption", Message: "would be pending until others went: 0/3 nodes are available: 3 Insufficient cpu; on n2 1 pod would go, within 30 s (shop/calm)"}
	r.Unknown = []string{"Services of Namespace shop"}
	return r
}

// unplaced is a report of previews without nodes.
func unplaced() *review.Report {
	r := review.NewReport(1, 0, []review.Result{calm()}, nil)
	r.Summary.NoNodes = true
	return r
}

// hostile has what a manifest's author could put into each text.
func hostile() review.Result {
	const bad = "a\x1b[31mb\r\n::error::c|d`e</script><img src=x>@all #1 ##vso[task.x]y\u202ez\u009b2J\xff %0A $x$ https://x www.x"
	r := workload(bad, 1)
	r.Resource.Kind, r.Resource.Namespace, r.Source.File, r.User, r.Operation = bad, bad, bad, bad, "UPDATE"
	r.Decision, r.Reason, r.Message = review.Denied, bad, bad
	r.Warnings, r.Unknown, r.Policies = []string{bad, "::warning::x"}, []string{bad}, []string{bad}
	r.Pending = &review.Pending{Reason: bad, Message: bad}
	value, err := json.Marshal(map[string]any{bad: []any{bad, "```\n::error::x"}})
	if err != nil {
		panic(err)
	}
	r.Patch = []review.Operation{{Op: "add", Path: "/metadata/annotations", Value: value}, {Op: "remove", Path: "/spec/" + bad}}
	r.Changes = []review.Change{{Path: "/metadata/annotations", Name: "enforcement", Value: bad, Why: bad}, {Name: bad, Value: bad, Why: bad}}
	r.Why = map[string]string{"enforcement": bad, bad: bad}
	r.Before = json.RawMessage(`{"spec":{}}`)
	r.After = json.RawMessage(`{"spec":{},"metadata":{"annotations":` + string(value) + `}}`)
	return r
}

// remarked is a report with all that is said beside results.
func remarked(message string) *review.Report {
	r := review.NewReport(2, 0, []review.Result{calm(), calm()}, nil)
	r.Remarks = []review.Remark{{Policy: "web", Message: "it is for none of what was reviewed"}, {Policy: "odd", Message: message}, {Policy: "all", Message: "it is for none of what was reviewed"}}
	r.Repeated = []review.Repeated{{Resource: calm().Resource, Sources: []manifest.Source{{File: "a.yaml", Line: 1}, {File: message, Line: 3}, {File: "-"}}}}
	return r
}

// unjudged is a report without policies.
func unjudged() *review.Report {
	r := review.NewReport(1, 0, []review.Result{calm()}, nil)
	r.Summary.NoPolicies = true
	return r
}
