package review

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/apiserver"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/pod/workloads"
)

// custom is one place where objects of a kind that Kubernetes does not have keep a template of their pods, and what is made of it.
type custom struct {
	// path of the template; an element that ends in [*] is a list, each element of which has one.
	path []string
	// controller of the pods; the zero value: the object itself.
	controller schema.GroupKind
	// pod that the controllers of the kind make of the template; nil: that of its controller.
	pod func(*unstructured.Unstructured, *corev1.PodTemplateSpec) (*workloads.Template, error)
	// template of a value that is neither a PodTemplateSpec nor a PodSpec; nil: it is one of these.
	template func(map[string]any) (map[string]any, error)
}

// each marks an element of a path that is a list.
const each = "[*]"

// NoPods is the path of SetTemplate for kinds that make no pods.
const NoPods = "-"

// SetTemplate sets where objects of a kind have the template of their pods, such as spec.template or spec.tasks[*].template, and which kind controls these
// pods, such as spec.template@Job.batch. Without a controller it is that of the built-in path, else the object itself. The path NoPods is for a kind that makes no pods. The first path that
// is set for a kind replaces what is known of it (builtIn); later ones are further templates.
func (s *State) SetTemplate(kind schema.GroupKind, path string) error {
	path, controller, controlled := strings.Cut(path, "@")
	c := custom{path: strings.Split(path, "."), controller: schema.ParseGroupKind(controller)}
	switch {
	case kind.Kind == "" || kind.Group == "":
		return fmt.Errorf("%q is no kind with its group, such as Rollout.argoproj.io", kind)
	case builtin(kind.Group):
		return fmt.Errorf("the kinds of group %s are Kubernetes' own: what their pods are is known", kind.Group)
	case slices.ContainsFunc(c.path, func(field string) bool { return strings.TrimSuffix(field, each) == "" }):
		return fmt.Errorf("%q is no path of a field, such as spec.template or spec.tasks[*].template", path)
	case controlled && c.controller.Kind == "":
		return fmt.Errorf("%q is no kind of a controller with its group, such as Job.batch", controller)
	}
	if path == NoPods {
		s.podless[kind] = true
		return nil
	}
	if known := builtIn()[kind]; !controlled {
		if i := slices.IndexFunc(known, func(known custom) bool { return slices.Equal(known.path, c.path) }); i >= 0 {
			c = known[i] // who controls its pods is known too
		}
	}
	if !s.given[kind] {
		s.given[kind], s.custom[kind] = true, nil
	}
	s.custom[kind] = append(s.custom[kind], c)
	return nil
}

