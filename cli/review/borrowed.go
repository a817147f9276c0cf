package review

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/internal/manifest"
)

// argoRollout is the kind of Argo Rollouts.
var argoRollout = schema.GroupKind{Group: "argoproj.io", Kind: "Rollout"}

// reference is another object of the same namespace.
type reference struct{ apiVersion, kind, name string }

// borrowed is the workload whose template an Argo Rollout uses; nil: it has its own (https://github.com/argoproj/argo-rollouts:
// pkg/apis/rollouts/v1alpha1/types.go ObjectRef).
func borrowed(o *unstructured.Unstructured) *reference {
	given, there, err := unstructured.NestedStringMap(o.Object, "spec", "workloadRef")
	if err != nil || !there || o.GroupVersionKind().GroupKind() != argoRollout || given["kind"] == "" || given["name"] == "" {
		return nil
	}
	return &reference{given["apiVersion"], given["kind"], given["name"]}
}

// RemarkBorrowed tells of Rollouts that use the template of a workload which is not among the documents: it would be judged in their place.
func (e *Engine) RemarkBorrowed(documents []*manifest.Document) []Remark {
	namespace := func(d *manifest.Document) string { return cmp.Or(d.Namespace, e.Namespace) }
	var remarks []Remark
	for _, d := range documents {
		if schema.FromAPIVersionAndKind(d.APIVersion, d.Kind).GroupKind() != argoRollout {
			continue
		}
		o, err := e.State.decodeCustom(d)
		if err != nil {
			continue
		}
		of := borrowed(o)
		if of == nil || slices.ContainsFunc(documents, func(w *manifest.Document) bool {
			return w.Kind == of.kind && w.APIVersion == of.apiVersion && w.Name == of.name && namespace(w) == namespace(d)
		}) {
			continue
		}
		remarks = append(remarks, Remark{
			Rollout: namespace(d) + "/" + d.Name,
			Message: fmt.Sprintf("it has the template of %s %s, which is not among the manifests: its pods were not judged", of.kind, of.name),
		})
	}
	return remarks
}
