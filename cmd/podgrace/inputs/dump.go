package main

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/manifest"
)

// clusterFile is the file of what came from a cluster.
const clusterFile = "cluster"

// dumpKind is a kind of which a cluster's objects are compared.
type dumpKind struct {
	gvk  schema.GroupVersionKind
	list client.ObjectList
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

// listDocuments lists all objects of a kind, page by page, as documents.
func listDocuments(ctx context.Context, reader client.Reader, kind dumpKind) ([]*manifest.Document, error) {
	var documents []*manifest.Document
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		list := kind.list.DeepCopyObject().(client.ObjectList)
		return list, reader.List(ctx, list, &client.ListOptions{Limit: o.Limit, Continue: o.Continue, Raw: &o})
	})
	all, _, err := pages.List(ctx, metav1.ListOptions{})
	if err == nil {
		err = meta.EachListItem(all, func(o runtime.Object) error {
			d, err := documentOf(o, kind.gvk)
			documents = append(documents, d)
			return err
		})
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
