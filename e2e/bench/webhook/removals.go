package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/webhook"
)

const (
	// guardedNamespace is one that the examples' policy for databases guards.
	guardedNamespace = "guarded"
	// guardedNode is the node of its pods, and guardedPods how many it has: as many as a kubelet takes by default.
	guardedNode = "node-2"
	guardedPods = 110
)

// putGuarded stores a namespace that is guarded, and a StatefulSet's pods that fill a node.
func (f *filler) putGuarded() {
	f.put("namespaces/", &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: guardedNamespace, Labels: map[string]string{corev1.LabelMetadataName: guardedNamespace, "podgrace.dev/profile": "stateful"}},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	})
	for i := range guardedPods {
		f.put("pods/"+guardedNamespace+"/", &corev1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: guardedNamespace, Name: fmt.Sprintf("db-%d", i), Labels: map[string]string{"app.kubernetes.io/name": "db"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: types.UID("2"), Controller: new(true)}},
			},
			Spec:   podSpec(guardedNode),
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
}

// removal is a kind of removals that are refused.
type removal struct {
	name    string
	reviews func(context.Context, client.Client) ([]review, error)
}

// removals are what is judged by what is read live, so that its costs show what a large cluster does to those reads.
var removals = []removal{
	{"removal guard: DELETE of a pod, grace period 0", func(ctx context.Context, kube client.Client) ([]review, error) {
		var pods corev1.PodList
		if err := kube.List(ctx, &pods, client.InNamespace(guardedNamespace)); err != nil {
			return nil, fmt.Errorf("list the guarded pods: %w", err)
		}
		reviews := make([]review, len(pods.Items))
		for i := range pods.Items {
			var err error
			if reviews[i], err = deletion(&pods.Items[i], "pods", corev1.SchemeGroupVersion.WithKind("Pod"), metav1.NewDeleteOptions(0)); err != nil {
				return nil, err
			}
		}
		return reviews, nil
	}},
	{fmt.Sprintf("removal guard: DELETE of a node with %d pods", guardedPods), func(ctx context.Context, kube client.Client) ([]review, error) {
		var node corev1.Node
		if err := kube.Get(ctx, client.ObjectKey{Name: guardedNode}, &node); err != nil {
			return nil, fmt.Errorf("read the guarded pods' node: %w", err)
		}
		r, err := deletion(&node, "nodes", corev1.SchemeGroupVersion.WithKind("Node"), &metav1.DeleteOptions{})
		return []review{r}, err
	}},
}

// deletion is the review of a DELETE by somebody whom no policy allows it.
func deletion(o client.Object, resource string, kind schema.GroupVersionKind, options *metav1.DeleteOptions) (review, error) {
	o.GetObjectKind().SetGroupVersionKind(kind)
	options.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "DeleteOptions"}
	object, err := json.Marshal(o)
	if err != nil {
		return review{}, fmt.Errorf("encode %s: %w", o.GetName(), err)
	}
	how, err := json.Marshal(options)
	if err != nil {
		return review{}, fmt.Errorf("encode the options: %w", err)
	}
	uid := "delete-" + string(o.GetUID())
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID(uid), Kind: metav1.GroupVersionKind{Version: kind.Version, Kind: kind.Kind}, Resource: metav1.GroupVersionResource{Version: kind.Version, Resource: resource},
			Namespace: o.GetNamespace(), Name: o.GetName(), Operation: admissionv1.Delete, UserInfo: authenticationv1.UserInfo{Username: "alice"},
			OldObject: runtime.RawExtension{Raw: object}, Options: runtime.RawExtension{Raw: how},
		},
	})
	if err != nil {
		return review{}, fmt.Errorf("encode the review of %s: %w", o.GetName(), err)
	}
	return review{path: webhook.PathValidateRemoval, body: body, uid: []byte(uid), refused: true}, nil
}
