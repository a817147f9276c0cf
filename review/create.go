package review

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/review/apiserver"
	"github.com/podgrace/podgrace/webhook"
)

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
		o.SetUID(reviewUID)
	}
	apiserver.Default(o)
	if pod, is := o.(*corev1.Pod); is {
		return pod, nil
	}
	template, err := s.templateOf(o)
	if err != nil || template == nil {
		return nil, err
	}
	apiserver.Default(template.Pod) // a template has only some of a pod's defaults
	s.result.Via = ViaTemplate
	owner := metav1.GetControllerOfNoCopy(template.Pod)
	if owner.UID == "" { // of a ReplicaSet that a Deployment would make
		owner.UID = reviewUID
	}
	s.view.madeUp = append(s.view.madeUp, controllerLike(owner, o.GetNamespace(), template.OwnerSelector))
	s.creator = controllerUser(owner)
	return template.Pod, nil
}

func (s *step) templateOf(o client.Object) (*defaulting.Template, error) {
	if u, is := o.(*unstructured.Unstructured); is {
		return s.State.customPod(u)
	}
	return defaulting.PodOf(o)
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

// creation judges the creation of a pod, or of the pod that a workload's controller would create.
func (s *step) creation(ctx context.Context, o client.Object) (bool, error) {
	if set, is := o.(*appsv1.StatefulSet); is { // the only workload that is refused itself
		if allowed, err := s.workload(ctx, set); err != nil || !allowed {
			return true, err
		}
	}
	pod, err := s.podOf(o)
	if pod == nil || err != nil {
		return false, err
	}
	return true, s.create(ctx, pod)
}

// reviewUID is that of what is not there yet.
const reviewUID = "review"

func encodePod(pod *corev1.Pod) ([]byte, error) {
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	raw, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("encode the pod: %w", err)
	}
	return raw, nil
}

// create admits a pod, made by the one who asks, else by its controller.
func (s *step) create(ctx context.Context, pod *corev1.Pod) error {
	req, err := s.createRequest(pod)
	if err != nil {
		return err
	}
	return s.admit(ctx, req)
}

func (s *step) createRequest(pod *corev1.Pod) (*admission.Request, error) {
	req, err := s.objectRequest(pod, admissionv1.Create)
	if err == nil && req.UserInfo.Username == "" {
		req.UserInfo = s.creator
	}
	return req, err
}

// mutate is the API server's mutating phase for a pod: the in-tree Priority plugin, the webhook, and both again where the
// webhook changed something (k8s.io/apiserver/pkg/admission/reinvocation.go, 0.36.3). It changes the request's object, and
// returns false where the pod is refused.
func (s *step) mutate(ctx context.Context, handlers *webhook.Engine, req *admission.Request) (bool, error) {
	for pass := range 2 {
		pod, err := decodePod(req.Object.Raw)
		if err != nil {
			return false, err
		}
		classes := s.State.classes()
		if goesOn, err := s.resolvePriority(req, pod, classes); err != nil || !goesOn {
			return false, err
		}
		if pass == 0 {
			s.result.Before = req.Object.Raw
		}
		response := handlers.MutatePods(ctx, *req)
		allowed := s.take(response)
		s.missClasses(pod, classes)
		if !allowed || len(response.Patches) == 0 {
			return response.Allowed, nil
		}
		if req.Object.Raw, err = patched(req.Object.Raw, response); err != nil {
			return false, err
		}
	}
	return true, nil
}

// resolvePriority is the in-tree Priority plugin; false: it refuses the pod.
func (s *step) resolvePriority(req *admission.Request, pod *corev1.Pod, classes defaulting.Facts) (goesOn bool, err error) {
	if err := defaulting.ResolvePriority(pod, classes); err != nil {
		s.deny("Priority", "the API server's own Priority plugin refuses it: "+err.Error())
		return false, nil
	}
	req.Object.Raw, err = encodePod(pod)
	return err == nil, err
}

// missClasses notes the PriorityClasses that are not known: the pod's own, or else those that its policies give.
func (s *step) missClasses(pod *corev1.Pod, known defaulting.Facts) {
	miss := func(name string) {
		if _, there := known.PriorityClasses[name]; name != "" && !there && known.Partial {
			s.view.miss("PriorityClass " + name)
		}
	}
	miss(pod.Spec.PriorityClassName)
	for _, p := range s.policies {
		if pod.Spec.PriorityClassName == "" && p.Spec.Priority != nil && slices.Contains(s.result.Policies, p.Name) {
			miss(p.Spec.Priority.ClassName)
		}
	}
}

// mergeKeys does what the API server does between the mutating and the validating webhooks.
func mergeKeys(req *admission.Request) error {
	pod, err := decodePod(req.Object.Raw)
	if err != nil {
		return err
	}
	apiserver.MergeMatchLabelKeys(pod)
	req.Object.Raw, err = encodePod(pod)
	return err
}

func decodePod(raw []byte) (*corev1.Pod, error) {
	var pod corev1.Pod
	if err := json.Unmarshal(raw, &pod); err != nil {
		return nil, fmt.Errorf("decode the pod: %w", err)
	}
	return &pod, nil
}

// patched applies an answer as the API server does.
func patched(raw []byte, response admission.Response) ([]byte, error) {
	text, err := json.Marshal(response.Patches)
	if err != nil {
		return nil, fmt.Errorf("encode the patch: %w", err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, fmt.Errorf("decode the patch: %w", err)
	}
	if raw, err = patch.Apply(raw); err != nil {
		return nil, fmt.Errorf("apply the patch: %w", err)
	}
	return raw, nil
}
