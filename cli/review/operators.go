package review

import (
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/internal/pod/workloads"
)

// The controllers of Kubernetes by which operators make pods.
const (
	byJob         = "@Job.batch"
	byStatefulSet = "@StatefulSet.apps"
)

// operators are custom workloads whose pods are known without --template, as KIND.GROUP and the paths of SetTemplate. Each was read in the types and controllers of
// its project in November 2026.
var operators = map[string][]string{
	// pkg/scaling/executor/scale_jobs.go createJobs
	"ScaledJob.keda.sh": {"spec.jobTargetRef.template" + byJob},
	// pkg/controllers/leaderworkerset_controller.go, pod_controller.go: a StatefulSet of the leaders, and one of the workers of each leader
	"LeaderWorkerSet.leaderworkerset.x-k8s.io": {"spec.leaderWorkerTemplate.leaderTemplate" + byStatefulSet, "spec.leaderWorkerTemplate.workerTemplate" + byStatefulSet},
	// pkg/controllers/jobset_controller.go constructJob
	"JobSet.jobset.x-k8s.io": {"spec.replicatedJobs[*].template.spec.template" + byJob},
	// ray-operator/controllers/ray/raycluster_controller.go buildHeadPod, buildWorkerPod
	"RayCluster.ray.io": {"spec.headGroupSpec.template", "spec.workerGroupSpecs[*].template"},
	"RayJob.ray.io":     {"spec.rayClusterSpec.headGroupSpec.template@RayCluster.ray.io", "spec.rayClusterSpec.workerGroupSpecs[*].template@RayCluster.ray.io", "spec.submitterPodTemplate" + byJob},
	"RayService.ray.io": {"spec.rayClusterConfig.headGroupSpec.template@RayCluster.ray.io", "spec.rayClusterConfig.workerGroupSpecs[*].template@RayCluster.ray.io"},
	// pkg/controllers/job/job_controller_util.go createJobPod
	"Job.batch.volcano.sh":     {"spec.tasks[*].template"},
	"CronJob.batch.volcano.sh": {"spec.jobTemplate.spec.tasks[*].template@Job.batch.volcano.sh"},
	// https://github.com/openkruise/kruise: pkg/controller
	"CloneSet.apps.kruise.io": {"spec.template"}, "StatefulSet.apps.kruise.io": {"spec.template"}, "DaemonSet.apps.kruise.io": {"spec.template"}, "BroadcastJob.apps.kruise.io": {"spec.template"},
	"AdvancedCronJob.apps.kruise.io": {"spec.template.jobTemplate.spec.template" + byJob, "spec.template.broadcastJobTemplate.spec.template@BroadcastJob.apps.kruise.io"},
}