// Unmet are the paths that SetTemplate set and that no object of their kind has among these documents. A kind without an object has none.
func (s *State) Unmet(documents []*manifest.Document) []error {
	var errs []error
	for kind := range s.given {
		objects := slices.DeleteFunc(slices.Clone(documents), func(d *manifest.Document) bool { return kindOf(d) != kind })
		for _, c := range s.custom[kind] {
			if len(objects) > 0 && !slices.ContainsFunc(objects, func(d *manifest.Document) bool { return s.has(d, c) }) {
				errs = append(errs, fmt.Errorf("no %s has a pod template at %s", kind, strings.Join(c.path, ".")))
			}
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

func (s *State) has(d *manifest.Document, c custom) bool {
	o, err := s.decodeCustom(d)
	return err == nil && len(c.find(o)) > 0
}

// Expand returns the documents with each custom workload as often as it has pod templates: each of them is judged by itself.
func (s *State) Expand(documents []*manifest.Document) []*manifest.Document {
	var all []*manifest.Document
	for _, d := range documents {
		n := len(s.TemplateNames(d))
		if n < 2 {
			all = append(all, d)
			continue
		}
		for i := range n {
			of := *d
			of.Template, of.Templates = i, n
			all = append(all, &of)
		}
	}
	return all
}

// TemplateNames are the names of the pod templates of a custom workload, as in Resource.Template; nil for any other object.
func (s *State) TemplateNames(d *manifest.Document) (names []string) {
	if s.custom[kindOf(d)] == nil {
		return nil
	}
	o, err := s.decodeCustom(d)
	if err != nil {
		return nil // the review reports it
	}
	for _, f := range s.templates(o) {
		names = append(names, f.name)
	}
	return names
}

func kindOf(d *manifest.Document) schema.GroupKind {
	return schema.FromAPIVersionAndKind(d.APIVersion, d.Kind).GroupKind()
}

// found is a template in an object.
type found struct {
	custom
	// at is the path with the names of list elements, and name what of it tells the template from the others of its object.
	at, name string
	value    any
}

// templates are those of a custom workload in their order.
func (s *State) templates(o *unstructured.Unstructured) []found {
	var all []found
	for _, c := range s.custom[o.GroupVersionKind().GroupKind()] {
		all = append(all, c.find(o)...)
	}
	shared := len(all) > 0
	for shared { // leading elements that all paths have tell nothing
		first, _, more := strings.Cut(all[0].name, ".")
		for _, f := range all {
			shared = shared && more && strings.HasPrefix(f.name, first+".")
		}
		for i := range all {
			if shared {
				all[i].name = strings.TrimPrefix(all[i].name, first+".")
			}
		}
	}
	return all
}

func (c custom) find(o *unstructured.Unstructured) []found {
	at := []found{{custom: c, value: o.Object}}
	for _, element := range c.path {
		field, list := strings.CutSuffix(element, each)
		var next []found
		for _, f := range at {
			value := member(f.value, field)
			f.at = strings.TrimPrefix(f.at+"."+field, ".")
			if !list {
				f.value = value
				next = append(next, f)
				continue
			}
			items, _ := value.([]any)
			for i, item := range items {
				of := f
				of.at, of.value = fmt.Sprintf("%s[%s]", f.at, label(item, i)), item
				next = append(next, of)
			}
		}
		at = next
	}
	at = slices.DeleteFunc(at, func(f found) bool { return f.value == nil })
	for i := range at {
		at[i].name = at[i].at
	}
	return at
}

// member is a field of an object; nil: it has none.
func member(o any, field string) any {
	m, _ := o.(map[string]any)
	return m[field]
}

// label is how people call an element of a list: by its name, or else by its index.
func label(item any, index int) string {
	for _, field := range []string{"name", "groupName"} {
		if name, ok := member(item, field).(string); ok && name != "" {
			return name
		}
	}
	return fmt.Sprint(index)
}

// podTemplate decodes the template.
func (f *found) podTemplate() (*corev1.PodTemplateSpec, error) {
	given, ok := f.value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is no pod template", f.at)
	}
	if f.template != nil {
		var err error
		if given, err = f.template(given); given == nil || err != nil {
			return nil, err
		}
	} else if _, ok := given["containers"]; ok {
		given = map[string]any{"spec": given} // a pod's spec alone
	}
	var template corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(given, &template); err != nil {
		return nil, fmt.Errorf("decode %s: %w", f.at, err)
	}
	if len(template.Spec.Containers) == 0 {
		return nil, fmt.Errorf("%s.spec.containers is missing", f.at)
	}
	return &template, nil
}

func (s *step) templateOf(o client.Object) (*workloads.Template, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return workloads.PodOf(o)
	}
	template, name, err := s.State.customPod(u, s.template)
	s.result.Resource.Template = name
	return template, err
}

// customPod is the pod that would be made of one of the templates of a custom workload, and the name of the template if there are several; nil: there is
// none. A Rollout may borrow that of a Deployment, which is judged itself.
func (s *State) customPod(o *unstructured.Unstructured, index int) (made *workloads.Template, name string, err error) {
	all := s.templates(o)
	if index >= len(all) {
		return nil, "", nil
	}
	f := all[index]
	if len(all) > 1 {
		name = f.name
	}
	template, err := f.podTemplate()
	switch {
	case err == nil && template == nil:
		return nil, name, nil
	case err == nil && f.pod != nil:
		made, err = f.pod(o, template)
	case err == nil:
		made, err = controlledPod(o, f.controller, template)
	}
	if err != nil {
		return nil, name, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return made, name, nil
}

// controlledPod is the pod that a controller makes of a template: one of Kubernetes' own as it does of its own objects, another one as it stands.
func controlledPod(o *unstructured.Unstructured, controller schema.GroupKind, template *corev1.PodTemplateSpec) (*workloads.Template, error) {
	meta := metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}
	selector := &metav1.LabelSelector{MatchLabels: template.Labels}
	switch controller {
	case schema.GroupKind{}:
		return ownPod(o, template, o.GroupVersionKind()), nil
	case schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}:
		return workloads.PodOf(&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: *template}})
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "StatefulSet"}:
		return workloads.PodOf(&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: *template}})
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}, schema.GroupKind{Group: appsv1.GroupName, Kind: "ReplicaSet"}:
		return workloads.PodOf(&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: *template}})
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "DaemonSet"}:
		return workloads.PodOf(&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: *template}})
	}
	return ownPod(o, template, controller.WithVersion("v1")), nil
}

// ownPod is controlled by an object of the workload's name.
func ownPod(o *unstructured.Unstructured, template *corev1.PodTemplateSpec, controller schema.GroupVersionKind) *workloads.Template {
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.GenerateName = o.GetNamespace(), o.GetName()+"-"
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o, controller)}
	return &workloads.Template{Pod: pod}
}

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
