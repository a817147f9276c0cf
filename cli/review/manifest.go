package review

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	sigsjson "sigs.k8s.io/json"

	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
)

// IsRecorded reports whether a document is a request that the API server sent.
func IsRecorded(d *manifest.Document) bool {
	return d.Kind == "AdmissionReview" && strings.HasPrefix(d.APIVersion, "admission.k8s.io/")
}

// recorded is the request of an AdmissionReview as it is: it is the API server's, so that its own defaults are there already. The result is about it.
func (s *step) recorded(d *manifest.Document) (*admission.Request, error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(d.JSON, &review); err != nil {
		return nil, fmt.Errorf("decode the AdmissionReview: %w", err)
	}
	req := review.Request
	if req == nil {
		return nil, errors.New("the AdmissionReview has no request")
	}
	s.question = Question{User: req.UserInfo}
	s.result.Resource, s.result.Operation, s.result.Subresource, s.result.User = recordedResource(req), string(req.Operation), req.SubResource, req.UserInfo.Username
	return &admission.Request{AdmissionRequest: *req}, nil
}

// recordedResource names the object; one that a controller creates has no name yet but the beginning of one.
func recordedResource(req *admissionv1.AdmissionRequest) manifest.Resource {
	kind := schema.GroupVersionKind(req.Kind)
	r := manifest.Resource{Kind: kind.Kind, Namespace: req.Namespace, Name: req.Name}
	r.APIVersion, _ = kind.ToAPIVersionAndKind()
	if r.Name == "" {
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal(req.Object.Raw, &o); err == nil {
			r.Name = o.Name
			if r.Name == "" {
				r.Name = strings.TrimSuffix(o.GenerateName, "-")
			}
		}
	}
	return r
}

// manifest is the object of a document, or nil for a policy and for a kind that neither the webhook's scheme has nor is a custom workload's.
func (s *State) manifest(d *manifest.Document) (client.Object, error) {
	if _, ok := s.custom[schema.FromAPIVersionAndKind(d.APIVersion, d.Kind).GroupKind()]; ok {
		return s.decodeCustom(d)
	}
	if policyfile.IsPolicy(d) {
		return nil, nil // judges, and is not judged; what is wrong with it is said where it is loaded
	}
	o, err := s.decode(d.APIVersion, d.Kind, d.JSON)
	if o == nil || err != nil {
		return nil, err
	}
	if err := named(o); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Kind, err)
	}
	if err := whole(o); err != nil {
		return nil, fmt.Errorf("%s %s: %w, so that the API server would refuse it (a patch is reviewed in what kustomize makes of it)", d.Kind, d.Name, err)
	}
	return o, nil
}

func (s *State) decodeCustom(d *manifest.Document) (*unstructured.Unstructured, error) {
	var o unstructured.Unstructured
	if err := o.UnmarshalJSON(d.JSON); err != nil {
		return nil, fmt.Errorf("decode the %s: %w", d.Kind, err)
	}
	return &o, nil
}

// decode returns nil for a kind that the webhook's scheme does not have.
func (s *State) decode(apiVersion, kind string, raw []byte) (client.Object, error) {
	o, err := s.empty(apiVersion, kind)
	if o == nil || err != nil {
		return nil, err
	}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(raw, o); err != nil {
		wrong := manifest.Plainly(raw, func(raw []byte) error {
			empty, _ := s.empty(apiVersion, kind)
			return sigsjson.UnmarshalCaseSensitivePreserveInts(raw, empty)
		}, err)
		if of, ok := errors.AsType[*manifest.FieldError](wrong); ok && slices.Contains(makingPods, kind) {
			of.Variable = "" // without it no pod is judged: that is an error, and not only left out
		}
		return nil, fmt.Errorf("decode the %s: %w", kind, wrong)
	}
	return o, nil
}

func (s *State) empty(apiVersion, kind string) (client.Object, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, fmt.Errorf("apiVersion %q: %w", apiVersion, err)
	}
	if !s.scheme.Recognizes(gv.WithKind(kind)) {
		return nil, nil
	}
	o, err := s.scheme.New(gv.WithKind(kind))
	if err != nil {
		return nil, err
	}
	typed, _ := o.(client.Object)
	return typed, nil
}

// named returns the API server's error about an object without a name (k8s.io/apimachinery pkg/api/validation/objectmeta.go ValidateObjectMeta, 0.36.3).
func named(o client.Object) error {
	if o.GetName() == "" && o.GetGenerateName() == "" {
		return errors.New("metadata.name: Required value: name or generateName is required")
	}
	return nil
}

// whole says what a workload lacks without which the API server would store none (pkg/apis/apps/validation/validation.go and
// pkg/apis/core/validation/validation.go, 1.36.3). Most often it is a patch of kustomize, of which no pod is made: an answer about it would be
// one about nothing. The rest of what the API server validates is left to it.
func whole(o client.Object) error {
	var template *corev1.PodTemplateSpec
	var selector *metav1.LabelSelector
	selects := true
	switch w := o.(type) {
	case *corev1.Pod:
		return namedContainers(w.Spec, "spec")
	case *appsv1.Deployment:
		template, selector = &w.Spec.Template, w.Spec.Selector
	case *appsv1.ReplicaSet:
		template, selector = &w.Spec.Template, w.Spec.Selector
	case *appsv1.StatefulSet:
		template, selector = &w.Spec.Template, w.Spec.Selector
	case *appsv1.DaemonSet:
		template, selector = &w.Spec.Template, w.Spec.Selector
	case *corev1.ReplicationController:
		if w.Spec.Template == nil {
			return errors.New("spec.template is missing")
		}
		template, selector = w.Spec.Template, &metav1.LabelSelector{MatchLabels: w.Spec.Selector}
		if len(w.Spec.Selector) == 0 { // the default
			selector.MatchLabels = w.Spec.Template.Labels
		}
	case *batchv1.Job:
		template, selects = &w.Spec.Template, false // its selector is made for it
	case *batchv1.CronJob:
		return hasContainers(w.Spec.JobTemplate.Spec.Template.Spec, "spec.jobTemplate.spec.template.spec")
	default:
		return nil
	}
	if selects {
		if err := selectsOwn(selector, template.Labels); err != nil {
			return err
		}
	}
	return hasContainers(template.Spec, "spec.template.spec")
}

func hasContainers(spec corev1.PodSpec, path string) error {
	if len(spec.Containers) == 0 {
		return fmt.Errorf("%s.containers is missing", path)
	}
	return namedContainers(spec, path)
}

// namedContainers returns an error for a container without a name, such as null in their list.
func namedContainers(spec corev1.PodSpec, path string) error {
	if i := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == "" }); i >= 0 {
		return fmt.Errorf("%s.containers[%d].name is missing", path, i)
	}
	return nil
}

func selectsOwn(selector *metav1.LabelSelector, of map[string]string) error {
	s, err := metav1.LabelSelectorAsSelector(selector)
	switch {
	case selector == nil || err == nil && s.Empty():
		return errors.New("spec.selector is missing")
	case err != nil:
		return fmt.Errorf("spec.selector: %w", err)
	case !s.Matches(labels.Set(of)):
		return fmt.Errorf("spec.selector (%s) does not select the labels of spec.template", s)
	}
	return nil
}
