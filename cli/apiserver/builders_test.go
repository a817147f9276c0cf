package apiserver_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podgrace/podgrace/cli/apiserver"
)

var (
	alice      = authenticationv1.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}}
	kubelet    = authenticationv1.UserInfo{Username: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}}
	enforcer   = authenticationv1.UserInfo{Username: "system:serviceaccount:podgrace-node:podgrace-nodeenforcer", Groups: []string{"system:authenticated"}}
	controller = authenticationv1.UserInfo{Username: "system:kube-controller-manager", Groups: []string{"system:authenticated"}}
)

// answers is an Authorizer that always says the same, and counts.
type answers struct {
	apiserver.Answer
	asked []authorizationv1.ResourceAttributes
}

func (a *answers) Allowed(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) apiserver.Answer {
	a.asked = append(a.asked, what)
	return a.Answer
}

type change func(*apiserver.Request)

// request is alice's, in the namespace shop, which is known.
func request(t testing.TB, operation admissionv1.Operation, resource string, changes ...change) apiserver.Request {
	t.Helper()
	known := map[string]struct{ group, version, kind, resource, sub string }{
		"pods":                   {"", "v1", "Pod", "pods", ""},
		"pods/status":            {"", "v1", "Pod", "pods", "status"},
		"pods/resize":            {"", "v1", "Pod", "pods", "resize"},
		"pods/binding":           {"", "v1", "Binding", "pods", "binding"},
		"pods/eviction":          {"policy", "v1", "Eviction", "pods", "eviction"},
		"evictions of old":       {"policy", "v1beta1", "Eviction", "pods", "eviction"},
		"nodes":                  {"", "v1", "Node", "nodes", ""},
		"volumeattachments":      {"storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", ""},
		"deployments":            {"apps", "v1", "Deployment", "deployments", ""},
		"old deployments":        {"apps", "v1beta2", "Deployment", "deployments", ""},
		"replicationcontrollers": {"", "v1", "ReplicationController", "replicationcontrollers", ""},
		"podpolicies":            {"podgrace.dev", "v1alpha1", "PodPolicy", "podpolicies", ""},
		"statefulsets":           {"apps", "v1", "StatefulSet", "statefulsets", ""},
		"configmaps":             {"", "v1", "ConfigMap", "configmaps", ""},
	}[resource]
	if known.kind == "" {
		t.Fatalf("no resource %s", resource)
	}
	group := known.group
	if known.resource == "pods" {
		group = ""
	}
	r := apiserver.Request{
		AdmissionRequest: &admissionv1.AdmissionRequest{
			UID: "1", Kind: metav1.GroupVersionKind{Group: known.group, Version: known.version, Kind: known.kind},
			Resource:    metav1.GroupVersionResource{Group: group, Version: "v1", Resource: known.resource},
			SubResource: known.sub, Operation: operation, Namespace: "shop", Name: "db-0", UserInfo: alice,
		},
		Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "till"}}},
	}
	if known.version != "v1" && known.resource != "pods" {
		r.Resource.Version = known.version
	}
	if slices.Contains([]string{"nodes", "volumeattachments", "podpolicies"}, known.resource) {
		r.AdmissionRequest.Namespace, r.Namespace = "", nil
	}
	for _, c := range changes {
		c(&r)
	}
	return r
}

func as(user authenticationv1.UserInfo) change {
	return func(r *apiserver.Request) { r.UserInfo = user }
}

func in(namespace string) change {
	return func(r *apiserver.Request) { r.AdmissionRequest.Namespace, r.Namespace = namespace, nil }
}

func options(text string) change {
	return func(r *apiserver.Request) { r.Options.Raw = []byte(text) }
}

func object(o any) change {
	return func(r *apiserver.Request) { r.Object.Raw = encode(o) }
}

func oldObject(o any) change {
	return func(r *apiserver.Request) { r.OldObject.Raw = encode(o) }
}

func params(objects ...runtime.Object) change {
	return func(r *apiserver.Request) { r.Params = objects }
}

func asking(a apiserver.Authorizer) change {
	return func(r *apiserver.Request) { r.Authorizer = a }
}

// encode takes JSON as it is.
func encode(o any) []byte {
	if text, ok := o.(string); ok {
		return []byte(text)
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return text
}

// pod runs on a node.
func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "u1"},
		Spec:       corev1.PodSpec{NodeName: "n1", TerminationGracePeriodSeconds: new(int64(30))},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range changes {
		c(p)
	}
	return p
}

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func grace(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

func pending(p *corev1.Pod) { p.Spec.NodeName = "" }

// halfDone is a pod whose force delete passed the first step and no more.
func halfDone(p *corev1.Pod) {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: metav1.Unix(1700000000, 0).Time}, new(int64(0))
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
}

// noted is what the API server keeps of who wrote an annotation, and when.
func noted(key string, at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &metav1.Time{Time: at},
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{".":{},"f:` + key + `":{}}}}`),
		})
	}
}

// ownedBy has an owner of a kind, by which it is controlled or not.
func ownedBy(version, kind string, controls bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "db", UID: "o1", Controller: &controls}}
	}
}

func finalizer(p *corev1.Pod) { p.Finalizers = []string{"example.org/hold"} }
