package review

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/apiserver"
)

// validateWorkload is apiserver.ValidatePodSpec of the template of a workload of Kubernetes, with its path in the object; nil for any other object.
func validateWorkload(o client.Object) field.ErrorList {
	template := field.NewPath("spec", "template", "spec")
	switch w := o.(type) {
	case *appsv1.Deployment:
		return apiserver.ValidatePodSpec(&w.Spec.Template.Spec, template)
	case *appsv1.ReplicaSet:
		return apiserver.ValidatePodSpec(&w.Spec.Template.Spec, template)
	case *appsv1.StatefulSet:
		return apiserver.ValidatePodSpec(&w.Spec.Template.Spec, template)
	case *appsv1.DaemonSet:
		return apiserver.ValidatePodSpec(&w.Spec.Template.Spec, template)
	case *corev1.ReplicationController:
		if w.Spec.Template != nil {
			return apiserver.ValidatePodSpec(&w.Spec.Template.Spec, template)
		}
	case *batchv1.Job:
		return apiserver.ValidatePodSpec(&w.Spec.Template.Spec, template)
	case *batchv1.CronJob:
		return apiserver.ValidatePodSpec(&w.Spec.JobTemplate.Spec.Template.Spec, field.NewPath("spec", "jobTemplate").Child("spec", "template", "spec"))
	}
	return nil
}
