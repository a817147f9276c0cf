package apiserver

import (
	"math"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Default sets in a pod, a workload, a Namespace, a Node or a PriorityClass what decoding sets in the API server, in place
// (pkg/apis/{core,apps,batch,scheduling}/v1 defaults.go and zz_generated.defaults.go, 1.36.3, with the feature gates'
// defaults). Objects of other kinds are left alone. A workload's template gets less than a pod does: the pod that is made of
// it has to be defaulted again.
func Default(obj runtime.Object) {
	switch o := obj.(type) {
	case *corev1.Pod:
		defaultPod(o)
	case *appsv1.Deployment:
		defaultDeployment(&o.Spec)
		defaultPodSpec(&o.Spec.Template.Spec)
	case *corev1.ReplicationController:
		defaultReplicationController(o)
	case *appsv1.ReplicaSet:
		unset(&o.Spec.Replicas, 1)
		defaultPodSpec(&o.Spec.Template.Spec)
	case *appsv1.StatefulSet:
		defaultStatefulSet(&o.Spec)
		defaultPodSpec(&o.Spec.Template.Spec)
	case *appsv1.DaemonSet:
		defaultDaemonSet(&o.Spec)
		defaultPodSpec(&o.Spec.Template.Spec)
	case *batchv1.Job:
		defaultJob(o)
		defaultPodSpec(&o.Spec.Template.Spec)
	case *batchv1.CronJob:
		defaultCronJob(&o.Spec)
		defaultPodSpec(&o.Spec.JobTemplate.Spec.Template.Spec)
	default:
		defaultState(obj)
	}
}

// defaultState is for what pods are judged by.
func defaultState(obj runtime.Object) {
	switch o := obj.(type) {
	case *corev1.Namespace:
		nameLabel(o)
		zero(&o.Status.Phase, corev1.NamespaceActive)
	case *corev1.Node:
		if o.Status.Allocatable == nil && o.Status.Capacity != nil {
			o.Status.Allocatable = o.Status.Capacity.DeepCopy()
		}
		roundUp(o.Status.Capacity)
		roundUp(o.Status.Allocatable)
	case *schedulingv1.PriorityClass:
		unset(&o.PreemptionPolicy, corev1.PreemptLowerPriority)
	}
}

// nameLabel: the API server labels each namespace with its name.
func nameLabel(ns *corev1.Namespace) {
	if ns.Name == "" {
		return
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}

// unset sets a pointer that is nil.
func unset[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// zero sets a value that is the zero one.
func zero[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}

func defaultDeployment(spec *appsv1.DeploymentSpec) {
	unset(&spec.Replicas, 1)
	zero(&spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		unset(&spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		unset(&spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		unset(&spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	unset(&spec.RevisionHistoryLimit, 10)
	unset(&spec.ProgressDeadlineSeconds, 600)
}

// defaultReplicationController: its selector may be left out, which no other workload's may.
func defaultReplicationController(rc *corev1.ReplicationController) {
	unset(&rc.Spec.Replicas, 1)
	if rc.Spec.Template == nil {
		return
	}
	if labels := rc.Spec.Template.Labels; labels != nil {
		if len(rc.Spec.Selector) == 0 {
			rc.Spec.Selector = labels
		}
		if len(rc.Labels) == 0 {
			rc.Labels = labels
		}
	}
	defaultPodSpec(&rc.Spec.Template.Spec)
}

func defaultDaemonSet(spec *appsv1.DaemonSetSpec) {
	strategy := &spec.UpdateStrategy
	zero(&strategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if strategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		unset(&strategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		unset(&strategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		unset(&strategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	unset(&spec.RevisionHistoryLimit, 10)
}

func defaultStatefulSet(spec *appsv1.StatefulSetSpec) {
	zero(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	strategy := &spec.UpdateStrategy
	if strategy.Type == "" {
		strategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		unset(&strategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType && strategy.RollingUpdate != nil {
		unset(&strategy.RollingUpdate.Partition, 0)
	}
	unset(&spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	zero(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	zero(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	unset(&spec.Replicas, 1)
	unset(&spec.RevisionHistoryLimit, 10)
	for i := range spec.VolumeClaimTemplates {
		claim := &spec.VolumeClaimTemplates[i]
		zero(&claim.Status.Phase, corev1.ClaimPending)
		defaultClaimSpec(&claim.Spec)
		roundUp(claim.Status.Capacity)
		roundUp(claim.Status.AllocatedResources)
	}
}

func defaultJob(job *batchv1.Job) {
	spec := &job.Spec
	if spec.Completions == nil && spec.Parallelism == nil {
		spec.Completions = new(int32(1))
	}
	unset(&spec.Parallelism, 1)
	if spec.BackoffLimitPerIndex != nil {
		unset(&spec.BackoffLimit, math.MaxInt32)
	}
	unset(&spec.BackoffLimit, 6)
	if labels := spec.Template.Labels; labels != nil && len(job.Labels) == 0 {
		job.Labels = labels
	}
	unset(&spec.CompletionMode, batchv1.NonIndexedCompletion)
	unset(&spec.Suspend, false)
	if spec.PodFailurePolicy != nil {
		unset(&spec.PodReplacementPolicy, batchv1.Failed)
	}
	unset(&spec.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	unset(&spec.ManualSelector, false)
	defaultPodFailurePolicy(spec.PodFailurePolicy)
}

// defaultCronJob leaves most of the template to the Job that is made of it.
func defaultCronJob(spec *batchv1.CronJobSpec) {
	zero(&spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
	unset(&spec.Suspend, false)
	unset(&spec.SuccessfulJobsHistoryLimit, 3)
	unset(&spec.FailedJobsHistoryLimit, 1)
	defaultPodFailurePolicy(spec.JobTemplate.Spec.PodFailurePolicy)
}

func defaultPodFailurePolicy(policy *batchv1.PodFailurePolicy) {
	if policy == nil {
		return
	}
	for _, rule := range policy.Rules {
		for i := range rule.OnPodConditions {
			zero(&rule.OnPodConditions[i].Status, corev1.ConditionTrue)
		}
	}
}
