package monitoring

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// clusterLabel is what a series has of the cluster that it is of.
const clusterLabel = "cluster"

// metric is a row of docs/metrics.md.
type metric struct {
	labels []string
	// help is what it means.
	help string
}

// section is a row of panels in the dashboard, under a title.
type section struct {
	title  string
	panels []panel
}

// panel shows queries. Its description is what docs/metrics.md says of their metrics.
type panel struct {
	title, kind, unit string
	// wide panels take half the width, others a quarter.
	wide    bool
	queries []query
	// marks are drawn where a value says something.
	marks []float64
}

// query is PromQL, with the dashboard's variables; legend names a series.
type query struct{ expr, legend string }

// Kinds of panels, as Grafana calls them.
const (
	lines = "timeseries"
	stat  = "stat"
	bars  = "bargauge"
	state = "state-timeline"
)

// Units, as Grafana calls them.
const (
	perSecond = "reqps"
	seconds   = "s"
	bytes     = "bytes"
	share     = "percentunit"
	number    = "short"
)

// rows are the dashboard. Every metric of ours is in it (TestDashboardShowsEveryMetric).
func rows() []section {
	return []section{
		{"Objectives", []panel{
			{"Kept in 30 days", stat, share, true, []query{{`1 - sum by (cluster, slo) (avg_over_time(podgrace_slo:bad:5m{cluster=~"$cluster"}[30d])) / sum by (cluster, slo) (avg_over_time(podgrace_slo:total:5m{cluster=~"$cluster"}[30d]))`, "{{slo}} {{cluster}}"}}, nil},
			{"Error budget of 30 days that is left", bars, share, true, []query{{`1 - (sum by (cluster, slo) (avg_over_time(podgrace_slo:bad:5m{cluster=~"$cluster"}[30d])) / sum by (cluster, slo) (avg_over_time(podgrace_slo:total:5m{cluster=~"$cluster"}[30d]))) / on (slo) group_left () (1 - max by (slo) (podgrace_slo:objective))`, "{{slo}} {{cluster}}"}}, []float64{0, 0.25}},
			{"Burn rate of an hour", lines, number, true, []query{{`podgrace_slo:bad:1h{cluster=~"$cluster"} / podgrace_slo:total:1h / on (slo) group_left () (1 - max by (slo) (podgrace_slo:objective))`, "{{slo}} {{cluster}}"}}, []float64{6, 14.4}},
			{"Burn rate of three days", lines, number, true, []query{{`podgrace_slo:bad:3d{cluster=~"$cluster"} / podgrace_slo:total:3d / on (slo) group_left () (1 - max by (slo) (podgrace_slo:objective))`, "{{slo}} {{cluster}}"}}, []float64{1}},
		}},
		{"Decisions about removals", []panel{
			{"Removals by verdict", lines, perSecond, false, of("verdict", "sum by (verdict) (rate(podgrace_removals_total{%s}[$__rate_interval]))"), nil},
			{"Refused, by road", lines, perSecond, false, of("road", `sum by (road) (rate(podgrace_removals_total{verdict="Deny", %s}[$__rate_interval]))`), nil},
			{"Refused, by reason", lines, perSecond, false, of("reason", `sum by (reason) (rate(podgrace_removals_total{verdict="Deny", %s}[$__rate_interval]))`), nil},
			{"Warned about, by road and reason", lines, perSecond, false, of("road reason", `sum by (road, reason) (rate(podgrace_removals_total{verdict="Warn", %s}[$__rate_interval]))`), nil},
		}},
		{"Decisions about pods", []panel{
			{"Changed, by section of the policy", lines, perSecond, false, of("section", "sum by (section) (rate(podgrace_pod_changes_total{%s}[$__rate_interval]))"), nil},
			{"Refused, by reason", lines, perSecond, false, []query{
				{`sum by (reason) (rate(podgrace_pod_denials_total{cluster=~"$cluster"}[$__rate_interval]))`, "{{reason}}"},
				{`sum (rate(apiserver_validating_admission_policy_check_total{policy="limits.podgrace.dev", enforcement_action="deny", cluster=~"$cluster"}[$__rate_interval]))`, "Limits, by the API server itself"},
			}, nil},
			{"Warnings, and what was not compared", lines, perSecond, false, []query{
				{`sum (rate(podgrace_pod_warnings_total{cluster=~"$cluster"}[$__rate_interval]))`, "warnings"},
				{`sum by (reason) (rate(podgrace_spread_unjudged_total{cluster=~"$cluster"}[$__rate_interval]))`, "spread: {{reason}}"},
			}, nil},
			{"Refused, by namespace and policy (removals, too)", lines, number, true, []query{{"topk(20, " + decided("namespace, policy", `verdict="Deny", cluster=~"$cluster", namespace=~"$namespace"`, "$__rate_interval") + ")", "{{namespace}} {{policy}}"}}, nil},
			{"Whom Deny would hit: warned about, by namespace and policy", lines, number, true, []query{{"topk(20, " + decided("namespace, policy", `verdict="Warn", cluster=~"$cluster", namespace=~"$namespace"`, "$__rate_interval") + ")", "{{namespace}} {{policy}}"}}, nil},
			{"Limits that exceptions lifted, by policy and namespace", lines, perSecond, false, []query{{`sum by (policy, namespace) (rate(podgrace_pod_exceptions_total{cluster=~"$cluster", namespace=~"$namespace"}[$__rate_interval]))`, "{{policy}} {{namespace}}"}}, nil},
		}},
		{"Answers", []panel{
			{"Requests, by path", lines, perSecond, false, of("webhook", `sum by (webhook) (rate(controller_runtime_webhook_requests_total{job="podgrace-webhook", %s}[$__rate_interval]))`), nil},
			{"99 of 100 answers take at most", lines, seconds, false, []query{
				{`histogram_quantile(0.99, sum by (le, webhook) (rate(controller_runtime_webhook_latency_seconds_bucket{job="podgrace-webhook", cluster=~"$cluster"}[$__rate_interval])))`, "replicas: {{webhook}}"},
				{`histogram_quantile(0.99, sum by (le, name) (rate(apiserver_admission_webhook_admission_duration_seconds_bucket{name=~".+[.]podgrace[.]dev", cluster=~"$cluster"}[$__rate_interval])))`, "API servers: {{name}}"},
			}, []float64{0.1, 5}},
			{"Not judged", lines, perSecond, false, []query{
				{`sum by (path) (rate(podgrace_reviews_missed_total{cluster=~"$cluster"}[$__rate_interval]))`, "missed {{path}}"},
				{`sum by (path, reason) (rate(podgrace_reviews_refused_total{cluster=~"$cluster"}[$__rate_interval]))`, "refused {{path}} {{reason}}"},
				{`sum by (webhook) (rate(controller_runtime_webhook_requests_total{job="podgrace-webhook", code=~"5..", cluster=~"$cluster"}[$__rate_interval]))`, "failed {{webhook}}"},
			}, nil},
			{"Not answered, as API servers see it", lines, perSecond, false, []query{
				{`sum by (name) (rate(apiserver_admission_webhook_rejection_count{name=~".+[.]podgrace[.]dev", error_type="calling_webhook_error", cluster=~"$cluster"}[$__rate_interval]))`, "refused {{name}}"},
				{`sum by (name) (rate(apiserver_admission_webhook_fail_open_count{name=~".+[.]podgrace[.]dev", cluster=~"$cluster"}[$__rate_interval]))`, "let through {{name}}"},
			}, nil},
		}},
		{"Replicas", []panel{
			{"Ready", lines, number, false, []query{
				{`sum by (cluster) (podgrace_webhook_ready{cluster=~"$cluster"})`, "ready {{cluster}}"},
				{`max by (cluster) (kube_deployment_spec_replicas{deployment="podgrace-webhook", cluster=~"$cluster"})`, "wanted {{cluster}}"},
			}, nil},
			{"Certificates expire in", bars, seconds, false, []query{{`podgrace_webhook_certificate_expiration_timestamp_seconds{cluster=~"$cluster"} - time()`, "{{instance}} {{cluster}}"}}, []float64{86400}},
			{"Leader", state, number, false, []query{{`max by (cluster, instance) (leader_election_master_status{name="podgrace-webhook", cluster=~"$cluster"})`, "{{instance}} {{cluster}}"}}, nil},
			{"Removal guard", state, number, false, []query{{`max by (cluster, state) (podgrace_removal_guard{cluster=~"$cluster"})`, "{{state}} {{cluster}}"}}, nil},
			{"Entries of the webhook configurations that lack something", stat, number, false, []query{{`sum by (cluster) (1 - min by (cluster, webhook) (podgrace_webhook_registered{cluster=~"$cluster"}))`, "{{cluster}}"}}, nil},
			{"Informers: failed lists and watches, by type", lines, perSecond, false, of("type instance", "sum by (type, instance) (rate(podgrace_webhook_watch_failures_total{%s}[$__rate_interval]))"), nil},
			{"Policies: how far a replica's generation is behind", lines, number, false, []query{
				{`max by (cluster, policy) (podgrace_pod_policy_in_force_generation{cluster=~"$cluster"}) - min by (cluster, policy) (podgrace_pod_policy_in_force_generation{cluster=~"$cluster"})`, "{{policy}} {{cluster}}"},
				{`count by (cluster) (podgrace_pod_policy_out_of_force{cluster=~"$cluster"}) or sum by (cluster) (0 * podgrace_webhook_ready{cluster=~"$cluster"})`, "can't be read {{cluster}}"},
			}, nil},
			{"What fails beside requests", lines, perSecond, false, []query{
				{`sum by (controller) (rate(controller_runtime_reconcile_errors_total{job="podgrace-webhook", cluster=~"$cluster"}[$__rate_interval]))`, "leader: {{controller}}"},
				{`sum (rate(podgrace_webhook_handshake_failures_total{cluster=~"$cluster"}[$__rate_interval]))`, "TLS handshakes"},
			}, nil},
			{"Lines that the decision log left out", lines, perSecond, false, of("decision", "sum by (decision) (rate(podgrace_decision_log_suppressed_total{%s}[$__rate_interval]))"), nil},
			{"Versions", stat, number, true, []query{{`count by (cluster, job, version) (podgrace_build_info{cluster=~"$cluster"})`, "{{job}} {{version}} {{cluster}}"}}, nil},
		}},
		{"Node enforcer: what it did", []panel{
			{"Files written, by file", lines, perSecond, false, node("file", "sum by (file) (rate(podgrace_node_writes_total{%s}[$__rate_interval]))"), nil},
			{"Files that are not as planned, by reason", lines, number, false, node("owner reason", "sum by (owner, reason) (podgrace_node_drift_files{%s})"), nil},
			{"Rounds, 99 of 100 take at most", lines, seconds, false, node("scope", "histogram_quantile(0.99, sum by (le, scope) (rate(podgrace_node_round_seconds_bucket{%s}[$__rate_interval])))"), nil},
			{"Rounds that fail, files given up", lines, number, false, []query{
				{`sum by (instance) (increase(podgrace_node_round_failures_total{cluster=~"$cluster", instance=~"$node"}[$__rate_interval]))`, "failed {{instance}}"},
				{`sum by (instance) (increase(podgrace_node_given_up_files_total{cluster=~"$cluster", instance=~"$node"}[$__rate_interval]))`, "given up {{instance}}"},
			}, nil},
			{"Steps of evictions", lines, number, false, node("kind step", "sum by (kind, step) (increase(podgrace_node_eviction_steps_total{%s}[$__rate_interval]))"), nil},
			{"Pods that would be evicted, in mode Observe", lines, number, false, node("signal", "sum by (signal) (increase(podgrace_node_would_evict_total{%s}[$__rate_interval]))"), nil},
			{"From the decision to the end, 99 of 100", lines, seconds, false, node("kind", `histogram_quantile(0.99, sum by (le, kind) (rate(podgrace_node_eviction_seconds_bucket{step="Gone", %s}[$__rate_interval])))`), nil},
			{"Cgroups in the plan, by level", lines, number, false, node("level", "sum by (level) (podgrace_node_cgroups{%s})"), nil},
			{"Nodes that are not enforced, and why", state, number, false, node("instance reason", "max by (instance, reason) (podgrace_node_refused{%s})"), nil},
			{"Nodes with an enforcer", lines, number, false, []query{
				{`sum by (cluster) (up{job="podgrace-nodeenforcer", cluster=~"$cluster"})`, "up {{cluster}}"},
				{`max by (cluster) (kube_daemonset_status_desired_number_scheduled{daemonset="podgrace-nodeenforcer", cluster=~"$cluster"})`, "wanted {{cluster}}"},
				{`max by (cluster) (kube_daemonset_status_number_ready{daemonset="podgrace-nodeenforcer", cluster=~"$cluster"})`, "ready {{cluster}}"},
			}, nil},
		}},
		{"Nodes: how near to eviction", []panel{
			{"Nearest nodes (at 1 pods are evicted)", bars, share, true, []query{{"topk(20, " + nearness("bytes") + " or " + nearness("inodes") + " or " + nearness("processes") + ")", "{{instance}} {{kind}} {{signal}} {{cluster}}"}}, []float64{0.8, 1}},
			{"Over time, by signal, of the nearest node", lines, share, true, []query{{"max by (cluster, kind, signal) (" + nearness("bytes") + " or " + nearness("inodes") + " or " + nearness("processes") + ")", "{{kind}} {{signal}} {{cluster}}"}}, []float64{0.8, 1}},
			{"Under pressure", state, number, true, node("instance resource", "max by (instance, resource) (podgrace_node_pressure{%s})"), nil},
			{"Signals that can't be measured", lines, number, false, node("signal", "sum by (signal) (1 - podgrace_node_eviction_signal_known{%s})"), nil},
			{"Time that tasks waited (PSI)", lines, share, false, node("cgroup resource kind", "max by (cgroup, resource, kind) (rate(podgrace_node_stall_seconds_total{%s}[$__rate_interval]))"), nil},
			{"Memory in use", lines, bytes, false, node("cgroup", "sum by (cgroup) (podgrace_node_memory_working_set_bytes{%s})"), nil},
			{"What the kernel did for memory", lines, number, false, node("cgroup event", "sum by (cgroup, event) (increase(podgrace_node_memory_events_total{%s}[$__rate_interval]))"), nil},
			{"Processors in use", lines, number, false, node("cgroup", "sum by (cgroup) (rate(podgrace_node_cpu_seconds_total{%s}[$__rate_interval]))"), nil},
			{"Block devices", lines, "Bps", false, node("cgroup operation", "sum by (cgroup, operation) (rate(podgrace_node_io_bytes_total{%s}[$__rate_interval]))"), nil},
			{"Processes and threads", lines, number, false, node("cgroup", "sum by (cgroup) (podgrace_node_processes{%s})"), nil},
		}},
		{"Fencing", []panel{
			{"Silent nodes", lines, number, false, of("", "max by (cluster) (podgrace_fencer_partitioned_nodes{%s})"), nil},
			{"Fences that are not over, by phase", lines, number, false, of("phase", "max by (cluster, phase) (podgrace_fencer_fences{%s})"), nil},
			{"Calls of agents", lines, number, false, of("call result", "sum by (call, result) (increase(podgrace_fence_agent_calls_total{%s}[$__rate_interval]))"), nil},
			{"Receipts, and what must never happen", lines, number, false, []query{
				{`sum by (class) (increase(podgrace_fence_receipts_total{cluster=~"$cluster"}[$__rate_interval]))`, "{{class}}"},
				{`sum by (reason) (increase(podgrace_fence_alarms_total{cluster=~"$cluster"}[$__rate_interval]))`, "{{reason}}"},
			}, nil},
			{"NetworkFences that are not lifted", lines, number, false, of("incident", "max by (cluster, incident) (podgrace_fencer_network_fences{%s})"), nil},
			{"The oldest of them has been there for", stat, seconds, false, of("incident", "time() - max by (cluster, incident) (podgrace_fencer_oldest_network_fence_timestamp_seconds{%s} > 0)"), nil},
			{"Rounds", lines, number, false, of("result", "sum by (cluster, result) (rate(podgrace_fencer_rounds_total{%s}[$__rate_interval]))"), nil},
		}},
		{"Volume lock", []panel{
			{"VolumeLocks, by how it stands with them", lines, number, false, of("state", "max by (cluster, state) (podgrace_volumelock_locks{%s})"), nil},
			{"VolumeAttachments that wait", lines, number, false, of("", "max by (cluster) (podgrace_volumelock_waiting_attachments{%s})"), nil},
			{"The oldest has waited for", stat, seconds, false, of("", "time() - max by (cluster) (podgrace_volumelock_oldest_waiting_attachment_timestamp_seconds{%s} > 0)"), []float64{600}},
			{"The longest release goes on for", stat, seconds, false, of("", "time() - max by (cluster) (podgrace_volumelock_oldest_release_timestamp_seconds{%s} > 0)"), nil},
			{"Taken, and released by what", lines, number, false, []query{
				{`sum by (cluster) (increase(podgrace_volumelock_taken_total{cluster=~"$cluster"}[$__rate_interval]))`, "taken {{cluster}}"},
				{`sum by (cluster, evidence) (increase(podgrace_volumelock_released_total{cluster=~"$cluster"}[$__rate_interval]))`, "{{evidence}} {{cluster}}"},
			}, nil},
			{"What must not be", lines, number, false, of("reason", "sum by (cluster, reason) (increase(podgrace_volumelock_alarms_total{%s}[$__rate_interval]))"), nil},
			{"VolumeLocks, by driver", lines, number, false, of("driver", "max by (cluster, driver) (podgrace_volumelock_driver_locks{%s})"), nil},
			{"Drivers that are not gated", state, number, false, of("driver", "max by (cluster, driver) (podgrace_volumelock_driver_conflict{%s})"), nil},
			{"Leader of the volume lock", state, number, false, []query{{`max by (cluster, instance) (leader_election_master_status{name="podgrace-volumelock", cluster=~"$cluster"})`, "{{instance}} {{cluster}}"}}, nil},
			{"What fails, and who else was faster", lines, perSecond, false, []query{
				{`sum by (cluster, controller) (rate(controller_runtime_reconcile_errors_total{job="podgrace-volumelock", cluster=~"$cluster"}[$__rate_interval]))`, "failed {{controller}} {{cluster}}"},
				{`sum by (cluster) (rate(podgrace_volumelock_conflicts_total{cluster=~"$cluster"}[$__rate_interval]))`, "conflicts {{cluster}}"},
			}, nil},
		}},
	}
}

