package review

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// someNode stands for the node of a pod that is only a manifest: what becomes of it is asked for the time when it runs.
const someNode = "some-node"

// removal judges a delete or an eviction: of a pod, of the pod of a workload, of a node, of a VolumeAttachment.
func (s *step) removal(ctx context.Context, o client.Object) (bool, error) {
	switch o.(type) {
	case *corev1.Node, *storagev1.VolumeAttachment:
		if s.result.Operation == OperationEvict {
			return false, nil
		}
		req, err := s.deleteRequest(o)
		if err != nil {
			return true, err
		}
		return true, s.admit(ctx, req)
	}
	pod, err := s.podOf(o)
	if pod == nil || err != nil {
		return false, err
	}
	if pod, err = s.stored(ctx, pod); err != nil {
		return true, err
	}
	s.view.madeUp = append(s.view.madeUp, pod)
	s.result.Policies = s.Policies.Policies().Removal(s.handlers().Lookup.Namespace(ctx, pod.Namespace), s.OwnNamespace).AllNames()
	var req *admission.Request
	if s.result.Operation == OperationEvict {
		req, err = s.evictRequest(pod)
	} else {
		req, err = s.deleteRequest(pod)
	}
	if err != nil {
		return true, err
	}
	return true, s.admit(ctx, req)
}

// stored is the pod as the cluster would have it: one that is there is taken as it is; one that is only a manifest was created, with
// what the policies give it, and runs on some node.
func (s *step) stored(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	if pod.Status.Phase != "" || pod.Spec.NodeName != "" {
		return pod, nil
	}
	creation := &step{Engine: s.Engine, view: &view{State: s.State, madeUp: s.view.madeUp}, creator: s.creator, result: &Result{Decision: Allowed}}
	req, err := creation.createRequest(pod)
	if err != nil {
		return nil, err
	}
	if err := creation.admit(ctx, req); err != nil {
		return nil, err
	}
	if pod, err = decodePod(req.Object.Raw); err != nil {
		return nil, err
	}
	if pod.Name == "" {
		pod.Name = pod.GenerateName + "0"
	}
	pod.UID, pod.Spec.NodeName, pod.Status.Phase = reviewUID, someNode, corev1.PodRunning
	return pod, nil
}

func (s *step) deleteRequest(o client.Object) (*admission.Request, error) {
	req, err := s.objectRequest(o, admissionv1.Delete)
	if err != nil {
		return nil, err
	}
	req.Object, req.OldObject = runtime.RawExtension{}, req.Object
	if req.Options.Raw, err = json.Marshal(metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "DeleteOptions"}, GracePeriodSeconds: s.question.GracePeriodSeconds,
	}); err != nil {
		return nil, fmt.Errorf("encode the options: %w", err)
	}
	return req, nil
}

// objectRequest is a request about an object of a kind that the scheme has.
func (s *step) objectRequest(o client.Object, operation admissionv1.Operation) (*admission.Request, error) {
	kinds, _, err := s.State.scheme.ObjectKinds(o)
	if err != nil {
		return nil, fmt.Errorf("find the kind: %w", err)
	}
	kind := kinds[0]
	o.GetObjectKind().SetGroupVersionKind(kind)
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode the %s: %w", kind.Kind, err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return &admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: reviewUID, Kind: metav1.GroupVersionKind(kind), Resource: metav1.GroupVersionResource(resource),
		Namespace: o.GetNamespace(), Name: o.GetName(), Operation: operation, UserInfo: s.question.User, Object: runtime.RawExtension{Raw: raw},
	}}, nil
}

func (s *step) evictRequest(pod *corev1.Pod) (*admission.Request, error) {
	eviction := &policyv1.Eviction{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
	}
	if grace := s.question.GracePeriodSeconds; grace != nil {
		eviction.DeleteOptions = &metav1.DeleteOptions{GracePeriodSeconds: grace}
	}
	if pod.UID == reviewUID { // so that it is not changed to keep it to a pod by a name that was made up
		if eviction.DeleteOptions == nil {
			eviction.DeleteOptions = &metav1.DeleteOptions{}
		}
		eviction.DeleteOptions.Preconditions = &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}
	}
	raw, err := json.Marshal(eviction)
	if err != nil {
		return nil, fmt.Errorf("encode the eviction: %w", err)
	}
	return &admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: reviewUID, Kind: metav1.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"},
		Resource:    metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		SubResource: "eviction", Namespace: pod.Namespace, Name: pod.Name, Operation: admissionv1.Create, UserInfo: s.question.User,
		Object: runtime.RawExtension{Raw: raw},
	}}, nil
}
