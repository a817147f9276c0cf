package review

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/explain"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy"
)

// finder reads an object without a namespace into another; false: it is not known.
type finder func(name string, into client.Object) bool

// find is the finder of what the state has. Unlike a view it does not note what is unknown: no decision depends on it.
func (s *State) find(name string, into client.Object) bool {
	indexer := s.kinds[reflect.TypeOf(into)]
	if indexer == nil {
		return false
	}
	found, there, err := indexer.GetByKey(name)
	return err == nil && there && assign(into, found.(client.Object)) == nil
}

// finderOf reads what the reader has.
func finderOf(ctx context.Context, reader client.Reader) finder {
	if v, ok := reader.(*view); ok {
		return v.find
	}
	return func(name string, into client.Object) bool {
		return reader.Get(ctx, types.NamespacedName{Name: name}, into) == nil
	}
}

// ungated is the CSI driver of a claim for one node at a time whose volumes nobody attaches, so that nothing keeps a second node from mounting it; empty: it is none, or that is not known.
func (find finder) ungated(claim *corev1.PersistentVolumeClaim) string {
	if _, exclusive := policy.Exclusive(claim.Spec.AccessModes); !exclusive {
		return ""
	}
	var volume corev1.PersistentVolume
	var class storagev1.StorageClass
	name := ""
	switch {
	case claim.Spec.VolumeName != "" && find(claim.Spec.VolumeName, &volume):
		if volume.Spec.CSI != nil {
			name = volume.Spec.CSI.Driver
		}
	case claim.Spec.StorageClassName != nil && find(*claim.Spec.StorageClassName, &class):
		name = class.Provisioner
	}
	var driver storagev1.CSIDriver
	if name == "" || !find(name, &driver) || driver.Spec.AttachRequired == nil || *driver.Spec.AttachRequired {
		return ""
	}
	return name
}

// RemarkUngated tells of the claims that nothing gates, of the namespaces that were reviewed.
func (e *Engine) RemarkUngated(results []Result) []Remark {
	var remarks []Remark
	reviewed := map[string]bool{}
	for i := range results {
		reviewed[cmp.Or(results[i].Resource.Namespace, metav1.NamespaceDefault)] = true
	}
	tell := func(claim *corev1.PersistentVolumeClaim, namespace, name string) {
		if driver := finder(e.State.find).ungated(claim); driver != "" {
			remarks = append(remarks, Remark{Claim: namespace + "/" + name, Message: explain.Ungated(driver)})
		}
	}
	for _, c := range all[*corev1.PersistentVolumeClaim](e.State) {
		if reviewed[c.Namespace] {
			tell(c, c.Namespace, c.Name)
		}
	}
	for _, s := range all[*appsv1.StatefulSet](e.State) {
		for i := range s.Spec.VolumeClaimTemplates {
			if t := &s.Spec.VolumeClaimTemplates[i]; reviewed[s.Namespace] {
				tell(t, s.Namespace, fmt.Sprintf("%s-%s-0", t.Name, s.Name))
			}
		}
	}
	slices.SortFunc(remarks, func(a, b Remark) int { return strings.Compare(a.Claim, b.Claim) })
	return slices.Compact(remarks)
}

// ungatedOf are the claims that a pod names and nothing gates, with their drivers. Those of ephemeral volumes are of no other pod.
func ungatedOf(ctx context.Context, reader client.Reader, pod *corev1.Pod) map[string]string {
	var found map[string]string
	for _, name := range policy.ClaimNames(pod) {
		var claim corev1.PersistentVolumeClaim
		if err := reader.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: name}, &claim); err != nil {
			continue // told elsewhere
		}
		if driver := finderOf(ctx, reader).ungated(&claim); driver != "" {
			if found == nil {
				found = map[string]string{}
			}
			found[name] = driver
		}
	}
	return found
}

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