// nearness is the share that a threshold is of what is left of its signal.
func nearness(unit string) string {
	const which = `{cluster=~"$cluster", instance=~"$node"}`
	return "max by (cluster, instance, kind, signal) (podgrace_node_eviction_threshold_" + unit + which + ") / on (cluster, instance, signal) group_left () max by (cluster, instance, signal) (podgrace_node_eviction_signal_available_" + unit + which + ")"
}

// decided is how often a namespace's requests were refused or warned about within a time. A series begins with its first event, of which increase knows nothing: of
// one that was not there when the time began the first value, which is the lowest, counts too; and alone where there is no second. That it was not there is said of an
// hour: a scrape that failed, or a Prometheus that was away, is no new series, whose whole count since its replica started would be taken for new. Events are
// whole, and increase guesses what happened before the first scrape and after the last.
func decided(by, selector, within string) string {
	series := "podgrace_namespace_decisions_total{" + selector + "}"
	began := fmt.Sprintf("min_over_time(%s[%s]) unless max_over_time(%[1]s[1h] offset %[2]s)", series, within)
	return fmt.Sprintf("round(sum by (%s) (increase(%s[%s]) + (%s) or increase(%[2]s[%[3]s]) or %[4]s))", by, series, within, began)
}

// concrete is an expression as Grafana sends it: the interval is a variable of Grafana's own, which is no PromQL.
func concrete(expr string) string { return strings.ReplaceAll(expr, "$__rate_interval", "5m") }

