package review

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/cli/apiserver"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/policy"
)

// UID of what is not there yet.
const UID = "review"

// SomeNode stands for the node of a pod that is only a manifest: what becomes of it is asked for the time when it runs.
const SomeNode = "some-node"

// subject is the object that the question is about: a pod, which is the object itself or what its controller would make, for a removal as the cluster
// would have it; a node or a VolumeAttachment that is deleted. nil: it is none of Podgrace's.
func (s *step) subject(ctx context.Context, o client.Object) (client.Object, error) {
	switch o.(type) {
	case *corev1.Node, *storagev1.VolumeAttachment:
		if s.result.Operation != OperationDelete {
			return nil, nil
		}
		return o, nil
	}
	pod, err := s.podOf(o)
	switch {
	case pod == nil || err != nil:
		return nil, err
	case s.result.Operation == OperationCreate:
		return pod, s.workload(o)
	case pod.Status.Phase == "" && pod.Spec.NodeName == "":
		return s.stored(ctx, pod)
	}
	return pod, nil
}

// workload validates the template of a workload, and makes the request for a StatefulSet, the only workload that the API server's own policies refuse.
func (s *step) workload(o client.Object) (err error) {
	s.invalid = validateWorkload(o)
	set, ok := o.(*appsv1.StatefulSet)
	if !ok {
		return nil
	}
	if set.UID == UID { // it is not there yet
		set.UID = ""
	}
	s.made, err = s.objectRequest(set, admissionv1.Create)
	return err
}

// podOf returns the pod that an object is, or that its controller would create; nil where there is none. The controller
// is made up for the lookup, which would not find it.
func (s *step) podOf(o client.Object) (*corev1.Pod, error) {
	switch o.(type) {
	case *corev1.Pod, *corev1.ReplicationController, *appsv1.Deployment, *appsv1.ReplicaSet, *appsv1.StatefulSet, *appsv1.DaemonSet, *batchv1.Job, *batchv1.CronJob:
	case *unstructured.Unstructured: // a custom workload
	default:
		return nil, nil
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(s.Namespace)
	}
	s.result.Resource.Namespace = o.GetNamespace()
	if o.GetUID() == "" {
		o.SetUID(UID)
	}
	apiserver.Default(o)
	if pod, ok := o.(*corev1.Pod); ok {
		_, s.later, _ = s.State.kinds[reflect.TypeOf(pod)].Get(pod)
		return pod, nil
	}
	template, err := s.templateOf(o)
	if err != nil || template == nil {
		return nil, err
	}
	apiserver.Default(template.Pod) // a template has only some of a pod's defaults
	s.result.Via, s.later = ViaTemplate, template.Later
	owner := metav1.GetControllerOfNoCopy(template.Pod)
	if owner.UID == "" { // of a ReplicaSet that a Deployment would make
		owner.UID = UID
	}
	s.view.madeUp = append(s.view.madeUp, controllerLike(owner, o.GetNamespace(), template.OwnerSelector))
	s.creator = controllerUser(owner)
	return template.Pod, nil
}

// controllerLike is an owner with the selector that its pods' constraints follow.
func controllerLike(owner *metav1.OwnerReference, namespace string, selector *metav1.LabelSelector) client.Object {
	m := metav1.ObjectMeta{Namespace: namespace, Name: owner.Name}
	switch owner.Kind {
	case "StatefulSet":
		return &appsv1.StatefulSet{ObjectMeta: m, Spec: appsv1.StatefulSetSpec{Selector: selector}}
	case "ReplicationController":
		return &corev1.ReplicationController{ObjectMeta: m, Spec: corev1.ReplicationControllerSpec{Selector: selector.MatchLabels}}
	default: // other kinds have no selector that counts, and are not looked up
		return &appsv1.ReplicaSet{ObjectMeta: m, Spec: appsv1.ReplicaSetSpec{Selector: selector}}
	}
}

// controllerUsers are the users by which the controllers of a kind create pods, each with its own credentials
// (cmd/kube-controller-manager/names/controller_names.go and app/apps.go, 1.36.3).
var controllerUsers = map[string]string{
	"ReplicaSet": "replicaset-controller", "StatefulSet": "statefulset-controller", "DaemonSet": "daemon-set-controller",
	"Job": "job-controller", "ReplicationController": "replication-controller",
}

