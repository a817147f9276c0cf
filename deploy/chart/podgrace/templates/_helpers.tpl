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
hub is refused: nobody has published the images there, so that they would be of whoever has taken the name. */}}
{{- define "podgrace.image" -}}
{{- $images := .root.Values.images -}}
{{- $registry := $images.registry -}}
{{- if not (or $registry (regexMatch "^(localhost|[^/]*[.:][^/]*)/" .values.repository)) -}}
{{- with (.root.Values.global | default dict).imageRegistry }}{{ $registry = printf "%s/" (trimSuffix "/" .) }}{{ end -}}
{{- if not $registry -}}
{{- fail (printf "images.registry is required: nobody has published the images of Podgrace, and without a registry nodes would take %s from Docker Hub, where it is of whoever has taken that name. Build and push them (docs/install.md), and name your registry, with its slash: --set images.registry=registry.example.com/ (docker.io/ if it is Docker Hub)" .values.repository) -}}
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
