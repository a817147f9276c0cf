package apiserver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// params are what the policy is evaluated with: nothing, once, where it takes no parameters.
func (p *admissionPolicy) params(r *Request) ([]runtime.Object, error) {
	if p.Spec.ParamKind == nil {
		return []runtime.Object{nil}, nil
	}
	wanted := schema.FromAPIVersionAndKind(p.Spec.ParamKind.APIVersion, p.Spec.ParamKind.Kind)
	var params []runtime.Object
	for _, o := range r.Params {
		param, err := paramOf(o, wanted)
		if err != nil {
			return nil, err
		}
		if param != nil {
			params = append(params, param)
		}
	}
	return params, nil
}

// paramOf is the object as expressions see it; nil where it is of another kind.
func paramOf(o runtime.Object, wanted schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
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
	if _, ok := o.(*v1alpha1.PodPolicy); ok {
		return v1alpha1.GroupVersion.WithKind("PodPolicy")
	}
	return o.GetObjectKind().GroupVersionKind()
}

// selectsByName reports whether a PodPolicy selects namespaces by nothing but their names, or not at all.
func selectsByName(param runtime.Object) bool {
	u, ok := param.(*unstructured.Unstructured)
	if !ok {
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
		if m, ok := e.(map[string]any); !ok || m["key"] != corev1.LabelMetadataName {
			return false
		}
	}
	return true
}