// controllerUser is nobody in particular for a controller that is not Kubernetes' own.
func controllerUser(owner *metav1.OwnerReference) authenticationv1.UserInfo {
	if group := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group; !builtin(group) || controllerUsers[owner.Kind] == "" {
		return authenticationv1.UserInfo{}
	}
	return authenticationv1.UserInfo{
		Username: "system:serviceaccount:kube-system:" + controllerUsers[owner.Kind],
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
	}
}

// stored is the pod as the cluster would have it: one that is there is taken as it is; one that is only a manifest was created, with
// what the policies give it, and runs on some node.
func (s *step) stored(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
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
	pod.UID, pod.Spec.NodeName, pod.Status.Phase = UID, SomeNode, corev1.PodRunning
	return pod, nil
}

// request is what the API server is asked about a subject.
func (s *step) request(ctx context.Context, subject client.Object) (*admission.Request, error) {
	pod, ok := subject.(*corev1.Pod)
	if !ok {
		return s.deleteRequest(subject)
	}
	if s.result.Operation == OperationCreate {
		return s.createRequest(pod)
	}
	s.view.madeUp = append(s.view.madeUp, pod)
	s.result.Policies = s.Policies.Policies().Removal(s.handlers().Lookup.Namespace(ctx, pod.Namespace), s.Exempt).AllNames()
	if s.result.Operation == OperationEvict {
		return s.evictRequest(pod)
	}
	return s.deleteRequest(pod)
}

func (s *step) createRequest(pod *corev1.Pod) (*admission.Request, error) {
	req, err := s.objectRequest(pod, admissionv1.Create)
	if err == nil && req.UserInfo.Username == "" {
		req.UserInfo = s.creator
	}
	return req, err
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
		UID: UID, Kind: metav1.GroupVersionKind(kind), Resource: metav1.GroupVersionResource(resource),
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
	if pod.UID == UID { // so that it is not changed to keep it to a pod by a name that was made up
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
		UID: UID, Kind: metav1.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"},
		Resource:    metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		SubResource: "eviction", Namespace: pod.Namespace, Name: pod.Name, Operation: admissionv1.Create, UserInfo: s.question.User,
		Object: runtime.RawExtension{Raw: raw},
	}}, nil
}

// class is what is to be said of a PriorityClass that is created or deleted; false: nothing. It is Kubernetes' own business, but policies and pods name it.
func (s *step) class(c *schedulingv1.PriorityClass) bool {
	switch s.result.Operation {
	case OperationCreate:
		if why := s.refusedClass(c); why != "" {
			s.deny(string(metav1.StatusReasonInvalid), "the API server refuses it: "+why)
			return true
		}
	case OperationDelete:
		if users := s.usersOf(c.Name); users != "" {
			s.result.Warnings = append(s.result.Warnings, "it is named by "+users+": the API server refuses new pods that name a class which does not exist")
			return true
		}
	}
	return false
}

// refusedClass is why the API server creates no such class, in its words; empty: it does (pkg/apis/scheduling/validation/validation.go ValidatePriorityClass and
// plugin/pkg/admission/priority/admission.go validatePriorityClass, 1.36.3).
func (s *step) refusedClass(c *schedulingv1.PriorityClass) string {
	known := s.State.classes()
	own := known.PriorityClasses[c.Name]
	switch reserved := strings.HasPrefix(c.Name, "system-"); {
	case reserved && (own == nil || own.Value != c.Value):
		return "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only"
	case !reserved && c.Value > policy.HighestUserPriority:
		return fmt.Sprintf("value: Forbidden: maximum allowed value of a user defined priority is %d", policy.HighestUserPriority)
	case !c.GlobalDefault:
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(known.PriorityClasses)) {
		if other := known.PriorityClasses[name]; other.GlobalDefault && name != c.Name {
			return fmt.Sprintf("PriorityClass %s is already marked as default. Only one default can exist. If both exist already, the one with the lowest value counts: %s", name, known.GlobalDefault.Name)
		}
	}
	return ""
}

// maxUsers are named.
const maxUsers = 3

// usersOf names the policies and the pods that name a class.
func (s *step) usersOf(class string) string {
	var users []string
	for _, p := range s.policies {
		if section := p.Spec.Priority; section != nil && (section.ClassName == class || slices.Contains(section.AllowedClassNames, class)) {
			users = append(users, "PodPolicy "+p.Name)
		}
	}
	for _, pod := range Objects[*corev1.Pod](s.State) {
		if pod.Spec.PriorityClassName == class {
			users = append(users, "Pod "+pod.Namespace+"/"+pod.Name)
		}
	}
	if len(users) == 0 {
		return ""
	}
	return console.Some(users, maxUsers, ", ")
}