// builtIn are the templates of custom workloads that are known without being told.
func builtIn() map[schema.GroupKind][]custom {
	all := map[schema.GroupKind][]custom{
		// https://github.com/argoproj/argo-rollouts: rollout/sync.go createDesiredReplicaSet
		{Group: "argoproj.io", Kind: "Rollout"}: {{path: []string{"spec", "template"}, pod: rolloutPod}},
		// https://github.com/knative/serving: pkg/reconciler/revision/resources, deploy.go MakeDeployment and meta.go
		{Group: "serving.knative.dev", Kind: "Service"}: {{path: []string{"spec", "template"}, pod: knativePod}},
		// https://github.com/argoproj/argo-workflows: workflow/controller/workflowpod.go createWorkflowPod
		{Group: "argoproj.io", Kind: "Workflow"}:                {{path: []string{"spec", "templates" + each}, template: argoStep, pod: argoPod("spec")}},
		{Group: "argoproj.io", Kind: "WorkflowTemplate"}:        {{path: []string{"spec", "templates" + each}, template: argoStep, pod: argoPod("spec")}},
		{Group: "argoproj.io", Kind: "CronWorkflow"}:            {{path: []string{"spec", "workflowSpec", "templates" + each}, template: argoStep, pod: argoPod("spec", "workflowSpec")}},
		{Group: "argoproj.io", Kind: "ClusterWorkflowTemplate"}: {{path: []string{"spec", "templates" + each}, template: argoStep, pod: argoPod("spec")}},
		// https://github.com/tektoncd/pipeline: pkg/pod/pod.go Build
		{Group: "tekton.dev", Kind: "Task"}:    {{path: []string{"spec"}, controller: taskRun, template: tektonTask}},
		{Group: "tekton.dev", Kind: "TaskRun"}: {{path: []string{"spec", "taskSpec"}, controller: taskRun, template: tektonTask}},
		{Group: "tekton.dev", Kind: "Pipeline"}: {
			{path: []string{"spec", "tasks" + each, "taskSpec"}, controller: taskRun, template: tektonTask},
			{path: []string{"spec", "finally" + each, "taskSpec"}, controller: taskRun, template: tektonTask},
		},
		// https://github.com/strimzi/strimzi-kafka-operator: WorkloadUtils.createPod
		{Group: "kafka.strimzi.io", Kind: "Kafka"}:         {{path: []string{"spec", "kafka"}, controller: strimziPodSet, template: strimziPod}},
		{Group: "kafka.strimzi.io", Kind: "KafkaNodePool"}: {{path: []string{"spec"}, controller: strimziPodSet, template: strimziPod}},
		{Group: "kafka.strimzi.io", Kind: "KafkaConnect"}:  {{path: []string{"spec"}, controller: strimziPodSet, template: strimziPod}},
		{Group: "core.strimzi.io", Kind: "StrimziPodSet"}:  {{path: []string{"spec", "pods" + each}}},
		// https://github.com/kubeflow/spark-operator: api/v1beta2 SparkPodSpec
		{Group: "sparkoperator.k8s.io", Kind: "SparkApplication"}: {
			{path: []string{"spec", "driver"}, template: sparkPod}, {path: []string{"spec", "executor"}, controller: schema.GroupKind{Kind: "Pod"}, template: sparkPod},
		},
	}
	for name, paths := range operators {
		kind := schema.ParseGroupKind(name)
		for _, path := range paths {
			path, controller, _ := strings.Cut(path, "@")
			all[kind] = append(all[kind], custom{path: strings.Split(path, "."), controller: schema.ParseGroupKind(controller)})
		}
	}
	return all
}

var (
	taskRun       = schema.GroupKind{Group: "tekton.dev", Kind: "TaskRun"}
	strimziPodSet = schema.GroupKind{Group: "core.strimzi.io", Kind: "StrimziPodSet"}
)

// argoStep is the pod template of a template of a Workflow; nil: it makes no pod itself, as steps and a DAG.
func argoStep(step map[string]any) (map[string]any, error) {
	container, ok := step["container"].(map[string]any)
	if script, is := step["script"].(map[string]any); is {
		container, ok = without(script, "source"), true
	}
	if !ok {
		return nil, nil
	}
	main := without(container, "name")
	main["name"] = "main"
	containers := []any{main}
	sidecars, _ := step["sidecars"].([]any)
	for _, sidecar := range sidecars {
		if s, ok := sidecar.(map[string]any); ok {
			containers = append(containers, without(s, "mirrorVolumeMounts"))
		}
	}
	spec := map[string]any{"containers": containers, "restartPolicy": "Never"}
	copyFields(spec, step, "priorityClassName", "nodeSelector", "affinity", "tolerations", "volumes", "schedulerName")
	return map[string]any{"metadata": step["metadata"], "spec": spec}, nil
}

