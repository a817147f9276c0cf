package preview

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install" // the kinds of the group apps, with their defaults
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install" // the kinds of the group batch, with their defaults
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // the kinds of the core group, with their defaults
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
)

// invalid returns why the API server refuses to create the object of a preview, in the API server's words; empty: it does not. A workload is validated as it is written: policies change
// pods and not templates. A bare pod is validated after the mutating webhooks, unless a policy refuses it there or it is stored already.
func (v *Preview) invalid(d *manifest.Document, result *review.Result) (string, error) {
	kind, text := schema.FromAPIVersionAndKind(v.Resource.APIVersion, v.Resource.Kind), d.JSON
	if kind == corev1.SchemeGroupVersion.WithKind("Pod") {
		text = result.After
	}
	if len(text) == 0 || review.IsRecorded(d) || !legacyscheme.Scheme.Recognizes(kind) {
		return "", nil
	}
	decoded, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), text)
	if err != nil {
		return "", fmt.Errorf("read the %s as the API server does: %w", kind.Kind, err)
	}
	o, ok := decoded.(client.Object)
	if !ok {
		return "", nil
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(v.Resource.Namespace)
	}
	if errs := validate(o); len(errs) > 0 {
		return "the API server refuses it: " + errs.ToAggregate().Error(), nil
	}
	return "", nil
}

// validate is the validation of a new object by the API server: Validate in pkg/registry/KIND/strategy.go of each kind (1.36.3), which has dropped the fields of disabled feature gates before.
// It passes kinds that make no pods.
func validate(o client.Object) field.ErrorList {
	switch o := o.(type) {
	case *core.Pod:
		return validatePod(o)
	case *core.ReplicationController:
		return corevalidation.ValidateReplicationController(o, optionsOf(o.Spec.Template))
	case *apps.Deployment:
		return appsvalidation.ValidateDeployment(o, optionsOf(&o.Spec.Template))
	case *apps.ReplicaSet:
		return appsvalidation.ValidateReplicaSet(o, optionsOf(&o.Spec.Template))
	case *apps.StatefulSet:
		return appsvalidation.ValidateStatefulSet(o, optionsOf(&o.Spec.Template))
	case *apps.DaemonSet:
		return appsvalidation.ValidateDaemonSet(o, optionsOf(&o.Spec.Template))
	case *batch.Job:
		if s := &o.Spec; s.ManualSelector == nil || !*s.ManualSelector { // the API server makes one that selects the template (generateSelector in pkg/registry/batch/job/strategy.go, 1.36.3)
			s.ManualSelector, s.Selector = new(true), &metav1.LabelSelector{}
		}
		return batchvalidation.ValidateJob(o, batchvalidation.JobValidationOptions{PodValidationOptions: optionsOf(&o.Spec.Template)})
	case *batch.CronJob:
		return batchvalidation.ValidateCronJobCreate(o, optionsOf(&o.Spec.JobTemplate.Spec.Template))
	}
	return nil
}

// validatePod passes a pod that is stored already: it was valid when it was created.
func validatePod(pod *core.Pod) field.ErrorList {
	if pod.UID != "" && pod.UID != review.UID {
		return nil
	}
	podutil.DropDisabledPodFields(pod, nil)
	options := podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)
	options.ResourceIsPod = true
	return corevalidation.ValidatePodCreate(pod, options)
}

// optionsOf drops the fields of disabled feature gates from a template, and returns the options to validate it with.
func optionsOf(template *core.PodTemplateSpec) corevalidation.PodValidationOptions {
	podutil.DropDisabledTemplateFields(template, nil)
	return podutil.GetValidationOptionsFromPodTemplate(template, nil)
}
