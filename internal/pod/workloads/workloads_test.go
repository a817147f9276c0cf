package workloads_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/internal/pod/workloads"
	. "github.com/podgrace/podgrace/policy/policytest"
)

func TestPodOf(t *testing.T) {
	t.Parallel()
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}
	managed := func(apiVersion, kind string) metav1.ObjectMeta {
		m := *meta.DeepCopy()
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "x", Controller: new(true)}}
		return m
	}
	first := func(name, index string) map[string]string {
		return map[string]string{"app": "web", "statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": index, "controller-revision-hash": "revision"}
	}
	job := map[string]string{"app": "web", "batch.kubernetes.io/job-name": "web", "batch.kubernetes.io/controller-uid": "u", "job-name": "web", "controller-uid": "u"}
	indexed := maps.Clone(job)
	indexed["batch.kubernetes.io/job-completion-index"] = "0"
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: Pod().Spec}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	tests := []struct {
		name     string
		workload runtime.Object
		owner    string // kind of the pod's controller; empty: no pod
		labels   map[string]string
		selector map[string]string
	}{
		{"a Deployment's pods belong to a ReplicaSet", &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}, "ReplicaSet", map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: "revision"}, map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: "revision"}},
		{"a Deployment without a selector", &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template}}, "ReplicaSet", map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: "revision"}, map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "revision"}},
		{"ReplicaSet", &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}, "ReplicaSet", map[string]string{"app": "web"}, map[string]string{"app": "web"}},
		{"a Deployment's ReplicaSet", &appsv1.ReplicaSet{ObjectMeta: managed("apps/v1", "Deployment"), Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}, "", nil, nil},
		{"a Rollout's ReplicaSet", &appsv1.ReplicaSet{ObjectMeta: managed("argoproj.io/v1alpha1", "Rollout"), Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}, "ReplicaSet", map[string]string{"app": "web"}, map[string]string{"app": "web"}},
		{"a ReplicaSet of another group's Deployment", &appsv1.ReplicaSet{ObjectMeta: managed("example.com/v1", "Deployment"), Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}, "ReplicaSet", map[string]string{"app": "web"}, map[string]string{"app": "web"}},
		{"an operator's Deployment", &appsv1.Deployment{ObjectMeta: managed("operators.coreos.com/v1alpha1", "ClusterServiceVersion"), Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}, "ReplicaSet", map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: "revision"}, map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: "revision"}},
		{"StatefulSet", &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}, "StatefulSet", first("web-0", "0"), map[string]string{"app": "web"}},
		{"a StatefulSet that begins at 5", &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template, Ordinals: &appsv1.StatefulSetOrdinals{Start: 5}}}, "StatefulSet", first("web-5", "5"), map[string]string{"app": "web"}},
		{"an operator's StatefulSet", &appsv1.StatefulSet{ObjectMeta: managed("monitoring.coreos.com/v1", "Prometheus"), Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}, "StatefulSet", first("web-0", "0"), map[string]string{"app": "web"}},
		{"ReplicationController", &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: map[string]string{"app": "web"}, Template: &template}}, "ReplicationController", map[string]string{"app": "web"}, map[string]string{"app": "web"}},
		{"DaemonSet", &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}, "DaemonSet", map[string]string{"app": "web", "controller-revision-hash": "revision"}, nil},
		{"an operator's DaemonSet", &appsv1.DaemonSet{ObjectMeta: managed("operator.tigera.io/v1", "Installation"), Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}, "DaemonSet", map[string]string{"app": "web", "controller-revision-hash": "revision"}, nil},
		{"Job", &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template}}, "Job", job, nil},
		{"an indexed Job", &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template, CompletionMode: ptr.To(batchv1.IndexedCompletion)}}, "Job", indexed, nil},
		{"a Job with a selector of its own", &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template, ManualSelector: new(true)}}, "Job", map[string]string{"app": "web"}, nil},
		{"a TaskRun's Job", &batchv1.Job{ObjectMeta: managed("tekton.dev/v1", "TaskRun"), Spec: batchv1.JobSpec{Template: template}}, "Job", job, nil},
		{"a CronJob's Job", &batchv1.Job{ObjectMeta: managed("batch/v1", "CronJob"), Spec: batchv1.JobSpec{Template: template}}, "", nil, nil},
		{"CronJob", &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}}, "Job", job, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := tt.workload.DeepCopyObject()
			got, err := workloads.PodOf(tt.workload)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, tt.workload); diff != "" {
				t.Errorf("the workload was changed: %s", diff)
			}
			if got == nil || tt.owner == "" {
				if got != nil || tt.owner != "" {
					t.Errorf("got %+v", got)
				}
				return
			}
			if owner := metav1.GetControllerOf(got.Pod); owner == nil || owner.Kind != tt.owner || got.Pod.Namespace != "shop" || got.Pod.GenerateName == "" {
				t.Errorf("owner %+v of pod %s/%s", owner, got.Pod.Namespace, got.Pod.GenerateName)
			}
			spec := got.Pod.Spec.DeepCopy()
			spec.Hostname = "" // a StatefulSet's pod has one
			if diff := cmp.Diff(template.Spec, *spec); diff != "" {
				t.Errorf("spec: %s", diff)
			}
			var selects map[string]string
			if got.OwnerSelector != nil {
				selects = got.OwnerSelector.MatchLabels
			}
			if diff := cmp.Diff([]map[string]string{tt.labels, tt.selector}, []map[string]string{got.Pod.Labels, selects}); diff != "" {
				t.Errorf("labels and selector: %s", diff)
			}
		})
	}
	if _, err := workloads.PodOf(&corev1.Pod{}); err == nil {
		t.Error("a pod is no workload")
	}
	if _, err := workloads.PodOf(&corev1.ReplicationController{ObjectMeta: meta}); err == nil {
		t.Error("a ReplicationController may lack its template, as the API has it")
	}
}

