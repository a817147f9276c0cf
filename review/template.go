package review

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/workloads"
)

// custom is where objects of a kind that Kubernetes does not have keep the template of their pods, and what is made of it.
type custom struct {
	path []string
	// pod that the kind's controllers make of the template; nil: one that the object itself controls.
	pod func(*unstructured.Unstructured, *corev1.PodTemplateSpec) (*workloads.Template, error)
}

// wellKnown are custom workloads of which the pods are known without being told.
func wellKnown() map[schema.GroupKind]custom {
	return map[schema.GroupKind]custom{
		// https://github.com/argoproj/argo-rollouts: rollout/sync.go createDesiredReplicaSet
		{Group: "argoproj.io", Kind: "Rollout"}: {[]string{"spec", "template"}, rolloutPod},
		// https://github.com/knative/serving: pkg/reconciler/revision/resources, deploy.go MakeDeployment and meta.go
		{Group: "serving.knative.dev", Kind: "Service"}: {[]string{"spec", "template"}, knativePod},
	}
}

// SetTemplate says where objects of a kind have the template of their pods, as in spec.template.
func (s *State) SetTemplate(kind schema.GroupKind, path string) error {
	fields := strings.Split(path, ".")
	if slices.Contains(fields, "") {
		return fmt.Errorf("%q is no path of a field, such as spec.template", path)
	}
	switch {
	case kind.Kind == "" || kind.Group == "":
		return fmt.Errorf("%q is no kind with its group, such as Rollout.argoproj.io", kind)
	case builtin(kind.Group):
		return fmt.Errorf("the kinds of group %s are Kubernetes' own: what their pods are is known", kind.Group)
	}
	s.custom[kind] = custom{path: fields}
	return nil
}

// template of a custom workload's pods; nil where it has none: a Rollout may borrow that of a Deployment, which is judged itself.
func (c custom) template(o *unstructured.Unstructured) (*corev1.PodTemplateSpec, error) {
	path := strings.Join(c.path, ".")
	value, there, err := unstructured.NestedFieldNoCopy(o.Object, c.path...)
	if err != nil || !there || value == nil {
		return nil, nil
	}
	given, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is no pod template", path)
	}
	if _, ok := given["containers"]; ok {
		given = map[string]any{"spec": given} // a pod's spec alone
	}
	var template corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(given, &template); err != nil {
		return nil, fmt.Errorf("decode %s: %w", path, err)
	}
	return &template, hasContainers(template.Spec, path+".spec")
}

func (s *step) templateOf(o client.Object) (*workloads.Template, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return s.State.customPod(u)
	}
	return workloads.PodOf(o)
}

// customPod is the pod that would be made for a custom workload; nil: it says itself of none.
func (s *State) customPod(o *unstructured.Unstructured) (*workloads.Template, error) {
	c := s.custom[o.GroupVersionKind().GroupKind()]
	template, err := c.template(o)
	var made *workloads.Template
	switch {
	case err == nil && template == nil:
		return nil, nil
	case err == nil && c.pod != nil:
		made, err = c.pod(o, template)
	case err == nil:
		made = ownPod(o, template)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return made, nil
}

// ownPod is controlled by the custom workload itself.
func ownPod(o *unstructured.Unstructured, template *corev1.PodTemplateSpec) *workloads.Template {
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.GenerateName = o.GetNamespace(), o.GetName()+"-"
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o, o.GroupVersionKind())}
	return &workloads.Template{Pod: pod}
}

// rolloutPod is a pod of the ReplicaSet that a Rollout makes.
func rolloutPod(o *unstructured.Unstructured, template *corev1.PodTemplateSpec) (*workloads.Template, error) {
	const hash, revision = "rollouts-pod-template-hash", "revision"
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
	template.Labels = withLabel(template.Labels, hash, revision)
	selector.MatchLabels = withLabel(selector.MatchLabels, hash, revision)
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