// argoPod takes what the Workflow has for all of its pods.
func argoPod(spec ...string) func(*unstructured.Unstructured, *corev1.PodTemplateSpec) (*workloads.Template, error) {
	return func(o *unstructured.Unstructured, template *corev1.PodTemplateSpec) (*workloads.Template, error) {
		class, _, err := unstructured.NestedString(o.Object, append(spec, "podPriorityClassName")...)
		if err != nil {
			return nil, err
		}
		if template.Spec.PriorityClassName == "" {
			template.Spec.PriorityClassName = class
		}
		return ownPod(o, template, schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Workflow"}), nil
	}
}

// tektonTask is the pod of a Task's steps; nil: it has none, as one that refers to another Task.
func tektonTask(task map[string]any) (map[string]any, error) {
	steps, _ := task["steps"].([]any)
	var containers []any
	for i, item := range steps {
		step, _ := item.(map[string]any)
		container := map[string]any{"name": fmt.Sprintf("step-%s", label(step, i))}
		copyFields(container, step, "image", "command", "args", "env", "volumeMounts", "workingDir")
		containers = append(containers, container)
	}
	if len(containers) == 0 {
		return nil, nil
	}
	return map[string]any{"spec": map[string]any{"containers": containers, "restartPolicy": "Never"}}, nil
}

// strimziPod is the pod of a cluster's nodes, as far as its template says something of it.
func strimziPod(nodes map[string]any) (map[string]any, error) {
	template, _ := member(nodes["template"], "pod").(map[string]any)
	spec := without(template, "metadata")
	spec["containers"] = []any{map[string]any{"name": "kafka"}}
	return map[string]any{"metadata": template["metadata"], "spec": spec}, nil
}

// sparkPod is the pod of a driver or an executor.
func sparkPod(of map[string]any) (map[string]any, error) {
	template, _ := of["template"].(map[string]any)
	metadata, _ := template["metadata"].(map[string]any)
	given, _ := template["spec"].(map[string]any)
	metadata, spec := without(metadata), without(given)
	copyFields(metadata, of, "labels", "annotations")
	copyFields(spec, of, "priorityClassName", "nodeSelector", "affinity", "tolerations", "terminationGracePeriodSeconds", "schedulerName")
	if spec["containers"] == nil {
		container := map[string]any{"name": "spark"}
		copyFields(container, of, "lifecycle", "image")
		spec["containers"] = []any{container}
	}
	return map[string]any{"metadata": metadata, "spec": spec}, nil
}

// without is a copy of an object without some fields.
func without(o map[string]any, fields ...string) map[string]any {
	rest := map[string]any{}
	maps.Copy(rest, o)
	for _, field := range fields {
		delete(rest, field)
	}
	return rest
}

// copyFields copies the fields that an object has.
func copyFields(into, from map[string]any, fields ...string) {
	for _, field := range fields {
		if value, there := from[field]; there {
			into[field] = value
		}
	}
}

// rolloutPod is a pod of the ReplicaSet that a Rollout makes.
func rolloutPod(o *unstructured.Unstructured, template *corev1.PodTemplateSpec) (*workloads.Template, error) {
	const revision = "revision"
	given, _, err := unstructured.NestedMap(o.Object, "spec", "selector")
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(given, &selector); err != nil {
		return nil, fmt.Errorf("decode spec.selector: %w", err)
	}
	if err := selectsOwn(&selector, template.Labels); err != nil {
		return nil, err
	}
	template.Labels = withLabel(template.Labels, defaulting.RolloutRevisionLabel, revision)
	selector.MatchLabels = withLabel(selector.MatchLabels, defaulting.RolloutRevisionLabel, revision)
	return workloads.PodOf(&appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName() + "-" + revision, UID: o.GetUID()},
		Spec:       appsv1.ReplicaSetSpec{Selector: &selector, Template: *template},
	})
}

// knativeTimeout is how many seconds a Knative revision gets for a request, and its pods to stop, where it does not say
// (pkg/apis/config/defaults.go DefaultRevisionTimeoutSeconds; a cluster may have another).
const knativeTimeout = 300

// knativePod is a pod of the Deployment that Knative makes for a Service's first revision. The container that Knative adds is left out: no
// policy looks at it.
func knativePod(o *unstructured.Unstructured, template *corev1.PodTemplateSpec) (*workloads.Template, error) {
	timeout, there, err := unstructured.NestedInt64(o.Object, "spec", "template", "spec", "timeoutSeconds")
	if err != nil {
		return nil, fmt.Errorf("spec.template.spec: %w", err)
	}
	if !there {
		timeout = knativeTimeout
	}
	template.Spec.TerminationGracePeriodSeconds = &timeout
	for i := range template.Spec.Containers {
		if template.Spec.Containers[i].Name == "" {
			template.Spec.Containers[i].Name = "user-container"
		}
		template.Spec.Containers[i].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8022), Path: "/wait-for-drain"},
		}}
	}
	revision := template.Name
	if revision == "" {
		revision = o.GetName() + "-00001"
	}
	for key, value := range map[string]string{
		"serving.knative.dev/service": o.GetName(), "serving.knative.dev/configuration": o.GetName(),
		"serving.knative.dev/revision": revision, "serving.knative.dev/revisionUID": string(UID),
	} {
		template.Labels = withLabel(template.Labels, key, value)
	}
	if template.Labels["app"] == "" {
		template.Labels = withLabel(template.Labels, "app", revision)
	}
	return workloads.PodOf(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: revision + "-deployment"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"serving.knative.dev/revisionUID": string(UID)}}, Template: *template,
		},
	})
}

func withLabel(labels map[string]string, key, value string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	return labels
}