// namesIn are the metrics of an expression.
func namesIn(expr string) (names []string) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(concrete(expr))
	if err != nil {
		return nil
	}
	for _, selector := range parser.ExtractSelectors(parsed) {
		for _, m := range selector {
			if m.Name == "__name__" {
				names = append(names, m.Value)
			}
		}
	}
	return names
}

// of is a query of the chosen clusters, which its %s stands for. The labels are what a series is called by.
func of(labels, expr string) []query {
	return []query{{fmt.Sprintf(expr, `cluster=~"$cluster"`), legend(labels)}}
}

// node is a query of the chosen nodes.
func node(labels, expr string) []query {
	return []query{{fmt.Sprintf(expr, `cluster=~"$cluster", instance=~"$node"`), legend(labels)}}
}

func legend(labels string) string {
	var all []string
	for _, l := range append(strings.Fields(labels), clusterLabel) {
		all = append(all, "{{"+l+"}}")
	}
	return strings.Join(all, " ")
}

// object is one of JSON's, whose keys encoding/json sorts.
type object map[string]any

// variables are what is chosen at the top.
func variables() []object {
	values := func(name, label, query string) object {
		return object{
			"name": name, "label": label, "type": "query", "datasource": datasource(), "query": object{"query": query, "refId": name}, "definition": query,
			"refresh": 2, "sort": 1, "includeAll": true, "allValue": ".*", "multi": true, "current": object{"selected": true, "text": []string{"All"}, "value": []string{"$__all"}},
		}
	}
	return []object{
		{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": object{"text": "", "value": ""}},
		values(clusterLabel, "Cluster", `label_values(podgrace_build_info, cluster)`),
		values("namespace", "Namespace", `label_values(podgrace_namespace_decisions_total{cluster=~"$cluster"}, namespace)`),
		values("node", "Node", `label_values(podgrace_node_cgroups{cluster=~"$cluster"}, instance)`),
	}
}

func datasource() object { return object{"type": "prometheus", "uid": "${datasource}"} }

// columns is the width of a dashboard in Grafana's units.
const columns = 24

// dashboard returns the JSON model of Grafana (its schemaVersion 39 is Grafana 10.4's; newer ones migrate it). metrics are those of docs/metrics.md.
func dashboard(metrics map[string]metric, version string) ([]byte, error) {
	var panels []object
	id, y := 0, 0
	for _, r := range rows() {
		id++
		panels = append(panels, object{"id": id, "type": "row", "title": r.title, "collapsed": false, "gridPos": object{"h": 1, "w": columns, "x": 0, "y": y}, "panels": []object{}})
		y++
		x := 0
		for _, p := range r.panels {
			id++
			width := columns / 4
			if p.wide {
				width = columns / 2
			}
			if x+width > columns {
				x, y = 0, y+height
			}
			panels = append(panels, p.model(id, object{"h": height, "w": width, "x": x, "y": y}, metrics))
			x += width
		}
		y += height
	}
	text, err := json.MarshalIndent(object{
		"uid": "podgrace", "title": "Podgrace", "tags": []string{"podgrace"}, "description": "Podgrace " + version + ". Alerts and runbooks: docs/operations.md of that version.",
		"schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1, "refresh": "1m", "timezone": "browser", "time": object{"from": "now-6h", "to": "now"},
		"templating": object{"list": variables()}, "annotations": object{"list": []object{}}, "links": []object{}, "panels": panels,
	}, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write the dashboard: %w", err)
	}
	return append(text, '\n'), nil
}

// height of a panel in Grafana's units.
const height = 8

func (p panel) model(id int, at object, metrics map[string]metric) object {
	var targets []object
	for i, q := range p.queries {
		targets = append(targets, object{
			"refId": string(rune('A' + i)), "datasource": datasource(), "editorMode": "code", "expr": q.expr, "legendFormat": q.legend,
			"instant": p.kind == stat || p.kind == bars, "range": p.kind != stat && p.kind != bars,
		})
	}
	steps := []object{{"color": "green", "value": nil}}
	for i, mark := range p.marks {
		steps = append(steps, object{"color": []string{"orange", "red"}[min(i, 1)], "value": mark})
	}
	defaults := object{"unit": p.unit, "thresholds": object{"mode": "absolute", "steps": steps}}
	if p.kind == lines {
		custom := object{"fillOpacity": 10, "showPoints": "never"}
		if len(p.marks) > 0 {
			custom["thresholdsStyle"] = object{"mode": "line"}
		}
		defaults["custom"] = custom
	}
	options := object{}
	reduced := object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
	legend := object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}}
	switch p.kind {
	case stat:
		options = object{
			"reduceOptions": reduced, "orientation": "auto", "colorMode": "value", "graphMode": "none", "justifyMode": "auto", "textMode": "auto", "wideLayout": true,
			"showPercentChange": false, "percentChangeColorMode": "standard",
		}
	case bars:
		options = object{
			"reduceOptions": reduced, "orientation": "horizontal", "displayMode": "basic", "valueMode": "color", "namePlacement": "auto", "showUnfilled": true,
			"sizing": "auto", "minVizWidth": 8, "minVizHeight": 16, "maxVizHeight": 300, "legend": legend,
		}
	case lines:
		options = object{"legend": legend, "tooltip": object{"mode": "multi", "sort": "desc"}}
	case state:
		options = object{"legend": legend, "tooltip": object{"mode": "single", "sort": "none"}, "showValue": "auto", "rowHeight": 0.9}
	}
	return object{
		"id": id, "type": p.kind, "title": p.title, "description": p.description(metrics), "gridPos": at, "datasource": datasource(), "targets": targets,
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}}, "options": options,
	}
}

// description is what docs/metrics.md says of the panel's metrics.
func (p panel) description(metrics map[string]metric) string {
	var told []string
	for _, q := range p.queries {
		for _, name := range namesIn(q.expr) {
			if help := metrics[name].help; help != "" && !slices.Contains(told, help) {
				told = append(told, help)
			}
		}
	}
	return strings.Join(told, "\n\n")
}
