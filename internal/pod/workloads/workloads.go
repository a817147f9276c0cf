// Package workloads says which pod the controller of a workload would create, without a cluster: with the labels, the owner and the volumes that
// it would get. Admission reviews by it what a Deployment will lead to, and the files of an offline plan name pods by it.
package workloads

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// revisionPlaceholder stands for the hash that a Deployment's controller will compute.
const revisionPlaceholder = "revision"

// Template is a pod that a controller would create for a workload.
type Template struct {
	// Pod with the labels and the owner that the controller would give it.
	Pod *corev1.Pod
	// OwnerSelector is the selector of the pod's controller, which topologySpreadConstraints without one of their own take; nil for kinds without one.
	OwnerSelector *metav1.LabelSelector
	// Later: the controller creates none now, since the workload is a CronJob, suspended, paused or scaled to 0.
	Later bool
}

// PodOf returns the pod that a workload's controller would create. It is nil for a Deployment's ReplicaSet and a CronJob's Job, since their owner was
// judged already. A workload of any other controller, such as an operator's StatefulSet, is judged itself.
func PodOf(workload runtime.Object) (*Template, error) {
	t, err := podOf(workload)
	if t != nil {
		t.Later = later(workload)
	}
	return t, err
}

func later(workload runtime.Object) bool {
	none := func(count *int32) bool { return ptr.Deref(count, 1) == 0 }
	switch w := workload.(type) {
	case *appsv1.Deployment:
		return w.Spec.Paused || none(w.Spec.Replicas)
	case *appsv1.ReplicaSet:
		return none(w.Spec.Replicas)
	case *appsv1.StatefulSet:
		return none(w.Spec.Replicas)
	case *corev1.ReplicationController:
		return none(w.Spec.Replicas)
	case *batchv1.Job:
		return ptr.Deref(w.Spec.Suspend, false) || none(w.Spec.Parallelism) || none(w.Spec.Completions)
	case *batchv1.CronJob:
		return true
	}
	return false
}

func podOf(workload runtime.Object) (*Template, error) {
	switch w := workload.(type) {
	case *appsv1.Deployment:
		return deploymentPod(w), nil
	case *appsv1.ReplicaSet:
		if madeBy(w, appsv1.SchemeGroupVersion.WithKind("Deployment")) {
			return nil, nil
		}
		return owned(w, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), &w.Spec.Template, w.Spec.Selector), nil
	case *appsv1.StatefulSet:
		return statefulSetPod(w), nil
	case *appsv1.DaemonSet:
		t := owned(w, appsv1.SchemeGroupVersion.WithKind("DaemonSet"), &w.Spec.Template, nil)
		t.Pod.Labels = with(t.Pod.Labels, appsv1.ControllerRevisionHashLabelKey, revisionPlaceholder)
		return t, nil
	case *corev1.ReplicationController:
		if w.Spec.Template == nil {
			return nil, fmt.Errorf("ReplicationController %s has no template", w.Name)
		}
		return owned(w, corev1.SchemeGroupVersion.WithKind("ReplicationController"), w.Spec.Template, &metav1.LabelSelector{MatchLabels: w.Spec.Selector}), nil
	case *batchv1.Job:
		if madeBy(w, batchv1.SchemeGroupVersion.WithKind("CronJob")) {
			return nil, nil
		}
		return jobPod(w, &w.Spec), nil
	case *batchv1.CronJob:
		return jobPod(w, &w.Spec.JobTemplate.Spec), nil
	}
	return nil, fmt.Errorf("%T makes no pods that Podgrace knows", workload)
}

func deploymentPod(d *appsv1.Deployment) *Template {
	selector := d.Spec.Selector.DeepCopy()
	if selector == nil {
		selector = &metav1.LabelSelector{}
	}
	selector.MatchLabels = with(selector.MatchLabels, appsv1.DefaultDeploymentUniqueLabelKey, revisionPlaceholder)
	replicaSet := &metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-" + revisionPlaceholder}
	t := owned(replicaSet, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), &d.Spec.Template, selector)
	t.Pod.Labels = with(t.Pod.Labels, appsv1.DefaultDeploymentUniqueLabelKey, revisionPlaceholder)
	return t
}