// TestLater: what creates no pod now.
func TestLater(t *testing.T) {
	t.Parallel()
	none, yes := new(int32(0)), new(true)
	template := &corev1.PodTemplateSpec{}
	for name, tt := range map[string]struct {
		workload runtime.Object
		want     bool
	}{
		"a Deployment":            {&appsv1.Deployment{}, false},
		"of 0":                    {&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: none}}, true},
		"paused":                  {&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Paused: true}}, true},
		"a ReplicaSet of 0":       {&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: none}}, true},
		"a StatefulSet of 0":      {&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: none}}, true},
		"a controller of 0":       {&corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Replicas: none, Template: template}}, true},
		"a Job":                   {&batchv1.Job{}, false},
		"a suspended Job":         {&batchv1.Job{Spec: batchv1.JobSpec{Suspend: yes}}, true},
		"a Job that runs nothing": {&batchv1.Job{Spec: batchv1.JobSpec{Parallelism: none}}, true},
		"a Job that is complete":  {&batchv1.Job{Spec: batchv1.JobSpec{Completions: none}}, true},
		"a CronJob":               {&batchv1.CronJob{}, true},
		"a DaemonSet":             {&appsv1.DaemonSet{}, false},
	} {
		got, err := workloads.PodOf(tt.workload)
		if err != nil || got.Later != tt.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestClaimVolumes: a StatefulSet's pod has the claims of its templates, in place of volumes of their names.
func TestClaimVolumes(t *testing.T) {
	t.Parallel()
	got, err := workloads.PodOf(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Ordinals:             &appsv1.StatefulSetOrdinals{Start: 2},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, {Name: "tmp"},
		}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-2"}}}, {Name: "tmp"}}
	if diff := cmp.Diff(want, got.Pod.Spec.Volumes); diff != "" {
		t.Error(diff)
	}
}
