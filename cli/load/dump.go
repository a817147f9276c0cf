package load

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/internal/manifest"
)

// clusterFile is the file of what came from a cluster.
const clusterFile = "cluster"

// dumpKind is a kind of which a cluster's objects are compared.
type dumpKind struct {
	gvk  schema.GroupVersionKind
	list client.ObjectList
}

// Dump makes documents of a cluster's own workloads, Nodes and pods; with -n of those of this namespace, without Nodes. A kind that can't be read is among the
// errors: nothing is said of it. Where none can, as of a cluster that is away, nothing is said at all.
func (o *Options) Dump(ctx context.Context, reader client.Client) (documents []*manifest.Document, errs []*manifest.Error, err error) {
	var kinds []dumpKind
	for _, custom := range o.Templates.Kinds() {
		kind, wrong := customKind(reader.RESTMapper(), custom)
		if wrong != nil {
			errs = append(errs, &manifest.Error{File: clusterFile, Message: wrong.Error()})
			continue
		}
		kinds = append(kinds, kind)
	}
	read := 0
	for _, kind := range append(kinds, dumped...) {
		if *o.Kube.Namespace != "" && kind.gvk.Kind == "Node" {
			continue
		}
		listed, wrong := listDocuments(ctx, reader, kind, *o.Kube.Namespace)
		if wrong != nil {
			err = wrong
			errs = append(errs, &manifest.Error{File: clusterFile, Message: wrong.Error()})
			continue
		}
		read++
		documents = append(documents, listed...)
	}
	if read == 0 {
		return nil, nil, fmt.Errorf("nothing of the cluster can be read: %w", err)
	}
	return documents, errs, nil
}

// dumped are what makes pods, before the pods.
var dumped = []dumpKind{
	{appsv1.SchemeGroupVersion.WithKind("Deployment"), &appsv1.DeploymentList{}},
	{appsv1.SchemeGroupVersion.WithKind("StatefulSet"), &appsv1.StatefulSetList{}},
	{appsv1.SchemeGroupVersion.WithKind("DaemonSet"), &appsv1.DaemonSetList{}},
	{batchv1.SchemeGroupVersion.WithKind("CronJob"), &batchv1.CronJobList{}},
	{batchv1.SchemeGroupVersion.WithKind("Job"), &batchv1.JobList{}},
	{appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), &appsv1.ReplicaSetList{}},
	{corev1.SchemeGroupVersion.WithKind("ReplicationController"), &corev1.ReplicationControllerList{}},
	{corev1.SchemeGroupVersion.WithKind("Node"), &corev1.NodeList{}},
	{corev1.SchemeGroupVersion.WithKind("Pod"), &corev1.PodList{}},
}

// customKind is one of --template, in the version that the cluster prefers.
func customKind(mapper meta.RESTMapper, kind schema.GroupKind) (dumpKind, error) {
	mapping, err := mapper.RESTMapping(kind)
	if err != nil {
		return dumpKind{}, fmt.Errorf("--template %s: %w", kind, err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(kind.Kind + "List"))
	return dumpKind{mapping.GroupVersionKind, list}, nil
}

// listDocuments lists all objects of a kind, page by page, as documents; of all namespaces if none is named. No more than some pages are held beside the documents. Where the list is no longer
// kept by the API server before its last page was read, it is read again as one.
func listDocuments(ctx context.Context, reader client.Reader, kind dumpKind, namespace string) ([]*manifest.Document, error) {
	var documents []*manifest.Document
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		list := kind.list.DeepCopyObject().(client.ObjectList)
		return list, reader.List(ctx, list, &client.ListOptions{Namespace: namespace, Limit: o.Limit, Continue: o.Continue, Raw: &o})
	})
	add := func(o runtime.Object) error {
		d, err := documentOf(o, kind.gvk)
		documents = append(documents, d)
		return err
	}
	err := pages.EachListItem(ctx, metav1.ListOptions{}, add)
	if apierrors.IsResourceExpired(err) {
		documents = nil
		var all runtime.Object
		if all, err = pages.PageFn(ctx, metav1.ListOptions{}); err == nil {
			err = meta.EachListItem(all, add)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list the %s objects: %w", kind.gvk.Kind, err)
	}
	return documents, nil
}

func documentOf(o runtime.Object, gvk schema.GroupVersionKind) (*manifest.Document, error) {
	object, ok := o.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", o)
	}
	object.GetObjectKind().SetGroupVersionKind(gvk) // items of a list have none
	object.SetManagedFields(nil)
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s/%s: %w", gvk.Kind, object.GetNamespace(), object.GetName(), err)
	}
	apiVersion, name := gvk.ToAPIVersionAndKind()
	return &manifest.Document{File: clusterFile, JSON: raw, APIVersion: apiVersion, Kind: name, Namespace: object.GetNamespace(), Name: object.GetName()}, nil
}