// statefulSetPod is the first pod of a StatefulSet, which is not named at random, with the labels that tell it from the others
// (pkg/controller/statefulset/stateful_set_utils.go initIdentity and setPodRevision, 1.36.3).
func statefulSetPod(s *appsv1.StatefulSet) *Template {
	t := owned(s, appsv1.SchemeGroupVersion.WithKind("StatefulSet"), &s.Spec.Template, s.Spec.Selector)
	var ordinal int32
	if s.Spec.Ordinals != nil {
		ordinal = s.Spec.Ordinals.Start
	}
	index := strconv.Itoa(int(ordinal))
	t.Pod.Name = t.Pod.GenerateName + index
	t.Pod.Spec.Hostname, t.Pod.Spec.Subdomain = t.Pod.Name, s.Spec.ServiceName
	t.Pod.Spec.Volumes = withClaims(t.Pod.Spec.Volumes, s, index)
	t.Pod.Labels = with(t.Pod.Labels, appsv1.StatefulSetPodNameLabel, t.Pod.Name)
	t.Pod.Labels = with(t.Pod.Labels, appsv1.PodIndexLabel, index)
	t.Pod.Labels = with(t.Pod.Labels, appsv1.StatefulSetRevisionLabel, revisionPlaceholder)
	return t
}

// withClaims adds a volume for each template of a claim, in place of the pod's own volume of that name (pkg/controller/statefulset/stateful_set_utils.go
// updateStorage, 1.36.3, in an order of its own).
func withClaims(volumes []corev1.Volume, s *appsv1.StatefulSet, ordinal string) []corev1.Volume {
	var all []corev1.Volume
	for i := range s.Spec.VolumeClaimTemplates {
		name := s.Spec.VolumeClaimTemplates[i].Name
		all = append(all, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name + "-" + s.Name + "-" + ordinal},
		}})
	}
	for i := range volumes {
		if !slices.ContainsFunc(all, func(v corev1.Volume) bool { return v.Name == volumes[i].Name }) {
			all = append(all, volumes[i])
		}
	}
	return all
}

// jobPod adds the labels that a Job's template gets (pkg/registry/batch/job/strategy.go generateSelector), and those of the first of
// several indexed pods (pkg/controller/job/indexed_job_utils.go, 1.36.3).
func jobPod(o metav1.Object, spec *batchv1.JobSpec) *Template {
	t := owned(o, batchv1.SchemeGroupVersion.WithKind("Job"), &spec.Template, nil)
	if !ptr.Deref(spec.ManualSelector, false) {
		for _, key := range []string{batchv1.JobNameLabel, legacyJobName} {
			t.Pod.Labels = with(t.Pod.Labels, key, o.GetName())
		}
		for _, key := range []string{batchv1.ControllerUidLabel, legacyControllerUID} {
			t.Pod.Labels = with(t.Pod.Labels, key, string(o.GetUID()))
		}
	}
	if ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion {
		t.Pod.Labels = with(t.Pod.Labels, batchv1.JobCompletionIndexAnnotation, "0")
		t.Pod.Annotations = with(t.Pod.Annotations, batchv1.JobCompletionIndexAnnotation, "0")
	}
	return t
}

// The labels of a Job's pods by the names that they had before 1.27, which they still have (pkg/apis/batch/types.go LegacyJobNameLabel
// and LegacyControllerUidLabel, 1.36.3).
const (
	legacyJobName       = "job-name"
	legacyControllerUID = "controller-uid"
)

// madeBy reports whether an object's controller is of a kind, in any version.
func madeBy(o metav1.Object, kind schema.GroupVersionKind) bool {
	owner := metav1.GetControllerOfNoCopy(o)
	return owner != nil && schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() == kind.GroupKind()
}

func owned(o metav1.Object, kind schema.GroupVersionKind, template *corev1.PodTemplateSpec, selector *metav1.LabelSelector) *Template {
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.GenerateName = o.GetNamespace(), o.GetName()+"-"
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: o.GetName(), UID: o.GetUID(),
		Controller: new(true), BlockOwnerDeletion: new(true),
	}}
	return &Template{Pod: pod, OwnerSelector: selector}
}

func with(labels map[string]string, key, value string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	return labels
}
