{{/* The folder files holds copies of deploy's manifests (make generate). They become objects here, are changed as the values say,
and are printed with Helm's labels. */}}

{{/* podgrace.objects returns {"items": [...]}: the objects of a file, in the release's namespace. Takes "root" and "file". */}}
{{- define "podgrace.objects" -}}
{{- $items := list -}}
{{- $text := .root.Files.Get (printf "files/%s" .file) | required (printf "the chart has no files/%s" .file) -}}
{{- range regexSplit "(?m)^---$" $text -1 -}}
{{- with fromYaml . -}}
{{- if .Error }}{{ fail (printf "%s: %s" $.file .Error) }}{{ end -}}
{{- /* In JSON, where each string has its quotes: in YAML a namespace 123 would become a number. */ -}}
{{- $items = append $items (toJson . | replace "podgrace-system" $.root.Release.Namespace | fromJson) -}}
{{- end -}}
{{- end -}}
{{- dict "items" $items | toJson -}}
{{- end -}}

{{/* podgrace.exclude has an object of admission leave out the namespaces of excludedNamespaces, as policy.Exempt does: names by the selector, which costs the API
server less, beginnings by a match condition. What selects no namespaces stays as it is. Takes "root" and "object"; returns nothing. */}}
{{- define "podgrace.exclude" -}}
{{- $names := list -}}
{{- $prefixes := list -}}
{{- range .root.Values.excludedNamespaces -}}
{{- if hasSuffix "*" . }}{{ $prefixes = append $prefixes (trimSuffix "*" .) }}{{ else }}{{ $names = append $names . }}{{ end -}}
{{- end -}}
{{- $names = without ($names | uniq | sortAlpha) "kube-system" "podgrace-node" .root.Release.Namespace -}}
{{- $hooks := .object.webhooks | default list -}}
{{- $spec := .object.spec | default dict -}}
{{- if $spec.matchConstraints }}{{ $hooks = list $spec }}{{ end -}}
{{- range $hooks -}}
{{- with .namespaceSelector | default (.matchConstraints | default dict).namespaceSelector -}}
{{- $requirement := first .matchExpressions -}}
{{- $_ := set $requirement "values" (concat $requirement.values $names) -}}
{{- end -}}
{{- if and $prefixes (or .namespaceSelector (.matchConstraints | default dict).namespaceSelector) -}}
{{- $expression := printf "!['%s'].exists(prefix, request.?namespace.orValue('').startsWith(prefix))" ($prefixes | uniq | sortAlpha | join "', '") -}}
{{- $_ := set . "matchConditions" (append (.matchConditions | default list) (dict "name" "not-excluded" "expression" $expression)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* podgrace.excluded is the flag by which a program knows these namespaces, to be appended to the arguments of its container. Takes "root" and "object"; returns
nothing. */}}
{{- define "podgrace.excluded" -}}
{{- $container := first .object.spec.template.spec.containers -}}
{{- with .root.Values.excludedNamespaces -}}
{{- $_ := set $container "args" (append ($container.args | default list) (printf "--exclude-namespaces=%s" (join "," .))) -}}
{{- end -}}
{{- end -}}

{{/* podgrace.answers sets what API servers do while no replica answers: how long they wait, and whether the limits hold then. Takes "root" and "object", a webhook
configuration; returns nothing. */}}
{{- define "podgrace.answers" -}}
{{- $seconds := .root.Values.webhook.timeoutSeconds.validating -}}
{{- if eq .object.kind "MutatingWebhookConfiguration" }}{{ $seconds = .root.Values.webhook.timeoutSeconds.mutating }}{{ end -}}
{{- range .object.webhooks -}}
{{- /* A drain hardly waits, and neither does what fails open. */ -}}
{{- $_ := set . "timeoutSeconds" (or (eq .name "plain-eviction.removal.podgrace.dev") (hasPrefix "open-" .name) | ternary (min (int $seconds) (int .timeoutSeconds)) (int $seconds)) -}}
{{- end -}}
{{- if and (eq .root.Values.limits.failurePolicy "Fail") (eq .object.kind "ValidatingWebhookConfiguration") -}}
{{- /* As components/limits-fail-closed does. */ -}}
{{- $armed := printf "authorizer.serviceAccount('%[1]s', 'podgrace-in-force').group('podgrace.dev').resource('closedlimits').namespace('%[1]s').check('judge').allowed()" .root.Release.Namespace -}}
{{- $mirror := "!('kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}) && 'system:nodes' in request.userInfo.?groups.orValue([]))" -}}
{{- range .object.webhooks -}}
{{- if has .name (list "pods.validate.podgrace.dev" "pod-groups.validate.podgrace.dev") -}}
{{- $conditions := list -}}
{{- range .matchConditions }}{{ if ne .name "in-force" }}{{ $conditions = append $conditions . }}{{ end }}{{ end -}}
{{- if eq .name "pods.validate.podgrace.dev" }}{{ $conditions = append $conditions (dict "name" "no-mirror-pod" "expression" $mirror) }}{{ end -}}
{{- $_ := set . "matchConditions" (append $conditions (dict "name" "armed" "expression" $armed)) -}}
{{- $_ := set . "failurePolicy" "Fail" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* podgrace.print prints one object with Helm's labels and those of the values. Takes "root" and "object". */}}
{{- define "podgrace.print" -}}
{{- $labels := dict "app.kubernetes.io/managed-by" .root.Release.Service "app.kubernetes.io/instance" .root.Release.Name "app.kubernetes.io/version" .root.Chart.AppVersion "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- $_ := set .object.metadata "labels" (merge $labels (.object.metadata.labels | default dict) .root.Values.commonLabels) }}
---
{{ toYaml .object }}
{{- end -}}

{{/* podgrace.file prints a file's objects as they are. Takes "root" and "file". */}}
{{- define "podgrace.file" -}}
{{- range (include "podgrace.objects" . | fromJson).items -}}
{{- include "podgrace.print" (dict "root" $.root "object" .) -}}
{{- end -}}
{{- end -}}

{{/* podgrace.image is the image of a workload. Takes "root" and "values". What Docker would look up in its own
hub is refused: the images are not there, and anyone could take the name. */}}
{{- define "podgrace.image" -}}
{{- $images := .root.Values.images -}}
{{- $registry := $images.registry -}}
{{- if not (or $registry (regexMatch "^(localhost|[^/]*[.:][^/]*)/" .values.repository)) -}}
{{- with (.root.Values.global | default dict).imageRegistry }}{{ $registry = printf "%s/" (trimSuffix "/" .) }}{{ end -}}
{{- if not $registry -}}
{{- fail (printf "images.registry is required: without a registry, nodes would pull %s from Docker Hub, where anyone could take that name. Build and push the images (docs/install.md), and set your registry, with its slash: --set images.registry=registry.example.com/ (docker.io/ if it is Docker Hub)" .values.repository) -}}
{{- end -}}
{{- end -}}
{{- $version := printf ":%s" ($images.tag | default .root.Chart.AppVersion) -}}
{{- with .values.digest }}{{ $version = printf "@%s" . }}{{ end -}}
{{- printf "%s%s%s" $registry .values.repository $version -}}
{{- end -}}

{{/* podgrace.reach changes the webhook's Deployment as the values say where it is reached. Service, probes and PodMonitor name its ports, so that they
follow. Takes "root" and "object"; returns nothing. */}}
{{- define "podgrace.reach" -}}
{{- $webhook := .root.Values.webhook -}}
{{- $pod := .object.spec.template.spec -}}
{{- $container := first $pod.containers -}}
{{- $taken := list 10250 -}}
{{- with .root.Values.nodeEnforcer }}{{ if .enabled }}{{ $taken = concat $taken (list (int .ports.health) (int .ports.metrics)) }}{{ end }}{{ end -}}
{{- $flags := dict "https" "port" "health" "health-port" "metrics" "metrics-port" -}}
{{- if ne 3 (len (list (int $webhook.ports.https) (int $webhook.ports.health) (int $webhook.ports.metrics) | uniq)) }}{{ fail "webhook.ports: https, health and metrics must be three ports" }}{{ end -}}
{{- range $container.ports -}}
{{- $port := get $webhook.ports .name -}}
{{- if ne (int $port) (int .containerPort) -}}
{{- $_ := set $container "args" (append $container.args (printf "--%s=%d" (get $flags .name) (int $port))) -}}
{{- $_ := set . "containerPort" $port -}}
{{- end -}}
{{- if $webhook.hostNetwork -}}
{{- if has (int $port) $taken -}}
{{- fail (printf "webhook.ports.%s: with webhook.hostNetwork port %d is the kubelet's (10250) or the node enforcer's (nodeEnforcer.ports) on each node" .name (int $port)) -}}
{{- end -}}
{{- /* As the API server would set it: the scheduler looks for a node where it is free. */ -}}
{{- $_ := set . "hostPort" $port -}}
{{- end -}}
{{- end -}}
{{- if $webhook.hostNetwork -}}
{{- $_ := set $pod "hostNetwork" true -}}
{{- $_ := set $pod "dnsPolicy" "ClusterFirstWithHostNet" -}}
{{- /* Where no node is left with free ports an update would wait for ever for a replica more. */ -}}
{{- $_ := set .object.spec.strategy "rollingUpdate" (dict "maxSurge" 1 "maxUnavailable" 1) -}}
{{- end -}}
{{- with $webhook.dnsPolicy }}{{ $_ := set $pod "dnsPolicy" . }}{{ end -}}
{{- end -}}

{{/* podgrace.workload changes a Deployment or DaemonSet as the values say that both have. Takes "root", "object" and "values"; returns
nothing. */}}
{{- define "podgrace.workload" -}}
{{- $pod := .object.spec.template.spec -}}
{{- $container := first $pod.containers -}}
{{- $images := .root.Values.images -}}
{{- $_ := set $container "image" (include "podgrace.image" .) -}}
{{- $_ := set $container "imagePullPolicy" $images.pullPolicy -}}
{{- $_ := set $container "resources" (mergeOverwrite $container.resources (deepCopy .values.resources)) -}}
{{- $args := $container.args | default list -}}
{{- with .values.verbosity }}{{ $args = append $args (printf "--v=%d" (int .)) }}{{ end -}}
{{- if eq (.values.logFormat | default .root.Values.logFormat) "json" }}{{ $args = append $args "--log-format=json" }}{{ end -}}
{{- with concat $args .values.extraArgs }}{{ $_ := set $container "args" . }}{{ end -}}
{{- with concat ($container.env | default list) .values.env }}{{ $_ := set $container "env" . }}{{ end -}}
{{- $_ := set $pod "priorityClassName" .values.priorityClassName -}}
{{- if not .values.priorityClassName }}{{ $_ := unset $pod "priorityClassName" }}{{ end -}}
{{- with .values.affinity }}{{ $_ := set $pod "affinity" . }}{{ end -}}
{{- $_ := set .object.spec.template.metadata "labels" (merge .object.spec.template.metadata.labels .values.podLabels .root.Values.commonLabels) -}}
{{- $_ := set $pod "nodeSelector" (merge $pod.nodeSelector .values.nodeSelector) -}}
{{- with .values.podAnnotations }}{{ $_ := set $.object.spec.template.metadata "annotations" . }}{{ end -}}
{{- with $images.pullSecrets | default (.root.Values.global | default dict).imagePullSecrets -}}
{{- $secrets := list -}}
{{- range . }}{{ $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) }}{{ end -}}
{{- $_ := set $pod "imagePullSecrets" $secrets -}}
{{- end -}}
{{- end -}}

{{/* podgrace.promql writes the values' names into PromQL, or into JSON with PromQL in it: the label of the cluster, which the word cluster stands for, and the
jobs. Takes "root" and "text". */}}
{{- define "podgrace.promql" -}}
{{- $values := .root.Values.monitoring -}}
{{- $text := .text -}}
{{- if ne $values.clusterLabel "cluster" }}{{ $text = regexReplaceAll "\\bcluster\\b" $text $values.clusterLabel }}{{ end -}}
{{- range $workload, $job := dict "webhook" $values.jobs.webhook "fencer" $values.jobs.fencer "volumelock" $values.jobs.volumeLock "nodeenforcer" $values.jobs.nodeEnforcer -}}
{{- $text = regexReplaceAll (printf "(job=\\\\?\")podgrace-%s(\\\\?\")" $workload) $text (printf "${1}%s${2}" $job) -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{/* podgrace.rules changes a PrometheusRule as the values say. Takes "root" and "object"; returns nothing. */}}
{{- define "podgrace.rules" -}}
{{- $root := .root -}}
{{- $values := .root.Values.monitoring.rules -}}
{{- $names := list -}}
{{- range .object.spec.groups -}}
{{- $rules := list -}}
{{- range .rules -}}
{{- $rule := . -}}
{{- $_ := set . "expr" (include "podgrace.promql" (dict "root" $root "text" .expr)) -}}
{{- with .alert }}{{ $names = append $names . }}{{ end -}}
{{- if and .record (eq .record "podgrace_slo:objective") -}}
{{- $_ := set . "expr" (printf "vector(%s)" (get $values.objectives .labels.slo | toString)) -}}
{{- end -}}
{{- if .alert -}}
{{- $runbook := splitList "#" .annotations.runbook_url | last -}}
{{- with $values.runbooks }}{{ $_ := set $rule.annotations "runbook_url" (printf "%s#%s" . $runbook) }}{{ end -}}
{{- with get $values.alerts .alert -}}
{{- with .for }}{{ $_ := set $rule "for" . }}{{ end -}}
{{- with .severity }}{{ $_ := set $rule.labels "severity" . }}{{ end -}}
{{- if hasKey . "threshold" -}}
{{- if not (regexMatch "[<>] [0-9.]+\\s*$" $rule.expr) }}{{ fail (printf "monitoring.rules.alerts.%s.threshold: this alert has none" $rule.alert) }}{{ end -}}
{{- $_ := set $rule "expr" (regexReplaceAll "([<>]) [0-9.]+\\s*$" $rule.expr (printf "${1} %s" (.threshold | toString))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not (has (.alert | default "") $values.disabled) }}{{ $rules = append $rules . }}{{ end -}}
{{- end -}}
{{- $_ := set . "rules" $rules -}}
{{- end -}}
{{- range concat $values.disabled (keys $values.alerts | sortAlpha) -}}
{{- if not (has . $names) }}{{ fail (printf "monitoring.rules: there is no alert %s" .) }}{{ end -}}
{{- end -}}
{{- end -}}
