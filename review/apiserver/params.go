package apiserver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// params are what the policy is evaluated with: nothing, once, where it takes no parameters. A policy whose parameters are
// pods judges the one that the request names: where that is not given, the answer is unknown, and a refusal.
func (p *policy) params(r *Request, unknown *phrases) ([]runtime.Object, []Denial, error) {
	if p.Spec.ParamKind == nil {
		return []runtime.Object{nil}, nil, nil
	}
	wanted := schema.FromAPIVersionAndKind(p.Spec.ParamKind.APIVersion, p.Spec.ParamKind.Kind)
	var params []runtime.Object
	named := false
	for _, o := range r.Params {
		param, err := paramOf(o, wanted)
		if err != nil {
			return nil, nil, err
		}
		if param == nil || param.GetNamespace() != "" && param.GetNamespace() != r.AdmissionRequest.Namespace {
			continue
		}
		named = named || param.GetName() == r.Name
		params = append(params, param)
	}
	if wanted != corev1.SchemeGroupVersion.WithKind("Pod") || named {
		return params, nil, nil
	}
	missing := "pod " + r.fullName()
	unknown.add(missing)
	return params, []Denial{{Policy: p.Name, Reason: metav1.StatusReasonForbidden, Message: missing + " is not known: it may be one whose force delete was refused half-way", Unknown: true}}, nil
}

// paramOf is the object as expressions see it; nil where it is of another kind.
func paramOf(o runtime.Object, wanted schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	if u, is := o.(*unstructured.Unstructured); is {
		if u.GroupVersionKind() != wanted {
			return nil, nil
		}
		return u, nil
	}
	if kindOf(o) != wanted {
		return nil, nil
	}
	u, err := asMap(o)
	if err != nil {
		return nil, fmt.Errorf("parameter: %w", err)
	}
	u.SetGroupVersionKind(wanted) // a typed object need not say its kind
	return u, nil
}

func kindOf(o runtime.Object) schema.GroupVersionKind {
	switch o.(type) {
	case *v1alpha1.PodPolicy:
		return v1alpha1.GroupVersion.WithKind("PodPolicy")
	case *corev1.Pod:
		return corev1.SchemeGroupVersion.WithKind("Pod")
	}
	return o.GetObjectKind().GroupVersionKind()
}

// selectsByName says whether a PodPolicy selects namespaces by nothing but their names, or not at all.
func selectsByName(param runtime.Object) bool {
	u, is := param.(*unstructured.Unstructured)
	if !is {
		return false
	}
	labels, _, err := unstructured.NestedStringMap(u.Object, "spec", "match", "namespaceSelector", "matchLabels")
	if err != nil {
		return false
	}
	for key := range labels {
		if key != corev1.LabelMetadataName {
			return false
		}
	}
	expressions, _, err := unstructured.NestedSlice(u.Object, "spec", "match", "namespaceSelector", "matchExpressions")
	if err != nil {
		return false
	}
	for _, e := range expressions {
		if m, is := e.(map[string]any); !is || m["key"] != corev1.LabelMetadataName {
			return false
		}
	}
	return true
}
